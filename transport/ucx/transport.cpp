#include "transport/ucx/transport.hpp"

#include "src/base/log_once.hpp"
#include "transport/card_exchange.hpp"
#include "transport/ucx/entry.hpp"

namespace tutti::ucx {
namespace {

constexpr std::string_view kTag = "ucx1 ";

/// Each end sends its card through a stream of the bootstrap; then both greet each other over UCX.
class Opening final : public Pending<std::unique_ptr<Endpoint>> {
 public:
  Opening(int peer, std::string address, const Options& options, std::shared_ptr<Worker> worker,
          std::shared_ptr<Registry> registry, bool onDevice, PendingFd stream)
      : peer_(peer),
        address_(std::move(address)),
        options_(options),
        worker_(std::move(worker)),
        registry_(std::move(registry)),
        onDevice_(onDevice),
        stream_(std::move(stream)) {}

  Result<std::unique_ptr<Endpoint>> poll() override {
    if (connection_ == nullptr) {
      TUTTI_ASSIGN(Fd fd, stream_->poll());
      if (!fd.valid()) return std::unique_ptr<Endpoint>();
      TUTTI_ASSIGN(connection_, Connection::create(peer_, worker_, options_, std::move(fd)));
      if (onDevice_) connection_->needLending();
    }
    const auto state = cards_.poll(connection_->stream(), connection_->card());
    if (state == CardExchange<Card>::State::Lost)
      return remoteError(ErrorCode::PeerClosed, "rank ", peer_, " has gone while its ucx connection came up");
    if (state == CardExchange<Card>::State::UnderWay) return std::unique_ptr<Endpoint>();
    TUTTI_ASSIGN(const bool up, connect());
    if (!up) return std::unique_ptr<Endpoint>();
    return std::unique_ptr<Endpoint>(std::make_unique<UcxEndpoint>(peer_, std::move(connection_), registry_));
  }

 private:
  Result<bool> connect() {
    const std::lock_guard lock(worker_->mutex());
    return connection_->connect(cards_.theirs(), address_);
  }

  const int peer_;
  const std::string address_;
  const Options options_;
  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<Registry> registry_;
  const bool onDevice_;  // messages may be for memory of a device
  const PendingFd stream_;
  std::unique_ptr<Connection> connection_;
  CardExchange<Card> cards_;
};

/// Memory that UCX knows, until this ends.
class Registered final : public MemoryRegistration {
 public:
  Registered(std::shared_ptr<Worker> worker, ucp_mem_h memory) : worker_(std::move(worker)), memory_(memory) {}
  ~Registered() override { worker_->deregisterMemory(memory_); }

 private:
  const std::shared_ptr<Worker> worker_;
  const ucp_mem_h memory_;
};

}  // namespace
}  // namespace tutti::ucx

namespace tutti {

UcxTransport::UcxTransport(StreamExchange& streams, int rank, const ucx::Options& options,
                           std::shared_ptr<const AdapterAccess> device)
    : streams_(streams),
      rank_(rank),
      options_(options),
      worker_(ucx::Worker::create(options)),
      takesDevice_(device != nullptr && worker_.ok() && (*worker_)->takes(options.deviceMemory)) {
  if (!worker_.ok()) {
    TUTTI_WARN_ONCE("ucx", "not used: ", worker_.status().text());
    return;
  }
  TUTTI_INFO("ucx", (*worker_)->describe());
  if (device == nullptr) return;
  TUTTI_INFO("ucx", "rank ", rank_, ": memory of the device at ", device->busId(),
             takesDevice_ ? " is UCX's to read and write" : " passes through the host, as UCX does not take it");
}

Result<LinkProfile> UcxTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "a rank is not its own peer");
  if (!worker_.ok() && (self.rank == rank_ || peer.rank == rank_)) return worker_.status();
  LinkProfile link = self.hostId == peer.hostId ? kUcxLocal : kUcxRemote;
  link.memory.device = takesDevice_;
  return link;
}

Address UcxTransport::address() const { return worker_.ok() ? cat(ucx::kTag, (*worker_)->address()) : ""; }

PendingEndpoint UcxTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  if (!worker_.ok()) return refusedEndpoint(worker_.status());
  if (!peerAddress.starts_with(ucx::kTag))
    return refusedEndpoint(remoteError(ErrorCode::Malformed, "rank ", peer, " gave no address of ucx"));
  return std::make_unique<ucx::Opening>(peer, peerAddress.substr(ucx::kTag.size()), options_, *worker_, registry_,
                                        takesDevice_, streams_.open(peer, lane));
}

Result<std::unique_ptr<MemoryRegistration>> UcxTransport::registerMemory(const Memory& memory) {
  TUTTI_TRY(worker_.status());
  const bool onDevice = memory.kind == MemoryKind::Device;
  if (onDevice && !takesDevice_)
    return invalidUsage(ErrorCode::TransportAbsent, "UCX does not take memory of the rank's device");
  const ucs_memory_type_t type = onDevice ? options_.deviceMemory : UCS_MEMORY_TYPE_HOST;
  TUTTI_ASSIGN(const ucp_mem_h handle, (*worker_)->registerMemory(memory, type));
  return registry_->add(memory, {handle, type, onDevice}, std::make_unique<ucx::Registered>(*worker_, handle));
}

}  // namespace tutti

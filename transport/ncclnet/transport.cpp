#include "transport/ncclnet/transport.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <optional>

#include "src/base/log_once.hpp"
#include "transport/card_exchange.hpp"
#include "transport/ncclnet/endpoint.hpp"
#include "transport/ncclnet/entry.hpp"

namespace tutti::ncclnet {
namespace {

constexpr std::string_view kTag = "ncclnet2 ";

using OnDevice = Connection::OnDevice;

/// Each end listens and sends its card through a stream of the bootstrap; then both connect and accept.  Two ranks on
/// devices do the same once more, for payloads.
class Opening final : public Pending<std::unique_ptr<Endpoint>> {
 public:
  Opening(int peer, const Options& options, std::shared_ptr<Plugin> plugin, std::shared_ptr<Endpoints> all,
          OnDevice onDevice, std::shared_ptr<Registry> registry, PendingFd stream)
      : peer_(peer),
        options_(options),
        plugin_(std::move(plugin)),
        all_(std::move(all)),
        onDevice_(onDevice),
        registry_(std::move(registry)),
        stream_(std::move(stream)) {}

  Result<std::unique_ptr<Endpoint>> poll() override {
    if (connection_ == nullptr) {
      TUTTI_ASSIGN(Fd fd, stream_->poll());
      if (!fd.valid()) return std::unique_ptr<Endpoint>();
      TUTTI_ASSIGN(connection_, Connection::create(peer_, plugin_, options_, std::move(fd), onDevice_));
    }
    TUTTI_ASSIGN(const bool up, goOn());
    if (!up) return std::unique_ptr<Endpoint>();
    return std::unique_ptr<Endpoint>(std::make_unique<NcclnetEndpoint>(peer_, std::move(connection_), all_, registry_));
  }

 private:
  /// Whether all is up.
  Result<bool> goOn() {
    TUTTI_ASSIGN(const bool known, exchanged(&cards_, connection_->card()));
    if (!known) return false;
    TUTTI_ASSIGN(const bool up, connection_->connect(&cards_.theirs()));
    if (!up) TUTTI_TRY(stillThere());
    if (!up || !connection_->payloadsApart()) return up;
    if (!mine_) {
      TUTTI_ASSIGN(mine_, connection_->listenForPayloads());
    }
    TUTTI_ASSIGN(const bool told, exchanged(&payloadCards_, *mine_));
    return told ? connection_->connectPayloads(&payloadCards_.theirs()) : Result<bool>(false);
  }
  template <class T>
  Result<bool> exchanged(CardExchange<T>* cards, const T& mine) {
    const auto state = cards->poll(connection_->stream(), mine);
    if (state == CardExchange<T>::State::Lost) return lost();
    return state == CardExchange<T>::State::Done;
  }
  Status stillThere() const {
    std::byte next;
    const ssize_t n = recv(connection_->stream(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ? lost() : Status();
  }
  Status lost() const {
    return remoteError(ErrorCode::PeerClosed, "rank ", peer_, " has gone while its ncclnet connection came up (",
                       plugin_->describe(), ")");
  }

  const int peer_;
  const Options options_;
  const std::shared_ptr<Plugin> plugin_;
  const std::shared_ptr<Endpoints> all_;
  const OnDevice onDevice_;
  const std::shared_ptr<Registry> registry_;  // null: the rank is on no device
  const PendingFd stream_;
  std::unique_ptr<Connection> connection_;
  CardExchange<Card> cards_;
  std::optional<PayloadCard> mine_;
  CardExchange<PayloadCard> payloadCards_;
};

/// Memory that is registered until this ends.
class RegionHolder final : public MemoryRegistration {
 public:
  explicit RegionHolder(std::shared_ptr<Region> region) : region_(std::move(region)) {}
  ~RegionHolder() override { region_->end(); }

 private:
  const std::shared_ptr<Region> region_;
};

}  // namespace
}  // namespace tutti::ncclnet

namespace tutti {

NcclnetTransport::NcclnetTransport(StreamExchange& streams, int rank, const ncclnet::Options& options,
                                   std::shared_ptr<const AdapterAccess> device)
    : streams_(streams),
      rank_(rank),
      options_(options),
      plugin_(ncclnet::Plugin::open(options, ncclnet::kHeaderBytes + options.slotBytes)),
      endpoints_(ncclnet::Endpoints::create()),
      device_(std::move(device)) {
  if (plugin_.ok()) {
    TUTTI_INFO("ncclnet", (*plugin_)->describe());
  } else if (options.plugins.empty() || options.plugins == "none") {
    TUTTI_DEBUG("ncclnet", "not used: ", plugin_.status().text());
  } else {
    TUTTI_WARN_ONCE("ncclnet", "not used: ", plugin_.status().text());
  }
  if (device_ != nullptr) tryDevice();
}

void NcclnetTransport::tryDevice() {
  const Status usable = plugin_.ok() ? (*plugin_)->takes(*device_, options_.farthest) : plugin_.status();
  if (plugin_.ok() && usable.ok())
    TUTTI_INFO("ncclnet", "rank ", rank_, ": the ", (*plugin_)->describe(),
               " reads and writes memory of the device at ", device_->busId(), " straight",
               onDevice() == ncclnet::Connection::OnDevice::Flushed ? ", and flushes what it has written" : "");
  if (plugin_.ok() && !usable.ok())
    TUTTI_INFO("ncclnet", "rank ", rank_, ": device memory passes through the host: ", usable.message());
  if (!usable.ok()) device_ = nullptr;
}

/// The plugin flushes where it has a call for that: by the way that the data came.
ncclnet::Connection::OnDevice NcclnetTransport::onDevice() const {
  using OnDevice = ncclnet::Connection::OnDevice;
  if (device_ == nullptr) return OnDevice::No;
  const bool asked = !device_->ordersWrites() || (*plugin_)->properties().alwaysFlush;
  return asked && (*plugin_)->net().hasFlush() ? OnDevice::Flushed : OnDevice::Ordered;
}

Result<LinkProfile> NcclnetTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "a rank is not its own peer");
  if (!plugin_.ok() && (self.rank == rank_ || peer.rank == rank_)) return plugin_.status();
  LinkProfile link = self.hostId == peer.hostId ? kNcclnetLocal : kNcclnetRemote;
  if (device_ == nullptr) return link;
  link.memory.device = link.registers = link.puts = true;
  link.flushes = !(*plugin_)->net().hasFlush();
  return link;
}

Address NcclnetTransport::address() const { return plugin_.ok() ? cat(ncclnet::kTag, (*plugin_)->name()) : ""; }

PendingEndpoint NcclnetTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  if (!plugin_.ok()) return refusedEndpoint(plugin_.status());
  if (!endpoints_.ok()) return refusedEndpoint(endpoints_.status());
  if (!peerAddress.starts_with(ncclnet::kTag))
    return refusedEndpoint(remoteError(ErrorCode::Malformed, "rank ", peer, " gave no address of ncclnet"));
  const std::string_view theirs = std::string_view(peerAddress).substr(ncclnet::kTag.size());
  if (const Status same = checkSameSetting<std::string_view>("TUTTI_NET_PLUGIN", (*plugin_)->name(), theirs, peer);
      !same.ok())
    return refusedEndpoint(same);
  return std::make_unique<ncclnet::Opening>(peer, options_, *plugin_, *endpoints_, onDevice(),
                                            device_ != nullptr ? registry_ : nullptr, streams_.open(peer, lane));
}

Result<std::unique_ptr<MemoryRegistration>> NcclnetTransport::registerMemory(const Memory& memory) {
  TUTTI_TRY(plugin_.status());
  const bool onDevice = memory.kind == MemoryKind::Device;
  if (device_ == nullptr && onDevice)
    return invalidUsage(ErrorCode::TransportAbsent, "memory of devices is not for its plugin");
  if (device_ == nullptr) return std::unique_ptr<MemoryRegistration>();
  const int takes = (*plugin_)->properties().memory;
  std::optional<AdapterAccess::DmaBuf> buffer;
  if (onDevice && (takes & ncclnet::kByDmaBuf) != 0) {
    Result<AdapterAccess::DmaBuf> given = device_->dmaBuf(memory);
    if (!given.ok() && (takes & ncclnet::kCudaMemory) == 0) return given.status();
    if (given.ok()) buffer = std::move(*given);
  }
  auto region = std::make_shared<ncclnet::Region>(memory, std::move(buffer));
  return registry_->add(memory, region, std::make_unique<ncclnet::RegionHolder>(region));
}

}  // namespace tutti

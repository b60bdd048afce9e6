#include "transport/verbs/transport.hpp"

#include "src/base/log.hpp"
#include "transport/card_exchange.hpp"
#include "transport/verbs/endpoint.hpp"
#include "transport/verbs/entry.hpp"

namespace tutti::verbs {
namespace {

constexpr std::string_view kTag = "verbs3 ";

/// Each end sends its card through a stream of the bootstrap, and when its queue pair is ready to receive one byte
/// more: what is sent before that would be lost, and come late.
class Opening final : public Pending<std::unique_ptr<Endpoint>> {
 public:
  Opening(int peer, std::string there, const Options& options, const Rails& rails, bool onDevice,
          std::shared_ptr<Completions> completions, std::shared_ptr<Registry> registry, PendingFd stream)
      : peer_(peer),
        there_(std::move(there)),
        options_(options),
        rails_(rails),
        onDevice_(onDevice),
        completions_(std::move(completions)),
        registry_(std::move(registry)),
        stream_(std::move(stream)) {}

  Result<std::unique_ptr<Endpoint>> poll() override {
    if (connection_ == nullptr) {
      TUTTI_ASSIGN(Fd fd, stream_->poll());
      if (!fd.valid()) return std::unique_ptr<Endpoint>();
      TUTTI_ASSIGN(connection_, Connection::create(peer_, rails_, completions_, options_, std::move(fd)));
      if (onDevice_) connection_->readStaged();
    }
    TUTTI_ASSIGN(const bool known, exchanged(&cards_, connection_->card()));
    if (!known) return std::unique_ptr<Endpoint>();
    if (!connected_) TUTTI_TRY(connect());
    TUTTI_ASSIGN(const bool ready, exchanged(&readiness_, std::byte{}));
    if (!ready) return std::unique_ptr<Endpoint>();
    return std::unique_ptr<Endpoint>(std::make_unique<VerbsEndpoint>(peer_, std::move(connection_), registry_));
  }

 private:
  template <class Card>
  Result<bool> exchanged(CardExchange<Card>* cards, const Card& mine) {
    using State = typename CardExchange<Card>::State;
    const State state = cards->poll(connection_->stream(), mine);
    if (state != State::Lost) return state == State::Done;
    return remoteError(ErrorCode::PeerClosed, "rank ", peer_, " (", there_,
                       ") has gone while its verbs connection came up");
  }
  Status connect() {
    const Status status = connection_->connect(cards_.theirs(), options_);
    if (!status.ok()) return Status(status.code(), cat("rank ", peer_, " (", there_, "): ", status.text()));
    connected_ = true;
    explain();
    return {};
  }
  void explain() const {
    std::string pairs;
    const auto theirs = split(there_, ',');
    for (uint32_t k = 0; k < connection_->rails() && k < theirs.size(); ++k) {
      pairs += cat(k == 0 ? "" : ", ", rails_[k]->name(), " with its ", theirs[k]);
    }
    TUTTI_DEBUG("verbs", "to rank ", peer_, ": ", pairs, " by ", options_.queuePairs, " queue pairs each; here are ",
                rails_.size(), " ports, there ", theirs.size(), "; a message is split over ",
                options_.splits            ? "all queue pairs"
                : connection_->rails() > 1 ? "the ports"
                                           : "none");
  }

  const int peer_;
  const std::string there_;
  const Options options_;
  const Rails rails_;
  const bool onDevice_;  // messages may be for memory of a device
  const std::shared_ptr<Completions> completions_;
  const std::shared_ptr<Registry> registry_;
  const PendingFd stream_;
  std::unique_ptr<Connection> connection_;
  bool connected_ = false;
  CardExchange<ConnectionCard> cards_;
  CardExchange<std::byte> readiness_;
};

}  // namespace
}  // namespace tutti::verbs

namespace tutti {

VerbsTransport::VerbsTransport(StreamExchange& streams, int rank, const verbs::Options& options,
                               std::shared_ptr<const AdapterAccess> device)
    : streams_(streams),
      rank_(rank),
      options_(options),
      rails_(verbs::Device::open(options)),
      device_(std::move(device)) {
  if (!rails_.ok()) TUTTI_DEBUG("verbs", "not used: ", rails_.status().message());
  if (device_ != nullptr) tryDevice();
}

void VerbsTransport::tryDevice() {
  const Status usable = rails_.ok() ? verbs::checkDevice(*rails_, *device_, options_.farthest) : rails_.status();
  if (rails_.ok() && usable.ok())
    TUTTI_INFO("verbs", "rank ", rank_, ": ", (*rails_)[0]->name(), " reads and writes memory of the device at ",
               device_->busId(), " straight");
  if (rails_.ok() && !usable.ok())
    TUTTI_INFO("verbs", "rank ", rank_, ": device memory passes through the host: ", usable.message());
  if (!usable.ok()) device_ = nullptr;
}

Result<LinkProfile> VerbsTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "a rank is not its own peer");
  if (!rails_.ok() && (self.rank == rank_ || peer.rank == rank_)) return rails_.status();
  LinkProfile link = self.hostId == peer.hostId ? kVerbsLocal : kVerbsRemote;
  link.memory.device = device_ != nullptr;
  return link;
}

Address VerbsTransport::address() const {
  if (!rails_.ok()) return "";
  std::string names;
  for (const auto& rail : *rails_) names += cat(names.empty() ? "" : ",", rail->name());
  return cat(verbs::kTag, names);
}

Result<std::shared_ptr<verbs::Completions>> VerbsTransport::completions() {
  const std::lock_guard lock(mutex_);
  if (completions_ != nullptr) return completions_;
  TUTTI_ASSIGN(completions_, verbs::Completions::create(*rails_));
  return completions_;
}

Sleeper* VerbsTransport::sleeper() {
  if (!rails_.ok()) return nullptr;
  const auto made = completions();
  return made.ok() ? made->get() : nullptr;
}

bool VerbsTransport::progress() {
  const std::lock_guard lock(mutex_);
  return completions_ != nullptr && completions_->progress();
}

PendingEndpoint VerbsTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  if (!rails_.ok()) return refusedEndpoint(rails_.status());
  if (!peerAddress.starts_with(verbs::kTag))
    return refusedEndpoint(remoteError(ErrorCode::Malformed, "rank ", peer, " gave no address of verbs"));
  const auto made = completions();
  if (!made.ok()) return refusedEndpoint(made.status());
  return std::make_unique<verbs::Opening>(peer, peerAddress.substr(verbs::kTag.size()), options_, *rails_,
                                          device_ != nullptr, *made, registry_, streams_.open(peer, lane));
}

Result<std::unique_ptr<MemoryRegistration>> VerbsTransport::registerMemory(const Memory& memory) {
  TUTTI_TRY(rails_.status());
  const bool onDevice = memory.kind == MemoryKind::Device;
  if (onDevice && device_ == nullptr)
    return invalidUsage(ErrorCode::TransportAbsent, "memory of devices is not for its adapters");
  TUTTI_ASSIGN(auto kept, verbs::Registered::make(*rails_, memory, verbs::Registered::Use::Lent,
                                                  options_.relaxedOrdering, onDevice ? device_.get() : nullptr));
  const verbs::Keys keys = kept->keys();
  return registry_->add(memory, keys, std::move(kept));
}

}  // namespace tutti

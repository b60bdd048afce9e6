#include "transport/verbs/transport.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/log.hpp"
#include "transport/verbs/endpoint.hpp"
#include "transport/verbs/entry.hpp"

namespace tutti::verbs {
namespace {

constexpr std::string_view kTag = "verbs1 ";

/// Each end sends its card through a stream of the bootstrap, and when its queue pair is ready to receive one byte
/// more: what is sent before that would be lost, and come late.
class Opening final : public Pending<std::unique_ptr<Endpoint>> {
 public:
  Opening(int peer, std::string there, const Options& options, std::shared_ptr<Device> device,
          std::shared_ptr<Completions> completions, std::shared_ptr<Registry> registry, PendingFd stream)
      : peer_(peer),
        there_(std::move(there)),
        options_(options),
        device_(std::move(device)),
        completions_(std::move(completions)),
        registry_(std::move(registry)),
        stream_(std::move(stream)) {}

  Result<std::unique_ptr<Endpoint>> poll() override {
    if (connection_ == nullptr) {
      TUTTI_ASSIGN(Fd fd, stream_->poll());
      if (!fd.valid()) return std::unique_ptr<Endpoint>();
      TUTTI_TRY(begin(std::move(fd)));
    }
    TUTTI_TRY(push());
    TUTTI_TRY(pull());
    if (got_ == come_.size() && sent_ == go_.size()) {
      return std::unique_ptr<Endpoint>(std::make_unique<VerbsEndpoint>(peer_, std::move(connection_), registry_));
    }
    return std::unique_ptr<Endpoint>();
  }

 private:
  static constexpr size_t kCardBytes = sizeof(ConnectionCard);
  using Bytes = std::array<std::byte, kCardBytes + 1>;

  Status begin(Fd fd) {
    TUTTI_ASSIGN(connection_, Connection::create(peer_, device_, completions_, options_, std::move(fd)));
    std::memcpy(go_.data(), &connection_->card(), kCardBytes);
    return {};
  }
  // The last byte goes when the peer's card has come.
  Status push() {
    while (sent_ < (connected_ ? go_.size() : kCardBytes)) {
      const size_t end = connected_ ? go_.size() : kCardBytes;
      const ssize_t n = send(connection_->stream(), go_.data() + sent_, end - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
      if (n <= 0) return lost();
      sent_ += static_cast<size_t>(n);
    }
    return {};
  }
  Status pull() {
    while (got_ < come_.size()) {
      const ssize_t n = recv(connection_->stream(), come_.data() + got_, come_.size() - got_, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
      if (n <= 0) return lost();
      got_ += static_cast<size_t>(n);
      if (got_ >= kCardBytes && !connected_) TUTTI_TRY(connect());
    }
    return {};
  }
  Status connect() {
    ConnectionCard theirs;
    std::memcpy(&theirs, come_.data(), kCardBytes);
    const Status status = connection_->connect(theirs, options_);
    if (!status.ok()) return Status(status.code(), cat("rank ", peer_, " (", there_, "): ", status.message()));
    connected_ = true;
    return push();
  }
  Status lost() const {
    return remoteError("rank ", peer_, " (", there_, ") has gone while its verbs connection came up");
  }

  const int peer_;
  const std::string there_;
  const Options options_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Completions> completions_;
  const std::shared_ptr<Registry> registry_;
  const PendingFd stream_;
  std::unique_ptr<Connection> connection_;
  bool connected_ = false;
  Bytes go_{}, come_{};
  size_t sent_ = 0, got_ = 0;
};

}  // namespace
}  // namespace tutti::verbs

namespace tutti {

VerbsTransport::VerbsTransport(StreamExchange& streams, int rank, const verbs::Options& options)
    : streams_(streams), rank_(rank), options_(options), device_(verbs::Device::open(options)) {
  if (!device_.ok()) TUTTI_DEBUG("verbs", "not used: ", device_.status().message());
}

Result<LinkProfile> VerbsTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage("a rank is not its own peer");
  if (!device_.ok() && (self.rank == rank_ || peer.rank == rank_)) return device_.status();
  return self.hostId == peer.hostId ? kVerbsLocal : kVerbsRemote;
}

Address VerbsTransport::address() const { return device_.ok() ? cat(verbs::kTag, (*device_)->name()) : ""; }

Result<std::shared_ptr<verbs::Completions>> VerbsTransport::completions() {
  const std::lock_guard lock(mutex_);
  if (completions_ != nullptr) return completions_;
  TUTTI_ASSIGN(completions_, verbs::Completions::create(*device_));
  return completions_;
}

Sleeper* VerbsTransport::sleeper() {
  if (!device_.ok()) return nullptr;
  const auto made = completions();
  return made.ok() ? made->get() : nullptr;
}

bool VerbsTransport::progress() {
  const std::lock_guard lock(mutex_);
  return completions_ != nullptr && completions_->progress();
}

PendingEndpoint VerbsTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  if (!device_.ok()) return refusedEndpoint(device_.status());
  if (!peerAddress.starts_with(verbs::kTag))
    return refusedEndpoint(remoteError("rank ", peer, " gave no address of verbs"));
  const auto made = completions();
  if (!made.ok()) return refusedEndpoint(made.status());
  return std::make_unique<verbs::Opening>(peer, peerAddress.substr(verbs::kTag.size()), options_, *device_, *made,
                                          registry_, streams_.open(peer, lane));
}

Result<std::unique_ptr<MemoryRegistration>> VerbsTransport::registerMemory(const Memory& memory) {
  TUTTI_TRY(device_.status());
  TUTTI_ASSIGN(auto kept, verbs::Registered::make(*device_, memory, false));
  const verbs::Keys keys{kept->localKey(), kept->remoteKey()};
  return registry_->add(memory, keys, std::move(kept));
}

}  // namespace tutti

#include "transport/ncclnet/transport.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "src/base/log.hpp"
#include "transport/card_exchange.hpp"
#include "transport/ncclnet/endpoint.hpp"
#include "transport/ncclnet/entry.hpp"

namespace tutti::ncclnet {
namespace {

constexpr std::string_view kTag = "ncclnet1 ";

/// Each end listens and sends its card through a stream of the bootstrap; then both connect and accept.
class Opening final : public Pending<std::unique_ptr<Endpoint>> {
 public:
  Opening(int peer, const Options& options, std::shared_ptr<Plugin> plugin, std::shared_ptr<Endpoints> all,
          PendingFd stream)
      : peer_(peer), options_(options), plugin_(std::move(plugin)), all_(std::move(all)), stream_(std::move(stream)) {}

  Result<std::unique_ptr<Endpoint>> poll() override {
    if (connection_ == nullptr) {
      TUTTI_ASSIGN(Fd fd, stream_->poll());
      if (!fd.valid()) return std::unique_ptr<Endpoint>();
      TUTTI_ASSIGN(connection_, Connection::create(peer_, plugin_, options_, std::move(fd)));
    }
    const auto state = cards_.poll(connection_->stream(), connection_->card());
    if (state == CardExchange<Card>::State::Lost) return lost();
    if (state == CardExchange<Card>::State::UnderWay) return std::unique_ptr<Endpoint>();
    TUTTI_ASSIGN(const bool up, connection_->connect(&cards_.theirs()));
    if (!up) TUTTI_TRY(stillThere());
    if (!up) return std::unique_ptr<Endpoint>();
    return std::unique_ptr<Endpoint>(std::make_unique<NcclnetEndpoint>(peer_, std::move(connection_), all_));
  }

 private:
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
  const PendingFd stream_;
  std::unique_ptr<Connection> connection_;
  CardExchange<Card> cards_;
};

}  // namespace
}  // namespace tutti::ncclnet

namespace tutti {

NcclnetTransport::NcclnetTransport(StreamExchange& streams, int rank, const ncclnet::Options& options)
    : streams_(streams),
      rank_(rank),
      options_(options),
      plugin_(ncclnet::Plugin::open(options, ncclnet::kHeaderBytes + options.slotBytes)),
      endpoints_(ncclnet::Endpoints::create()) {
  if (plugin_.ok()) {
    TUTTI_INFO("ncclnet", (*plugin_)->describe());
  } else if (options.plugins.empty() || options.plugins == "none") {
    TUTTI_DEBUG("ncclnet", "not used: ", plugin_.status().text());
  } else {
    TUTTI_WARN("ncclnet", "not used: ", plugin_.status().text());
  }
}

Result<LinkProfile> NcclnetTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "a rank is not its own peer");
  if (!plugin_.ok() && (self.rank == rank_ || peer.rank == rank_)) return plugin_.status();
  return self.hostId == peer.hostId ? kNcclnetLocal : kNcclnetRemote;
}

Address NcclnetTransport::address() const { return plugin_.ok() ? cat(ncclnet::kTag, (*plugin_)->name()) : ""; }

PendingEndpoint NcclnetTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  if (!plugin_.ok()) return refusedEndpoint(plugin_.status());
  if (!endpoints_.ok()) return refusedEndpoint(endpoints_.status());
  if (!peerAddress.starts_with(ncclnet::kTag))
    return refusedEndpoint(remoteError("rank ", peer, " gave no address of ncclnet"));
  const std::string_view theirs = std::string_view(peerAddress).substr(ncclnet::kTag.size());
  if (const Status same = checkSameSetting<std::string_view>("TUTTI_NET_PLUGIN", (*plugin_)->name(), theirs, peer);
      !same.ok())
    return refusedEndpoint(same);
  return std::make_unique<ncclnet::Opening>(peer, options_, *plugin_, *endpoints_, streams_.open(peer, lane));
}

}  // namespace tutti

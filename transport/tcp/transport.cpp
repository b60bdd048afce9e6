#include "transport/tcp/transport.hpp"

#include <charconv>
#include <cstdlib>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "transport/tcp/endpoint.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti {
namespace {

constexpr std::string_view kTag = "tcp1";
constexpr size_t kMostSlotBytes = size_t{1} << 26;

// Takes " key=NUMBER" off the front of text.
bool takeNumber(std::string_view& text, std::string_view key, size_t* value) {
  if (!text.starts_with(key)) return false;
  text.remove_prefix(key.size());
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(next - text.data()));
  return true;
}

Status checkSame(int rank, int peer, const char* variable, size_t mine, size_t theirs) {
  if (mine == theirs) return {};
  return invalidUsage(variable, " is ", mine, " on rank ", rank, " and ", theirs, " on rank ", peer,
                      "; it must be the same on all ranks");
}

}  // namespace

struct TcpTransport::State {
  StreamExchange& streams;
  int rank;
  TcpOptions options;
  std::shared_ptr<FdSleeper> sleeper;
  std::shared_ptr<tcp::EmptyLooks> looks = std::make_shared<tcp::EmptyLooks>();
};

Result<TcpOptions> TcpOptions::fromConfig() {
  TUTTI_ASSIGN(const int64_t nSockets, configInteger("TUTTI_NSOCKETS"));
  TUTTI_ASSIGN(const int64_t slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  TcpOptions options;
  options.nSockets = static_cast<int>(nSockets);
  // Its default is made for shared memory.
  if (configIsSet("TUTTI_SLOT_BYTES")) options.slotBytes = static_cast<size_t>(slotBytes);
  TUTTI_DEBUG("tcp", options.nSockets, " sockets to a peer, messages of at most ", options.slotBytes, " bytes");
  return options;
}

Address encodeTcpAddress(const TcpOptions& options) {
  return cat(kTag, " sockets=", options.nSockets, " slot=", options.slotBytes);
}

Result<TcpOptions> decodeTcpAddress(const Address& address) {
  std::string_view text(address);
  size_t nSockets = 0;
  size_t slotBytes = 0;
  const bool tagged = text.starts_with(kTag);
  if (tagged) text.remove_prefix(kTag.size());
  const bool good = tagged && takeNumber(text, " sockets=", &nSockets) && takeNumber(text, " slot=", &slotBytes) &&
                    text.empty() && nSockets >= 1 && nSockets <= tcp::kMaxSockets && slotBytes >= 1 &&
                    slotBytes <= kMostSlotBytes;
  if (!good) return remoteError("not a tcp address: ", toHex(address.data(), std::min<size_t>(address.size(), 64)));
  return TcpOptions{static_cast<int>(nSockets), slotBytes};
}

TcpTransport::TcpTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}
TcpTransport::~TcpTransport() = default;

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(StreamExchange& streams, int rank,
                                                           const TcpOptions& options) {
  if (options.nSockets < 1 || options.nSockets > tcp::kMaxSockets) {
    return invalidUsage("TUTTI_NSOCKETS=", options.nSockets, " is outside 1..", tcp::kMaxSockets);
  }
  TUTTI_ASSIGN(std::shared_ptr<FdSleeper> sleeper, FdSleeper::create());
  auto state = std::make_unique<State>(State{streams, rank, options, std::move(sleeper)});
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(state)));
}

Result<LinkProfile> TcpTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage("a rank is not its own peer");
  return self.hostId == peer.hostId ? kTcpLocal : kTcpRemote;
}

Address TcpTransport::address() const { return encodeTcpAddress(state_->options); }

bool TcpTransport::progress() { return state_->sleeper->progress(); }

Sleeper* TcpTransport::sleeper() { return state_->sleeper.get(); }

Status TcpTransport::checkAddress(int peer, const Address& peerAddress) const {
  const TcpOptions& mine = state_->options;
  TUTTI_ASSIGN(const TcpOptions theirs, decodeTcpAddress(peerAddress));
  TUTTI_TRY(checkSame(state_->rank, peer, "TUTTI_NSOCKETS", static_cast<size_t>(mine.nSockets),
                      static_cast<size_t>(theirs.nSockets)));
  return checkSame(state_->rank, peer, "TUTTI_SLOT_BYTES", mine.slotBytes, theirs.slotBytes);
}

// All sockets are dialed side by side.
PendingEndpoint TcpTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  const Status usable = checkAddress(peer, peerAddress);
  std::vector<PendingFd> opening;
  for (int i = 0; usable.ok() && i < state_->options.nSockets; ++i) {
    opening.push_back(state_->streams.open(peer, lane * state_->options.nSockets + i));
  }
  return endpointBy(
      [=, this, opening = std::move(opening), fds = std::vector<Fd>()]() mutable -> Result<std::unique_ptr<Endpoint>> {
        TUTTI_TRY(usable);
        while (fds.size() < opening.size()) {
          TUTTI_ASSIGN(Fd fd, opening[fds.size()]->poll());
          if (!fd.valid()) return std::unique_ptr<Endpoint>();
          fds.push_back(std::move(fd));
        }
        return std::unique_ptr<Endpoint>(std::make_unique<tcp::TcpEndpoint>(
            peer, lane, std::move(fds), state_->options.slotBytes, state_->sleeper, state_->looks));
      });
}

}  // namespace tutti

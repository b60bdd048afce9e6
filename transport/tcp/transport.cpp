#include "transport/tcp/transport.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "transport/same_setting.hpp"
#include "transport/tcp/endpoint.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti {
namespace {

constexpr std::string_view kTag = "tcp4";
constexpr size_t kMostSlotBytes = size_t{1} << 26;

// Takes " key=NUMBER" off the front of text.
template <class T>
bool takeNumber(std::string_view& text, std::string_view key, T* value) {
  if (!text.starts_with(key)) return false;
  text.remove_prefix(key.size());
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(next - text.data()));
  return true;
}

constexpr std::string_view kReconnects[] = {"none", "hosts", "all"};
constexpr std::string_view kProtections[] = {"TUTTI_INTEGRITY=crc", "TUTTI_INTEGRITY=mac", "TUTTI_ENCRYPT=1"};

Result<tcp::Protection> protectionFromConfig() {
  TUTTI_ASSIGN(const int64_t encrypts, configInteger("TUTTI_ENCRYPT"));
  TUTTI_ASSIGN(const size_t integrity, configChoice("TUTTI_INTEGRITY"));
  const auto asked = encrypts == 1    ? tcp::Protection::Encryption
                     : integrity == 1 ? tcp::Protection::Tags
                                      : tcp::Protection::Checksums;
  if (asked == tcp::Protection::Checksums) return asked;
  if (const Status found = Gcm::available(); !found.ok())
    return invalidUsage(ErrorCode::NotEncrypted, kProtections[static_cast<size_t>(asked)], ": ", found.message());
  return asked;
}

}  // namespace

struct TcpTransport::State {
  StreamExchange& streams;
  int rank;
  TcpOptions options;
  std::shared_ptr<FdSleeper> sleeper;
  std::shared_ptr<tcp::Reopener> reopener;  // null where nothing is made again
  std::shared_ptr<tcp::EmptyLooks> looks = std::make_shared<tcp::EmptyLooks>();
};

Result<TcpOptions> TcpOptions::fromConfig() {
  TUTTI_ASSIGN(const int64_t nSockets, configInteger("TUTTI_NSOCKETS"));
  TUTTI_ASSIGN(const int64_t slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  TcpOptions options;
  options.nSockets = static_cast<int>(nSockets);
  // Its default is made for shared memory.
  if (configIsSet("TUTTI_SLOT_BYTES")) options.slotBytes = static_cast<size_t>(slotBytes);
  TUTTI_ASSIGN(const size_t reconnect, configChoice("TUTTI_RECONNECT"));
  options.reconnect = static_cast<Reconnect>(reconnect);
  TUTTI_ASSIGN(const int64_t windowBytes, configInteger("TUTTI_RECONNECT_BYTES"));
  options.windowBytes = static_cast<size_t>(windowBytes);
  TUTTI_ASSIGN(options.reconnectMs, configInteger("TUTTI_RECONNECT_MS"));
  options.tuning.congestion = configText("TUTTI_TCP_CONGESTION");
  TUTTI_ASSIGN(const int64_t busyPollUs, configInteger("TUTTI_TCP_BUSY_POLL_US"));
  options.tuning.busyPollUs = static_cast<int>(busyPollUs);
  TUTTI_TRY(options.tuning.check());
  TUTTI_ASSIGN(options.protection, protectionFromConfig());
  TUTTI_DEBUG("tcp", "bytes are under ", kProtections[static_cast<size_t>(options.protection)]);
  TUTTI_DEBUG("tcp", "between hosts: congestion control ",
              options.tuning.congestion.empty() ? "of the system" : options.tuning.congestion, ", busy poll ",
              options.tuning.busyPollUs, " us");
  TUTTI_DEBUG("tcp", options.nSockets, " sockets to a peer, messages of at most ", options.slotBytes, " bytes");
  TUTTI_DEBUG("tcp", "connections are made again: ", kReconnects[static_cast<size_t>(options.reconnect)], ", within ",
              options.reconnectMs, " ms, from ", options.windowBytes, " bytes that are kept");
  return options;
}

Address encodeTcpAddress(const TcpOptions& options) {
  return cat(kTag, " sockets=", options.nSockets, " slot=", options.slotBytes,
             " reconnect=", static_cast<int>(options.reconnect), " window=", options.windowBytes,
             " host=", options.hostId, " paths=", options.nPaths, " seal=", static_cast<int>(options.protection));
}

Result<TcpOptions> decodeTcpAddress(const Address& address) {
  std::string_view text(address);
  size_t nSockets = 0, slotBytes = 0, reconnect = 0, windowBytes = 0, nPaths = 0, seal = 0;
  uint64_t hostId = 0;
  const bool tagged = text.starts_with(kTag);
  if (tagged) text.remove_prefix(kTag.size());
  const bool good = tagged && takeNumber(text, " sockets=", &nSockets) && takeNumber(text, " slot=", &slotBytes) &&
                    takeNumber(text, " reconnect=", &reconnect) && takeNumber(text, " window=", &windowBytes) &&
                    takeNumber(text, " host=", &hostId) && takeNumber(text, " paths=", &nPaths) &&
                    takeNumber(text, " seal=", &seal) && text.empty() && seal < std::size(kProtections) &&
                    nPaths >= 1 && nPaths <= kMostStreamPaths && reconnect < std::size(kReconnects) && nSockets >= 1 &&
                    nSockets <= tcp::kMaxSockets && slotBytes >= 1 && slotBytes <= kMostSlotBytes;
  if (!good)
    return remoteError(ErrorCode::Malformed,
                       "not a tcp address: ", toHex(address.data(), std::min<size_t>(address.size(), 64)));
  return TcpOptions{.nSockets = static_cast<int>(nSockets),
                    .slotBytes = slotBytes,
                    .reconnect = static_cast<Reconnect>(reconnect),
                    .windowBytes = windowBytes,
                    .hostId = hostId,
                    .nPaths = static_cast<int>(nPaths),
                    .protection = static_cast<tcp::Protection>(seal)};
}

TcpTransport::TcpTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}
TcpTransport::~TcpTransport() {
  if (state_->reopener != nullptr) state_->reopener->end();
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(StreamExchange& streams, int rank,
                                                           const TcpOptions& options) {
  if (options.nSockets < 1 || options.nSockets > tcp::kMaxSockets) {
    return invalidUsage(ErrorCode::VariableOutOfRange, "TUTTI_NSOCKETS=", options.nSockets, " is outside 1..",
                        tcp::kMaxSockets);
  }
  TUTTI_ASSIGN(std::shared_ptr<FdSleeper> sleeper, FdSleeper::create());
  std::shared_ptr<tcp::Reopener> reopener;
  if (options.reconnect != Reconnect::None || options.protection != tcp::Protection::Checksums) {
    const tcp::Reopener::Settings settings{options.windowBytes, options.reconnectMs * kMs,
                                           options.reconnect != Reconnect::None};
    reopener = std::make_shared<tcp::Reopener>(streams, rank, settings);
  }
  TcpOptions own = options;
  own.nPaths = std::clamp(streams.nPaths(), 1, kMostStreamPaths);
  auto state = std::make_unique<State>(State{streams, rank, std::move(own), std::move(sleeper), std::move(reopener)});
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(state)));
}

Result<LinkProfile> TcpTransport::reach(const PeerInfo& self, const PeerInfo& peer) const {
  if (self.rank == peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "a rank is not its own peer");
  return self.hostId == peer.hostId ? kTcpLocal : kTcpRemote;
}

Address TcpTransport::address() const { return encodeTcpAddress(state_->options); }

bool TcpTransport::progress() {
  if (state_->reopener != nullptr) state_->reopener->tick();
  return state_->sleeper->progress();
}

Sleeper* TcpTransport::sleeper() { return state_->sleeper.get(); }

Result<TcpTransport::Agreed> TcpTransport::checkAddress(int peer, const Address& peerAddress) const {
  const TcpOptions& mine = state_->options;
  TUTTI_ASSIGN(const TcpOptions theirs, decodeTcpAddress(peerAddress));
  TUTTI_TRY(checkSameSetting("TUTTI_NSOCKETS", mine.nSockets, theirs.nSockets, peer));
  TUTTI_TRY(checkSameSetting("TUTTI_SLOT_BYTES", mine.slotBytes, theirs.slotBytes, peer));
  TUTTI_TRY(checkSameSetting("TUTTI_RECONNECT", kReconnects[static_cast<size_t>(mine.reconnect)],
                             kReconnects[static_cast<size_t>(theirs.reconnect)], peer));
  if (mine.protection != theirs.protection) {
    return invalidUsage(ErrorCode::SettingsDiffer, "rank ", state_->rank, " has ",
                        kProtections[static_cast<size_t>(mine.protection)], " and rank ", peer, " has ",
                        kProtections[static_cast<size_t>(theirs.protection)],
                        "; set TUTTI_ENCRYPT and TUTTI_INTEGRITY alike on all ranks");
  }
  Agreed agreed;
  const bool sameHost = mine.hostId == theirs.hostId;
  agreed.nPaths = sameHost ? 1 : std::min(mine.nPaths, theirs.nPaths);
  agreed.nSockets = std::max(mine.nSockets, agreed.nPaths);
  if (state_->reopener == nullptr) return agreed;
  TUTTI_TRY(checkSameSetting("TUTTI_RECONNECT_BYTES", mine.windowBytes, theirs.windowBytes, peer));
  const bool all = mine.reconnect == Reconnect::All || mine.protection == tcp::Protection::Encryption;
  if (all || !sameHost) agreed.protection = mine.protection;
  agreed.resumable =
      all || (mine.reconnect == Reconnect::Hosts && !sameHost) || agreed.protection != tcp::Protection::Checksums;
  return agreed;
}

Result<tcp::Sealing> TcpTransport::sealingOf(int peer, int lane, const Agreed& agreed) const {
  tcp::Sealing sealing{.protection = agreed.protection, .keys = {}};
  if (agreed.protection == tcp::Protection::Checksums) return sealing;
  for (int i = 0; i < agreed.nSockets; ++i) {
    sealing.keys.push_back(state_->streams.keysOf(peer, tcp::streamIndex(lane, i, agreed.nSockets, agreed.nPaths)));
    if (!sealing.keys.back().send.empty()) continue;
    return invalidUsage(ErrorCode::NotEncrypted, kProtections[static_cast<size_t>(agreed.protection)],
                        " cannot be had with rank ", peer, ": its connections were made without a secret");
  }
  return sealing;
}

// All sockets are dialed side by side.
PendingEndpoint TcpTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  const Result<Agreed> checked = checkAddress(peer, peerAddress);
  const Status usable = checked.status();
  const Agreed agreed = checked.ok() ? *checked : Agreed();
  std::vector<PendingFd> opening;
  for (int i = 0; usable.ok() && i < agreed.nSockets; ++i) {
    opening.push_back(state_->streams.open(peer, tcp::streamIndex(lane, i, agreed.nSockets, agreed.nPaths)));
  }
  tcp::Tuning tuning = state_->options.tuning;
  tuning.nPaths = agreed.nPaths;
  return endpointBy(
      [=, this, opening = std::move(opening), fds = std::vector<Fd>()]() mutable -> Result<std::unique_ptr<Endpoint>> {
        TUTTI_TRY(usable);
        while (fds.size() < opening.size()) {
          TUTTI_ASSIGN(Fd fd, opening[fds.size()]->poll());
          if (!fd.valid()) return std::unique_ptr<Endpoint>();
          fds.push_back(std::move(fd));
        }
        TUTTI_ASSIGN(const tcp::Sealing sealing, sealingOf(peer, lane, agreed));
        return std::unique_ptr<Endpoint>(std::make_unique<tcp::TcpEndpoint>(
            peer, lane, std::move(fds), state_->options.slotBytes, state_->sleeper, state_->looks,
            agreed.resumable ? state_->reopener : nullptr, tuning, sealing));
      });
}

}  // namespace tutti

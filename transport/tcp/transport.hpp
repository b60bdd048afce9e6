// The tcp transport of one rank of one communicator.
#pragma once

#include <memory>

#include "transport/services.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Which links make their connections again when they break.
enum class Reconnect : uint8_t { None, Hosts, All };

struct TcpOptions {
  int nSockets = 2;            // TUTTI_NSOCKETS: of one endpoint; 1..16
  size_t slotBytes = 1 << 20;  // TUTTI_SLOT_BYTES if set: the most that one message carries; large ones save calls
  Reconnect reconnect = Reconnect::None;  // TUTTI_RECONNECT
  size_t windowBytes = 2 << 20;           // TUTTI_RECONNECT_BYTES, of each direction of a socket
  int64_t reconnectMs = 20'000;           // TUTTI_RECONNECT_MS; 0: for ever
  uint64_t hostId = 0;                    // of this rank: PeerInfo
  int nPaths = 1;                         // of this rank: StreamExchange
  /// TUTTI_ENCRYPT: encryption of all connections; TUTTI_INTEGRITY=mac: tags on those that TUTTI_RECONNECT makes again,
  /// and between hosts.
  tcp::Protection protection = tcp::Protection::Checksums;
  tcp::Tuning tuning;  // of this end

  /// From the environment.  Errors: InvalidUsage naming the variable.
  static Result<TcpOptions> fromConfig();
};

/// Joins all ranks, on one host or many.  beginConnect() may be called from any thread, also while endpoints are in
/// use; the sleeper belongs to one thread.  `streams` must outlive it; its endpoints may outlive it.
class TcpTransport : public Transport {
 public:
  static Result<std::unique_ptr<TcpTransport>> create(StreamExchange& streams, int rank, const TcpOptions& options);
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override;
  /// The options: both ends of an endpoint must have the same.
  Address address() const override;
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override;
  bool progress() override;
  Sleeper* sleeper() override;

 private:
  struct State;
  /// What both ends know of their sockets.
  struct Agreed {
    bool resumable = false;
    tcp::Protection protection = tcp::Protection::Checksums;
    int nPaths = 1;
    int nSockets = 1;  // one for each path at least
  };
  /// Both ends' options fit.
  Result<Agreed> checkAddress(int peer, const Address& peerAddress) const;
  /// When all sockets are there.  Errors: InvalidUsage: they have no keys.
  Result<tcp::Sealing> sealingOf(int peer, int lane, const Agreed& agreed) const;
  explicit TcpTransport(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "tcp4 sockets=2 slot=131072 reconnect=1 window=2097152 host=17 paths=1 seal=0", without the deadline.  Errors:
/// RemoteError: not such a text.
Address encodeTcpAddress(const TcpOptions& options);
Result<TcpOptions> decodeTcpAddress(const Address& address);

}  // namespace tutti

// The endpoints of one rank of a communicator: opened at first use, one per peer and lane, over the best transport that
// joins the two ranks.  Opening is polled: any number of endpoints come up side by side.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/comm/peer_descriptor.hpp"
#include "src/comm/registrations.hpp"
#include "src/schedule/schedule.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Lanes 0..kPointToPointLane-1 belong to collectives.
inline constexpr int kPointToPointLane = 63;
inline constexpr int kMaxLanes = 64;
/// Boards are kept beside the endpoints, from this lane on, one for each use.  No transport has these lanes.
inline constexpr int kBoardLane = 64;
/// Those of probes, beside all others: this one and the next.
inline constexpr int kProbeLane = kBoardLane + static_cast<int>(kBoards);

/// One thread at a time but for forEachCollectiveEndpoint.
class Links {
 public:
  /// transports: in order of preference.
  Links(int rank, std::vector<std::unique_ptr<Transport>> transports);

  /// What to tell the peers.
  std::vector<std::pair<std::string, Address>> addresses() const;
  /// What the peers told.  Errors: InvalidUsage naming two ranks that no allowed transport joins, and each one's
  /// reason.
  Status meet(std::vector<PeerDescriptor> descriptors);

  /// The endpoint to `peer` for `lane`, or null while it comes up, which begins at first use and goes on in poll().
  /// Errors: InvalidUsage: the peer does not offer the transport.
  Result<Endpoint*> endpoint(int peer, int lane);
  /// The same for a caller that may block.  Errors also: as poll(); Timeout.
  Result<Endpoint*> await(int peer, int lane, Deadline deadline);
  /// Goes on with all endpoints that are coming up.  Errors: as Transport::beginConnect.
  Status poll();
  /// Endpoints that are open: more than before if poll() has opened some.
  size_t numOpen() const { return endpoints_.size(); }
  /// The peer of an endpoint that is coming up, or of the one that was asked for last; -1: none was.
  int openingTo() const;
  /// An endpoint that the caller keeps, on a lane of probes.  Errors: as endpoint().
  PendingEndpoint beginProbe(int peer, int lane) const;
  /// Ends the sleep of a rank that waits for one.  Any thread.
  void ring() const {
    for (Sleeper* sleeper : sleepers_) sleeper->ring();
  }
  /// Whether all ranks are joined by a transport with boards.
  bool hasBoards() const;
  /// Whether this rank's board and its view of all others' are open; opens them: also those that a call does not read,
  /// for what a rank that disagrees with it has written.  Errors: as endpoint().
  Result<bool> openBoards(BoardUse use);
  /// The sending end of this rank's board (peer: kEveryone), the receiving end of a peer's.  After openBoards().
  Endpoint* board(BoardUse use, int peer) const { return endpoints_.at({peer, laneOf(use)}).get(); }
  /// f(peer, endpoint) for the endpoints of collectives that are open.  Any thread; f must not block.
  template <class F>
  void forEachCollectiveEndpoint(F&& f) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, endpoint] : endpoints_)
      if (endpoint != nullptr && key.second != kPointToPointLane) f(key.first, *endpoint);
  }

  /// What joins this rank to `peer`.
  const LinkProfile& linkTo(int peer) const { return byPeer_[static_cast<size_t>(peer)].link; }
  /// What joins two ranks, of which this one need be neither: every rank has the same transports.  None: nothing does.
  std::optional<LinkProfile> linkBetween(int a, int b) const;
  const std::vector<PeerDescriptor>& descriptors() const { return descriptors_; }
  const std::vector<Sleeper*>& sleepers() const { return sleepers_; }
  /// What sleeps until something of `peer` comes; null: nothing does.
  Sleeper* sleeperTo(int peer) const { return transportTo(peer)->sleeper(); }
  /// Before ranks have met: whether the transport that seems to join the two ranks, of which this one is the first, is
  /// to be given memory of the rank's device.
  bool mayGiveDeviceMemory(const PeerInfo& self, const PeerInfo& peer) const;
  /// Before ranks have met: whether transports read and write memory of this rank's device for all messages to other
  /// hosts.  peers: of all ranks.
  bool giveAllDeviceMemory(const std::vector<PeerDescriptor>& peers) const;
  /// Registers memory of the rank's device with all transports that take it.  Errors: as Transport::registerMemory.
  Result<std::vector<std::unique_ptr<MemoryRegistration>>> registerDeviceMemory(const Memory& memory) const;
  /// Names the transports whose requests use registered memory alone.
  void tell(Registrations* registrations) const;
  /// Let endpoints move what waits in system buffers; while this rank waits for others.
  void progress();
  /// Close all endpoints; peers see them end.
  void close();

 private:
  static constexpr int laneOf(BoardUse use) { return kBoardLane + static_cast<int>(use); }
  struct Route {
    Transport* transport;
    LinkProfile link;
  };
  Transport* takerOfDeviceMemory(const PeerInfo& self, const PeerInfo& peer) const;
  Result<Route> routeBetween(int self, int peer) const;
  Transport* transportTo(int peer) const { return byPeer_[static_cast<size_t>(peer)].transport; }
  Result<const Address*> addressOf(int peer, const Transport& transport) const;
  Result<Endpoint*> advance(std::pair<int, int> key);

  int rank_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<PeerDescriptor> descriptors_;
  std::vector<Route> byPeer_;
  std::vector<Sleeper*> sleepers_;
  std::vector<Transport*> used_;                                        // to a peer
  mutable std::vector<Transport*> takeDevice_;                          // as mayGiveDeviceMemory() has found
  mutable std::mutex mutex_;                                            // of changes to endpoints_
  std::map<std::pair<int, int>, std::unique_ptr<Endpoint>> endpoints_;  // by peer and lane
  std::map<std::pair<int, int>, PendingEndpoint> opening_;
  int lastAsked_ = -1;
};

}  // namespace tutti

// What the sockets of a rank need to be made again: streams of the bootstrap, time, and a word in the log.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/seldom.hpp"
#include "src/base/stream_index.hpp"
#include "transport/services.hpp"

namespace tutti::tcp {

/// The index of socket `i` of this lane, which is by path i % nPaths.
constexpr StreamIndex streamIndex(int lane, int i, int nSockets, int nPaths) {
  return streamOnPath(lane * nSockets + i, i % nPaths);
}

/// Of one transport; its endpoints share it, and may outlive the transport.
class Reopener {
 public:
  /// Something that has sockets which may come back.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Time has passed.  True: one of them is away, so that this is to be called soon again.
    virtual bool tick(int64_t nowNs) = 0;
  };
  struct Settings {
    size_t windowBytes = 2 << 20;         // TUTTI_RECONNECT_BYTES
    int64_t deadlineNs = 20'000'000'000;  // TUTTI_RECONNECT_MS
    bool again = true;                    // false: sockets have records for their seals alone
  };

  Reopener(StreamExchange& streams, int rank, Settings settings)
      : streams_(&streams), rank_(rank), settings_(settings) {}

  int rank() const { return rank_; }
  const Settings& settings() const { return settings_; }

  /// The `generation`th connection of stream `index` to this peer, as the first was opened; null after end().
  PendingFd open(int peer, StreamIndex index, int generation);
  /// The same if the peer has made it by itself; not valid if not.  Errors: as of what open() gives.
  Result<Fd> opened(int peer, StreamIndex index, int generation);
  /// One of either has been taken: its keys are not wanted, as those of the first connection hold for all.
  void taken(int peer, StreamIndex index, int generation);

  void add(Owner* owner);
  void remove(const Owner* owner);
  /// Now and then, by the thread that uses the endpoints; costs a look at the clock.
  void tick();
  /// The transport ends.
  void end();

  /// A connection to this peer has been made again.  How many have since the last warning, if this one is to be warned
  /// of; else 0: of many at the same time, and of many in a row, one is told of, and the others are counted.
  uint64_t warnsOf(int peer, int64_t nowNs) { return repairs_[peer].due(nowNs); }

 private:
  static StreamIndex indexOf(StreamIndex index, int generation);

  StreamExchange* streams_;
  const int rank_;
  const Settings settings_;
  std::mutex mutex_;  // of owners_
  std::vector<Owner*> owners_;
  int64_t nextTickNs_ = 0;
  std::map<int, Seldom> repairs_;  // by peer
};

}  // namespace tutti::tcp

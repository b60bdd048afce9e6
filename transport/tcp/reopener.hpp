// What the sockets of a rank need to be made again: streams of the bootstrap, time, and a word in the log.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/stream_index.hpp"
#include "transport/services.hpp"

namespace tutti::tcp {

/// The index of socket `i` of this lane, which is by path i % nPaths.
constexpr int streamIndex(int lane, int i, int nSockets, int nPaths) {
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
  PendingFd open(int peer, int index, int generation);
  /// The same if the peer has made it by itself; not valid if not.  Errors: as of what open() gives.
  Result<Fd> opened(int peer, int index, int generation);
  /// A generation beyond this one cannot be had.
  static constexpr int kMostGenerations = 2000;

  void add(Owner* owner);
  void remove(const Owner* owner);
  /// Now and then, by the thread that uses the endpoints; costs a look at the clock.
  void tick();
  /// The transport ends.
  void end() { streams_ = nullptr; }

  /// Whether to warn that connections to this peer stall: of many that do at the same time one is told of.
  bool warnsOfStall(int peer, int64_t nowNs);

 private:
  static int indexOf(int index, int generation);

  StreamExchange* streams_;
  const int rank_;
  const Settings settings_;
  std::mutex mutex_;  // of owners_
  std::vector<Owner*> owners_;
  int64_t nextTickNs_ = 0;
  std::map<int, int64_t> warnedNs_;  // by peer
};

}  // namespace tutti::tcp

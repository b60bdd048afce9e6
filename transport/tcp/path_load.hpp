// How soon a socket would have delivered what it is given: for sockets that go by interfaces of unequal speed.
//
// A socket with room may still be the wrong one: as long as ranks wait for each other, no socket is full, and pieces
// dealt out in turn make the slowest link the measure of all.  So a piece goes where it arrives first, by what the
// system says of each connection: the bytes that it has not delivered, and what it has delivered of those while there
// were some.  (The system's own figure of a speed is the highest of late where a connection is not kept busy.  A burst
// that a shaper lets pass then makes a slow path look like a fast one.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::tcp {

/// Of one socket.  One thread.
class PathLoad {
 public:
  /// Nanoseconds until `bytes` more would be delivered; without a speed that is known, 0 and up by what is queued.
  double untilDelivered(int fd, size_t bytes, int64_t nowNs);
  /// Whether the peer's system has acknowledged something of late, so that a full socket will have room soon.
  bool delivers() const { return delivers_; }
  /// So much was given to the system.
  void wrote(size_t bytes);
  /// Look on while it is at work, though nothing is to be sent.
  void watch(int fd, int64_t nowNs);

 private:
  void look(int fd, int64_t nowNs);
  void learn(uint64_t acknowledgedBytes, int64_t nowNs);

  int64_t lookedNs_ = 0, atNs_ = 0, learnedNs_ = 0;
  double queued_ = 0;                      // bytes that are not delivered, at atNs_
  double bytesPerNs_ = 0;                  // 0: not known yet
  int64_t workNs_ = 0;                     // when work began, or the last look found some
  double work_ = 0;                        // bytes that were not delivered then
  uint64_t acknowledgedBytes_ = 0;         // by then
  double meanBytes_ = 0, meanBusyNs_ = 0;  // of late: earlier ones count less
  bool delivers_ = false;
};

}  // namespace tutti::tcp

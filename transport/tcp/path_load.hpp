// How soon a socket would have delivered what it is given: for sockets that go by interfaces of unequal speed.
//
// A socket with room may still be the wrong one: as long as ranks wait for each other, no socket is full, and pieces
// dealt out in turn make the slowest link the measure of all.  So a piece goes where it arrives first, by what the
// system says of each connection: the bytes that it has not delivered, and the speed at which it delivers.
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
  void wrote(size_t bytes) { queued_ += static_cast<double>(bytes); }

 private:
  void look(int fd, int64_t nowNs);

  int64_t lookedNs_ = 0, atNs_ = 0;
  double queued_ = 0;      // bytes that are not delivered, at atNs_
  double bytesPerNs_ = 0;  // 0: not known yet
  bool delivers_ = false;
};

}  // namespace tutti::tcp

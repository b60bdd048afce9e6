// Connected sockets without a bootstrap: a StreamExchange between two ranks of this process, over the loopback
// interface.
#pragma once

#include <sys/socket.h>

#include <deque>
#include <map>
#include <mutex>

#include "transport/services.hpp"

namespace tutti::conformance {

/// Two non-blocking sockets joined over the loopback interface (AF_INET, AF_INET6) or without one (AF_UNIX);
/// bufferBytes > 0 sets their buffers (small ones make
/// every message partial).
Result<std::pair<Fd, Fd>> loopbackPair(int family, int bufferBytes);
/// Whether this machine has a loopback address of the family.
bool hasFamily(int family);

/// Makes each pair of sockets when its first end asks; any thread.
class LoopbackStreams {
 public:
  LoopbackStreams(int family, int bufferBytes) : family_(family), bufferBytes_(bufferBytes) {}
  Result<Fd> open(int rank, int peer, StreamIndex index);
  /// The end that waits for this rank, if its peer has opened the stream.
  Fd opened(int rank, StreamIndex index);
  /// Remember what is opened from here on, for cutOne().
  void remember() { remembers_ = true; }
  /// Ends a connection of those that were opened last, both ways, as if by the network; `which` chooses.
  void cutOne(size_t which);

  /// One rank's view of it.
  class Of : public StreamExchange {
   public:
    Of(LoopbackStreams& streams, int rank) : streams_(streams), rank_(rank) {}
    PendingFd open(int peer, StreamIndex index) override {
      return pendingBy<Fd>([=, this] { return streams_.open(rank_, peer, index); });
    }
    Result<Fd> opened(int, StreamIndex index) override { return streams_.opened(rank_, index); }

   private:
    LoopbackStreams& streams_;
    int rank_;
  };

 private:
  int family_;
  int bufferBytes_;
  std::mutex mutex_;
  std::map<std::pair<int, StreamIndex>, Fd>
      waiting_;  // by (rank it is for, index): the other end of what was handed out
  bool remembers_ = false;
  std::deque<Fd> remembered_;  // the newest last
};

}  // namespace tutti::conformance

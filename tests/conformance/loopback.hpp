// Connected sockets without a bootstrap: a StreamExchange between two ranks of this process, over the loopback
// interface.
#pragma once

#include <sys/socket.h>

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
  Result<Fd> open(int rank, int peer, int index);

  /// One rank's view of it.
  class Of : public StreamExchange {
   public:
    Of(LoopbackStreams& streams, int rank) : streams_(streams), rank_(rank) {}
    PendingFd open(int peer, int index) override {
      return pendingBy<Fd>([=, this] { return streams_.open(rank_, peer, index); });
    }

   private:
    LoopbackStreams& streams_;
    int rank_;
  };

 private:
  int family_;
  int bufferBytes_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, Fd> waiting_;  // by (rank it is for, index): the other end of what was handed out
};

}  // namespace tutti::conformance

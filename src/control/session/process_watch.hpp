// Notices the end of other processes of this host, by pidfd.
#pragma once

#include <functional>
#include <list>

#include "src/control/session/fork_guard.hpp"
#include "src/control/session/reactor.hpp"

namespace tutti {

/// Threads: all under the Session's lock; ended() is called from the Reactor's dispatch.
class ProcessWatch {
 public:
  explicit ProcessWatch(Reactor& reactor) : reactor_(reactor) {}
  ~ProcessWatch();

  enum class Outcome { Watching, AlreadyGone, Impossible };
  /// Call ended() once when the process ends.  Impossible: the kernel cannot tell (too old, not permitted).
  Outcome add(int pid, std::function<void()> ended);

 private:
  struct Watched {
    OwnFd fd;
    Reactor::Id watch = 0;
  };
  Reactor& reactor_;
  std::list<Watched> watched_;
};

}  // namespace tutti

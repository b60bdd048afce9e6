#include "src/control/session/process_watch.hpp"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace tutti {

ProcessWatch::~ProcessWatch() {
  for (const Watched& w : watched_) reactor_.remove(w.watch);
}

ProcessWatch::Outcome ProcessWatch::add(int pid, std::function<void()> ended) {
#ifdef SYS_pidfd_open
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by definition
#else
  Fd fd;
  errno = ENOSYS;
#endif
  if (!fd.valid()) return errno == ESRCH ? Outcome::AlreadyGone : Outcome::Impossible;
  Watched& w = watched_.emplace_back();
  const auto self = std::prev(watched_.end());
  w.fd = OwnFd(std::move(fd));
  w.watch = reactor_.add(w.fd.get(), EPOLLIN, [this, self, ended = std::move(ended)](uint32_t) {
    reactor_.remove(self->watch);  // it would stay readable
    self->watch = 0;
    self->fd.reset();
    ended();
  });
  if (w.watch != 0) return Outcome::Watching;
  watched_.erase(self);
  return Outcome::Impossible;
}

}  // namespace tutti

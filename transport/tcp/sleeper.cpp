#include "transport/tcp/sleeper.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "src/base/log.hpp"

namespace tutti::tcp {
namespace {

using Events = std::array<epoll_event, 64>;

// epoll_pwait2 (Linux 5.11) takes nanoseconds; without it we sleep up to a millisecond longer, as the contract allows
// for no more than `us` of lateness only where a wake-up was missed, and none is.
int waitFor(int epoll, Events& events, int us) {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 35)
  static std::atomic<bool> missing{false};  // a fact about the kernel, found once
  if (!missing.load(std::memory_order_relaxed)) {
    const timespec time{us / 1'000'000, long{us % 1'000'000} * 1000};
    const int n = epoll_pwait2(epoll, events.data(), static_cast<int>(events.size()), &time, nullptr);
    if (n >= 0 || errno != ENOSYS) return n;
    missing.store(true, std::memory_order_relaxed);
  }
#endif
#endif
  return epoll_wait(epoll, events.data(), static_cast<int>(events.size()), (us + 999) / 1000);
}

}  // namespace

Result<std::shared_ptr<TcpSleeper>> TcpSleeper::create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errnoError(errno, "tcp: epoll_create1 failed");
  Fd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return errnoError(errno, "tcp: eventfd failed");
  std::shared_ptr<TcpSleeper> sleeper(new TcpSleeper(std::move(epoll), std::move(bell)));
  sleeper->add(sleeper->bell_.get());
  return sleeper;
}

void TcpSleeper::add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  // Without it this socket wakes nobody and sleeps last their full time: slower, not wrong.
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    TUTTI_WARN("tcp", "a socket cannot be watched: ", errnoError(errno, "epoll_ctl").message());
  }
}

void TcpSleeper::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

// Edges from before this point are forgotten here; what they announced is found by the last look at the endpoints,
// which follows.
void TcpSleeper::prepare() {
  Events events;
  while (epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0) ==
         static_cast<int>(events.size())) {
  }
}

void TcpSleeper::ring() { (void)eventfd_write(bell_.get(), 1); }

void TcpSleeper::sleep(int us) {
  if (us <= 0) return;
  Events events;
  waitFor(epoll_.get(), events, us);  // a signal ends it early, which the contract allows
}

}  // namespace tutti::tcp

#include "transport/fd_sleeper.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace tutti {
namespace {

using Events = std::array<epoll_event, 64>;

constexpr unsigned kServesPerLook = 4;

// epoll_pwait2 (Linux 5.11) takes nanoseconds; without it we sleep up to a millisecond longer, as the contract allows
// for no more than `us` of lateness only where a wake-up was missed, and none is.  Called by its number: glibc has had
// it since 2.35 only, and the library runs with older ones.
int waitFor(int epoll, Events& events, int us) {
#ifdef SYS_epoll_pwait2
  static std::atomic<bool> missing{false};  // a fact about the kernel, found once
  if (!missing.load(std::memory_order_relaxed)) {
    const std::array<int64_t, 2> time{us / 1'000'000, int64_t{us % 1'000'000} * 1000};  // struct __kernel_timespec
    const auto n = static_cast<int>(syscall(SYS_epoll_pwait2, epoll, events.data(), static_cast<int>(events.size()),
                                            time.data(), nullptr, size_t{0}));
    if (n >= 0 || errno != ENOSYS) return n;
    missing.store(true, std::memory_order_relaxed);
  }
#endif
  return epoll_wait(epoll, events.data(), static_cast<int>(events.size()), (us + 999) / 1000);
}

}  // namespace

Result<std::shared_ptr<FdSleeper>> FdSleeper::create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errnoError(errno, ErrorCode::NoEpoll, "epoll_create1 failed");
  Fd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return errnoError(errno, ErrorCode::NoEpoll, "eventfd failed");
  std::shared_ptr<FdSleeper> sleeper(new FdSleeper(std::move(epoll), std::move(bell)));
  TUTTI_TRY(sleeper->add(sleeper->bell_.get(), nullptr));
  return sleeper;
}

Status FdSleeper::add(int fd, Owner* owner) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = owner;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return errnoError(errno, ErrorCode::NoEpoll, "epoll_ctl failed");
  return {};
}

void FdSleeper::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

/// How many edges there were; their endpoints are due.
int FdSleeper::waitFor(int us) {
  Events events;
  const int n = tutti::waitFor(epoll_.get(), events, us);  // a signal ends it early, which the contract allows
  for (int i = 0; i < n; ++i) {
    if (auto* owner = static_cast<Owner*>(events[static_cast<size_t>(i)].data.ptr)) owner->touch();
  }
  edges_ = edges_ || n > 0;
  return n;
}

void FdSleeper::look() {
  while (waitFor(0) == static_cast<int>(std::tuple_size_v<Events>)) {
  }
}

// A look costs a system call, and the edges that it takes cost the sender of the next message some more.  It tells
// nothing where all endpoints are served anyway; where some are, what it tells of the others is less urgent.
bool FdSleeper::progress() {
  const bool others = due_.size() < owners_.load(std::memory_order_relaxed);
  if (others && (due_.empty() || ++servedBlindly_ % kServesPerLook == 0)) look();
  bool moved = false;
  size_t kept = 0;
  for (Owner* endpoint : due_) {
    const Result<bool> one = endpoint->progress();
    moved = moved || (one.ok() && *one);
    if (endpoint->due()) due_[kept++] = endpoint;
  }
  due_.resize(kept);
  return moved;
}

// Edges from before this point are forgotten here; what they announced is found by the last look at the endpoints,
// which follows.
void FdSleeper::prepare() {
  look();
  edges_ = false;
}

void FdSleeper::ring() { (void)eventfd_write(bell_.get(), 1); }

void FdSleeper::sleep(int us) {
  if (us > 0 && !edges_) waitFor(us);
}

}  // namespace tutti

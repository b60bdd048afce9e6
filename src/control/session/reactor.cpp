#include "src/control/session/reactor.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/clock.hpp"

namespace tutti {

Result<std::unique_ptr<Reactor>> Reactor::create() {
  std::unique_ptr<Reactor> reactor(new Reactor);
  reactor->epoll_ = OwnFd(Fd(epoll_create1(EPOLL_CLOEXEC)));
  if (!reactor->epoll_.valid()) return errnoError(errno, ErrorCode::NoEpoll, "cannot create an epoll descriptor");
  reactor->wake_ = OwnFd(Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (!reactor->wake_.valid()) return errnoError(errno, ErrorCode::NoEpoll, "cannot create an eventfd");
  const int wakeFd = reactor->wake_.get();
  const Id id = reactor->add(wakeFd, EPOLLIN, [wakeFd](uint32_t) {
    eventfd_t count = 0;
    eventfd_read(wakeFd, &count);
  });
  if (id == 0) return errnoError(errno, ErrorCode::NoEpoll, "cannot watch an eventfd");
  return reactor;
}

Reactor::Id Reactor::add(int fd, uint32_t events, Handler handler) {
  epoll_event e{};
  e.events = events;
  e.data.u64 = lastId_ + 1;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0) return 0;
  ++lastId_;
  entries_[lastId_] = Entry{fd, events, std::make_shared<Handler>(std::move(handler))};
  return lastId_;
}

void Reactor::modify(Id id, uint32_t events) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.events == events) return;
  epoll_event e{};
  e.events = events;
  e.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &e) == 0) found->second.events = events;
}

void Reactor::remove(Id id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  entries_.erase(found);
}

const std::vector<Reactor::Event>& Reactor::wait(int64_t untilNs) {
  constexpr int kMost = 256;
  epoll_event events[kMost];
  constexpr int kLongestMs = 60'000;
  const int timeoutMs = Deadline::at(untilNs).leftMs(kLongestMs);
  const int count = epoll_wait(epoll_.get(), events, kMost, timeoutMs);
  ready_.clear();
  for (int i = 0; i < count; ++i) ready_.push_back({events[i].data.u64, events[i].events});
  return ready_;
}

void Reactor::dispatch(const std::vector<Event>& events) {
  for (const Event& event : events) {
    const auto found = entries_.find(event.id);
    if (found == entries_.end()) continue;
    const std::shared_ptr<Handler> handler = found->second.handler;  // it may remove itself
    (*handler)(event.events);
  }
}

void Reactor::wake() { eventfd_write(wake_.get(), 1); }

}  // namespace tutti

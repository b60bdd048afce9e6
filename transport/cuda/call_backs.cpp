#include "transport/cuda/call_backs.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "src/base/caught.hpp"
#include "src/base/threads.hpp"

namespace tutti::cuda {
namespace {

constexpr uint64_t kEnd = 1;

// Edges, because nobody takes a ring away from the others who hear it.
Status add(const Fd& epoll, int bell, uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = what;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell, &event) != 0)
    return errnoError(errno, ErrorCode::NoEpoll, "listening to a peer's bell");
  return {};
}

}  // namespace

Status Bell::make() {
  fd_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd_.valid() ? Status() : errnoError(errno, ErrorCode::NoEpoll, "cannot create an eventfd");
}

void Bell::ring() const {
  if (fd_.valid()) (void)eventfd_write(fd_.get(), 1);
}

Status CallBacks::start() {
  if (thread_.joinable()) return {};
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return errnoError(errno, ErrorCode::NoEpoll, "cannot create an epoll descriptor");
  TUTTI_TRY(end_.make());
  TUTTI_TRY(add(epoll_, end_.descriptor(), kEnd));
  TUTTI_ASSIGN(thread_, startThread("closing memory of other ranks", [this] {
                 nameOwnThread("tutti-callbacks");
                 listen();
               }));
  return {};
}

Status CallBacks::listenTo(int peer, Fd bell) {
  TUTTI_TRY(start());
  TUTTI_TRY(add(epoll_, bell.get(), 0));
  bells_.push_back(std::move(bell));
  peers_.insert(peer);
  return {};
}

void CallBacks::stop() {
  if (!thread_.joinable()) return;
  end_.ring();
  thread_.join();
}

void CallBacks::listen() const {
  while (true) {
    epoll_event events[8];
    const int rung = epoll_wait(epoll_.get(), events, 8, -1);
    if (rung < 0 && errno != EINTR) return;
    for (int i = 0; i < rung; ++i) {
      if (events[i].data.u64 == kEnd) return;
    }
    if (rung <= 0) continue;
    // What memory is missing for is tried again at the next ring.
    (void)caught([this]() -> Status {
      heard_();
      return {};
    });
  }
}

}  // namespace tutti::cuda

// epoll with handlers, and an eventfd to wake it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/base/status.hpp"
#include "src/control/session/fork_guard.hpp"

namespace tutti {

/// Threads: wait() by one thread, wake() by any; everything else under the owner's lock.
class Reactor {
 public:
  using Id = uint64_t;  // never used twice, so an event of a descriptor that is gone finds nothing
  using Handler = std::function<void(uint32_t events)>;
  struct Event {
    Id id;
    uint32_t events;
  };

  static Result<std::unique_ptr<Reactor>> create();

  /// Call handler (from dispatch) when fd has one of these EPOLL* events, level triggered.  fd stays the caller's and
  /// must be removed before it is closed.  Returns 0 if the system refuses.
  Id add(int fd, uint32_t events, Handler handler);
  void modify(Id id, uint32_t events);
  void remove(Id id);

  /// Wait for events or until the time has come; no lock needed.
  const std::vector<Event>& wait(int64_t untilNs);
  void dispatch(const std::vector<Event>& events);
  void wake();

 private:
  Reactor() = default;
  struct Entry {
    int fd;
    uint32_t events;
    std::shared_ptr<Handler> handler;
  };
  OwnFd epoll_, wake_;
  Id lastId_ = 0;
  std::unordered_map<Id, Entry> entries_;
  std::vector<Event> ready_;
};

}  // namespace tutti

// Sleeping on descriptors: the sockets of one communicator's endpoints, and what an adapter tells by; and which
// endpoints have something to move.
#pragma once

#include <atomic>
#include <vector>

#include "src/base/fd.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// add(), remove() and ring(): any thread.  The rest: the thread that uses the endpoints.
///
/// Descriptors are watched by edges (what has become readable or writable since prepare()), not by levels: a message
/// that waits for a later op must not keep its rank from sleeping.  An edge puts its endpoint into the list of those
/// that progress() serves, and so does every call of the endpoint's; the others cost nothing.
class FdSleeper : public Sleeper {
 public:
  /// An endpoint whose descriptors are watched.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// One of them has become readable or writable.
    virtual void touch() = 0;
    /// Moves what it can; true if something moved.
    virtual Result<bool> progress() = 0;
    /// Whether progress() may find more, without an edge before.
    virtual bool due() const = 0;
  };

  static Result<std::shared_ptr<FdSleeper>> create();

  /// owner: null: a descriptor that only wakes.  Errors: SystemError: it cannot be watched.
  Status add(int fd, Owner* owner = nullptr);
  void remove(int fd);
  /// By an endpoint that begins, and whose descriptors are all watched.
  void enter(const Owner*) { owners_.fetch_add(1, std::memory_order_relaxed); }
  /// Not in the list yet.
  void makeDue(Owner* endpoint) { due_.push_back(endpoint); }
  /// By an endpoint that ends.
  void forget(const Owner* endpoint) {
    std::erase(due_, endpoint);
    owners_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// Has the endpoints in the list move what they can, and keeps those that may move more.  True if something moved.
  bool progress();

  void prepare() override;
  void sleep(int us) override;
  void cancel() override {}
  void ring() override;

 private:
  FdSleeper(Fd epoll, Fd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}

  int waitFor(int us);
  void look();

  Fd epoll_;
  Fd bell_;  // an eventfd: each write to it is an edge
  std::atomic<size_t> owners_{0};
  std::vector<Owner*> due_;
  unsigned servedBlindly_ = 0;
  bool edges_ = false;  // since prepare()
};

}  // namespace tutti

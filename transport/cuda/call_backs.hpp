// How owners of memory have those who have it open close it, whatever their callers do: a bell, and a thread that
// hears.
#pragma once

#include <functional>
#include <set>
#include <thread>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"

namespace tutti::cuda {

/// Rung by one, heard by all who have got its descriptor.  Any thread.
class Bell {
 public:
  /// Errors: SystemError.
  Status make();
  int descriptor() const { return fd_.get(); }
  bool made() const { return fd_.valid(); }
  void ring() const;

 private:
  Fd fd_;
};

/// A thread that listens to bells.  One thread at a time.
class CallBacks {
 public:
  /// heard: called by the thread after a bell has rung, perhaps also when none has.
  explicit CallBacks(std::function<void()> heard) : heard_(std::move(heard)) {}
  ~CallBacks() { stop(); }
  CallBacks(const CallBacks&) = delete;
  CallBacks& operator=(const CallBacks&) = delete;

  bool listensTo(int peer) const { return peers_.contains(peer); }
  /// From now on every ring of the peer's bell is heard.  Errors: SystemError.
  Status listenTo(int peer, Fd bell);
  /// The thread has ended, and hears nothing any more.
  void stop();

 private:
  Status start();
  void listen() const;

  std::function<void()> heard_;
  std::set<int> peers_;
  std::vector<Fd> bells_;
  Fd epoll_;
  Bell end_;
  std::thread thread_;
};

}  // namespace tutti::cuda

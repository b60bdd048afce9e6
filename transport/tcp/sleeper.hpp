// Sleeping on the sockets of one communicator's tcp channels.
#pragma once

#include "src/base/fd.hpp"
#include "transport/transport.hpp"

namespace tutti::tcp {

/// add() and remove(): any thread.  The rest: one thread.
///
/// The sockets are watched by edges (what has become readable or writable since prepare()), not by levels: a message
/// that waits for a later op must not keep its rank from sleeping.
class TcpSleeper : public Sleeper {
 public:
  static Result<std::shared_ptr<TcpSleeper>> create();

  void add(int fd);
  void remove(int fd);

  void prepare() override;
  void sleep(int us) override;
  void cancel() override {}

 private:
  explicit TcpSleeper(Fd epoll) : epoll_(std::move(epoll)) {}

  Fd epoll_;
};

}  // namespace tutti::tcp

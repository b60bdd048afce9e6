// Sleeping on the sockets of one communicator's tcp endpoints.
#pragma once

#include "src/base/fd.hpp"
#include "transport/transport.hpp"

namespace tutti::tcp {

/// add(), remove() and ring(): any thread.  The rest: one thread.
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
  void ring() override;

 private:
  TcpSleeper(Fd epoll, Fd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}

  Fd epoll_;
  Fd bell_;  // an eventfd: each write to it is an edge
};

}  // namespace tutti::tcp

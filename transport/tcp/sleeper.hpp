// The sockets of one communicator's tcp endpoints: sleeping on them, and which endpoints have something to move.
#pragma once

#include <vector>

#include "src/base/fd.hpp"
#include "transport/transport.hpp"

namespace tutti::tcp {

class TcpEndpoint;

/// add(), remove() and ring(): any thread.  The rest: the thread that uses the endpoints.
///
/// The sockets are watched by edges (what has become readable or writable since prepare()), not by levels: a message
/// that waits for a later op must not keep its rank from sleeping.  An edge puts its endpoint into the list of those
/// that progress() serves, and so does every call of the endpoint's; the others cost nothing.
class TcpSleeper : public Sleeper {
 public:
  static Result<std::shared_ptr<TcpSleeper>> create();

  /// Errors: SystemError: the socket cannot be watched.
  Status add(int fd, TcpEndpoint* owner);
  void remove(int fd);
  /// Not in the list yet.
  void makeDue(TcpEndpoint* endpoint) { due_.push_back(endpoint); }
  /// By an endpoint that ends.
  void forget(const TcpEndpoint* endpoint) { std::erase(due_, endpoint); }
  /// Has the endpoints in the list move what they can, and keeps those that may move more.  True if something moved.
  bool progress();

  void prepare() override;
  void sleep(int us) override;
  void cancel() override {}
  void ring() override;

 private:
  TcpSleeper(Fd epoll, Fd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}

  int waitFor(int us);
  void look();

  Fd epoll_;
  Fd bell_;  // an eventfd: each write to it is an edge
  std::vector<TcpEndpoint*> due_;
  bool edges_ = false;  // since prepare()
};

}  // namespace tutti::tcp

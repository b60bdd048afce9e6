// How the two ends of a connection get their sockets: one listens and gives a handle away, the other dials by it.
//
// Nobody blocks: everything goes on in calls of poll().  Strangers get little: messages of at most Mail::kMostBytes,
// kMostStrangers at a time, of whom the oldest gives way, and kStrangerNs to prove that they have the handle.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "src/base/clock.hpp"
#include "src/net_plugin/greeting.hpp"
#include "src/net_plugin/handle.hpp"

namespace tutti::net_plugin {

/// The sockets of one connection, in the same order on both ends, and who is at the other end.
struct Sockets {
  std::vector<Fd> fds;
  std::string peer;  // "10.0.0.7:4021"
};

/// One thread.
class Dial {
 public:
  /// Errors: SystemError: nothing of the handle can be dialed from here.
  static Result<std::unique_ptr<Dial>> begin(const Handle& handle);
  /// The sockets; none: not yet.  Errors: RemoteError naming the addresses that were tried; InvalidUsage.
  Result<std::optional<Sockets>> poll();

 private:
  Dial(const Handle& handle, std::vector<SocketAddress> addresses)
      : handle_(handle), addresses_(std::move(addresses)) {}
  Status tryNext();
  Status failed(const Status& why);

  const Handle handle_;
  const std::vector<SocketAddress> addresses_;
  size_t next_ = 0;  // address
  std::string problems_;
  std::list<DialerGreeting> greetings_;  // by index of the socket
};

/// One thread.
class Listener {
 public:
  /// On this host's addresses (TUTTI_SOCKET_IFNAME, TUTTI_SOCKET_FAMILY).  `wanted` says all but secret and addresses.
  /// Errors: SystemError; InvalidUsage: no such interface.
  static Result<std::unique_ptr<Listener>> begin(const Handle& wanted);
  const Handle& handle() const { return handle_; }
  /// The next connection; none: not yet.
  std::optional<Sockets> poll();

 private:
  static constexpr size_t kMostStrangers = 256;
  static constexpr int64_t kStrangerNs = 10'000 * kMs;
  struct Stranger {
    AcceptorGreeting greeting;
    std::string peer;
    Deadline deadline;
  };
  explicit Listener(const Handle& handle) : handle_(handle) {}
  Status listenOn(const SocketAddress& address);
  void acceptAll();
  void greetAll();
  void file(Stranger* proven);

  Handle handle_;
  std::vector<SocketAddress> bound_;
  std::vector<Fd> listeners_;
  std::list<Stranger> strangers_;
  std::map<CommId, Sockets> parts_;  // of connections some of whose sockets have come
  std::deque<Sockets> ready_;
};

}  // namespace tutti::net_plugin

// One socket of a connection, until both ends have proven the listener's secret (src/control/handshake.hpp).
#pragma once

#include <optional>
#include <string>

#include "src/base/fd.hpp"
#include "src/control/handshake.hpp"

namespace tutti::net_plugin {

/// Whole messages over a socket that does not block, none larger than kMostBytes.
class Mail {
 public:
  static constexpr size_t kMostBytes = 1024;
  explicit Mail(Fd fd) : fd_(std::move(fd)) {}
  void send(const std::string& message);
  /// Sends what waits.  True: all has gone.  Errors: RemoteError.
  Result<bool> flush();
  /// The next message; none: not there yet.  Not a byte more is read than it has.  Errors: RemoteError.
  Result<std::optional<std::string>> receive();
  Fd& fd() { return fd_; }

 private:
  Fd fd_;
  std::string out_;
  std::string in_;
};

/// The dialer's end, of a socket that is connected or connecting.
class DialerGreeting {
 public:
  DialerGreeting(Fd fd, const Secret& secret, const Hello& hello, const Nonce& nonce);
  /// True: both ends are proven.  Errors: RemoteError, InvalidUsage: the connection has failed, or what answers has
  /// another secret.
  Result<bool> poll();
  Fd take() { return std::move(mail_.fd()); }

 private:
  enum class Phase { Connecting, AwaitChallenge, AwaitAccepted, Done };
  Mail mail_;
  DialerProof proof_;
  Phase phase_ = Phase::Connecting;
};

/// The listener's end.
class AcceptorGreeting {
 public:
  AcceptorGreeting(Fd fd, const Secret& secret, const Nonce& nonce)
      : mail_(std::move(fd)), secret_(secret), nonce_(nonce) {}
  /// As above; hello() is to be believed then.
  Result<bool> poll();
  const Hello& hello() const { return hello_; }
  Fd take() { return std::move(mail_.fd()); }

 private:
  enum class Phase { AwaitHello, AwaitProof, Flushing, Done };
  Mail mail_;
  const Secret secret_;
  const Nonce nonce_;
  Hello hello_;
  std::optional<AcceptorProof> proof_;
  Phase phase_ = Phase::AwaitHello;
};

}  // namespace tutti::net_plugin

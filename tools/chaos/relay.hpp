// A TCP relay that misbehaves: connections that come to one address go on to another, with what course.hpp does to
// them.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"
#include "src/control/handshake.hpp"
#include "src/control/session/address.hpp"
#include "tools/chaos/course.hpp"

namespace tutti::chaos {

struct RelayOptions {
  SocketAddress listen;             // port 0: any
  std::optional<SocketAddress> to;  // none: where each connection was going before the system redirected it
  Misdeeds misdeeds;
  std::set<Purpose> only;     // of Tutti's connections, those that are for this; empty: all connections, of any program
  size_t most = 0;            // flips, closes and resets in all; 0: no limit
  std::vector<int> commands;  // descriptors that commands are read from, a line each; borrowed
  std::function<void(const std::string&)> log;  // a line for each deed; empty: none
};

/// "rendezvous", "overlay", "stream", "summon", "agreement", "recall".  Errors: InvalidArgument, with the list.
Result<Purpose> parsePurpose(std::string_view text);

/// One thread.
class Relay {
 public:
  /// Listens.  Errors: SystemError naming the address.
  static Result<std::unique_ptr<Relay>> open(RelayOptions options);
  ~Relay();

  /// Where it listens, with its port.
  const SocketAddress& address() const { return address_; }
  /// Carries bytes until the command "quit".  Errors: SystemError.
  Status run();

  /// cut      nothing moves any more, in connections that are there and in new ones, as if a cable were pulled
  /// heal     it goes on
  /// reset    ends all connections, as when a machine between loses its state
  /// close    ends what dialers send, as shutdown() does
  /// refuse   new connections are reset at once, until heal
  /// quit
  /// Errors: InvalidArgument: another word; the text lists these.
  Status command(std::string_view line);

 private:
  struct Connection;
  explicit Relay(RelayOptions options);

  void say(const std::string& text) const {
    if (options_.log) options_.log(text);
  }
  void acceptAll();
  Result<SocketAddress> targetOf(int fd) const;
  void connect(Connection& c, const SocketAddress& target);
  void readCommands(int fd);
  void serve(Connection& c, int64_t now);
  void read(Connection& c, int direction, int64_t now);
  void write(Connection& c, int direction, int64_t now);
  void begin(Connection& c);
  void classify(Connection& c, std::span<const std::byte> bytes, int64_t now);
  void report(Connection& c, int direction);
  void drop(Connection& c, const std::string& why);
  bool concerns(const Connection& c) const;

  RelayOptions options_;
  SocketAddress address_;
  Fd listener_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::map<int, std::string> lines_;  // of commands, begun
  uint64_t last_ = 0;
  size_t done_ = 0;
  bool cut_ = false, refuse_ = false, quit_ = false;
};

}  // namespace tutti::chaos

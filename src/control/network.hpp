// The world as the bootstrap's protocol machines see it: a clock, random bytes, and links that carry whole messages.
//
// The machines (BootstrapNode and what it is made of) do no I/O and start no thread, so the same code runs over sockets
// (Session) and in a simulated world with virtual time, where a seed decides delays, losses and deaths and replays
// exactly. One thread at a time calls into a machine; a machine calls its Network from within those calls only.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "src/base/secret.hpp"
#include "src/base/status.hpp"

namespace tutti {

using LinkId = uint64_t;

/// Where a Session can be reached: one or more "address:port" (IPv6 in brackets), comma separated, best first.
using ControlAddress = std::string;

inline constexpr size_t kMaxStrangers = 1024;

class Network {
 public:
  virtual ~Network() = default;
  virtual int64_t nowNs() = 0;
  virtual void randomBytes(std::span<std::byte> out) = 0;
  /// Begin to connect.  onConnected or onClosed follows, never from within this call.
  virtual LinkId dial(const ControlAddress& to) = 0;
  /// Send a message; queued as needed, in order, complete or not at all.  Ignored on a link that is gone.
  virtual void send(LinkId link, std::string_view message) = 0;
  /// Flush, then close; no event follows.
  virtual void close(LinkId link) = 0;
  /// Close at once: nothing more is said, and the other end may see a reset.  For strangers; no event follows.
  virtual void drop(LinkId link) { close(link); }
  /// Whether the link has fallen silent: its system repeats what was sent, and no host answers.  Of a link that lives,
  /// or whose peer is stopped, this is false.
  virtual bool silent(LinkId) { return false; }
  /// How many strangers may have a link at a time.
  virtual size_t mostStrangers() const { return kMaxStrangers; }
  /// Give the link up as a raw byte stream under this name: no event follows, and no byte of what the peer sends behind
  /// its last message has been consumed.  keys: those of its two directions, for who takes it.
  virtual void handOver(LinkId link, const std::string& streamKey, const DirectionKeys& keys) = 0;
};

inline constexpr int64_t kNoTimer = std::numeric_limits<int64_t>::max();

/// What onClosed says of a dial where no process takes connections any more, as against one that is cut off.
inline constexpr std::string_view kNobodyListens = "nobody listens at ";
inline bool nobodyListens(const Status& why) { return std::string_view(why.message()).starts_with(kNobodyListens); }

/// What onClosed says where the peer's system has ended the connection in order, as for a process that ends.
inline constexpr std::string_view kClosedByPeer = "connection closed by the peer";
inline bool closedByPeer(const Status& why) { return std::string_view(why.message()).starts_with(kClosedByPeer); }

/// The largest message a link carries; a peer that announces more is cut off.
inline constexpr size_t kMaxMessageBytes = 64 << 20;
/// The same for a link that has not proven the secret yet.
inline constexpr size_t kMaxStrangerBytes = 4 << 10;

class Machine {
 public:
  virtual ~Machine() = default;
  /// A stranger has dialed us.
  virtual void onAccepted(LinkId link) = 0;
  virtual void onConnected(LinkId link) = 0;
  /// One whole message; untrusted until the link has proven the secret.
  virtual void onMessage(LinkId link, std::string_view message) = 0;
  /// A dial failed, or the peer or the system closed the link.  Timeout: it is given up since nothing came for long.
  virtual void onClosed(LinkId link, const Status& why) = 0;
  /// The system has no descriptors left: give up the stranger that has been here longest.  False: there is none.
  virtual bool dropStranger() { return false; }
  /// When onTimer wants to be called next; kNoTimer for never.
  virtual int64_t nextTimerNs() const = 0;
  virtual void onTimer() = 0;
  /// The largest message this link may carry now.  The driver asks before it makes room for one: after each onMessage
  /// anew, because a proof raises the limit.
  virtual size_t messageLimit(LinkId) const { return kMaxMessageBytes; }
};

}  // namespace tutti

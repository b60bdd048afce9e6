// Rows of small messages to a peer on this host or near it.
//
// A root that runs ahead, or a rank of a Reduce that only sends, writes one small message after the other, and a write
// costs the system 1.6 us, nearly all of it for the way through the loopback interface.  In such a row we let the
// kernel gather what is written while something is unacknowledged (Nagle's algorithm, RFC 896: TCP_NODELAY off): a
// write then costs 0.4 us, and many messages make the way together.  Nothing is held back where a round trip is long
// beside what that saves (Sockets::near): the last of a row waits for one.
//
// Nothing may hang on that.  What the kernel holds back leaves when the receiver's kernel acknowledges what came
// before, which it does when the receiver reads it, unless it hopes to do so along with an answer (up to 40 ms later).
// Messages of a row say that they are (Header::row), and a receiver that has written to the connection since, or
// waits, asks its kernel to acknowledge at once (Sockets::acknowledge).  The sender need not do anything more: it may
// go and compute, or end.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::tcp {

/// How often a rank has looked for a message and found none, on all endpoints of a transport: it was waiting.
using EmptyLooks = std::atomic<uint64_t>;

/// What a sender writes to one endpoint: a row, or messages between waits.  One thread at a time.
class SmallRow {
 public:
  /// Whether the next message belongs to a row.  answered: the peer has sent something since the message before.
  /// looks: EmptyLooks so far.
  bool next(bool small, bool answered, uint64_t looks) {
    const bool waited = looks != looks_;
    looks_ = looks;
    if (!small || answered) {
      written_ = 0;
      on_ = false;
    } else if (waited) {
      written_ = 0;
      if (++waits_ >= kMostWaits) on_ = false;
    } else {
      waits_ = 0;
      if (++written_ >= kLeastWritten) on_ = true;
    }
    return on_;
  }

 private:
  static constexpr int kLeastWritten = 16;  // without a wait in between; fewer are not worth the change
  static constexpr int kMostWaits = 4;      // of which one in between does not end a row

  uint64_t looks_ = 0;
  int written_ = 0;
  int waits_ = 0;
  bool on_ = false;
};

}  // namespace tutti::tcp

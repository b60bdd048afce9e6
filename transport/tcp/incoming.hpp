// The receiving half of a tcp endpoint: assembles one message at a time, straight in the caller's memory if it is asked
// for there, else in a staging buffer.
//
// Two staging buffers, so that a message can come in while the one before it is still being read (peek to release): a
// ring of ranks that each hold a message and send the next would otherwise depend on the size of socket buffers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "src/base/fifo.hpp"
#include "transport/tcp/header.hpp"
#include "transport/tcp/pieces.hpp"
#include "transport/tcp/read_ahead.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/transport.hpp"

namespace tutti::tcp {

/// One thread, but for pending().  The functions are those of Endpoint; failures are kept there.
class Incoming {
 public:
  Incoming(Sockets& sockets, size_t slotBytes);

  /// dst is borrowed from the first call for a message until true.
  Result<bool> receive(std::byte* dst, const Expect& expect, Fingerprint* seen);
  Result<const std::byte*> peek(const Expect& expect, Fingerprint* seen);
  void release() { held_ = -1; }

  /// Put a receive in line; its number.  Whatever is polled waits until those in line are done.
  uint64_t post(std::byte* dst, const Expect& expect) {
    posted_.push_back({dst, expect});
    return done_ + posted_.size();
  }
  uint64_t done() const { return done_; }
  size_t numPosted() const { return posted_.size(); }
  /// Read what has come for receives in line.  True if one is done.
  Result<bool> serve(Fingerprint* seen);
  /// Forget receives; their memory is not written any more.
  void cancel();

  /// Read for receives in line, or else a message that nobody has asked for into the staging buffer, as far as it has
  /// come.  A peer that has gone is an error only when something is asked of it: what it sent before counts.
  Result<bool> drain(Fingerprint* seen);

  /// Whether it was asked for something since the last drain(): it has looked at the sockets itself.
  bool polled() const { return polled_; }

  /// If the peer's kernel may be holding something back until ours acknowledges: let it, for somebody waits.
  void hurry();

  /// Something has come: look at once.
  void awake() { restUntilNs_ = 0; }

  /// The call of a message that has arrived and was not asked for.  Any thread; a hint.
  std::optional<Fingerprint> pending() const;

 private:
  struct Posted {
    std::byte* dst;
    Expect expect;
  };
  /// What comes next on one socket: a piece of this message, or of a later one.
  struct Arriving {
    HeaderBytes head{};
    size_t headGot = 0;
    Header header;       // once all of the head is there
    size_t got = 0;      // of the piece's bytes
    HeaderBytes next{};  // what has come of the header behind them
    size_t nextGot = 0;
    bool hasHead() const { return headGot == kHeaderBytes; }
  };
  Result<bool> take(std::byte* dst, const Expect& expect, Fingerprint* seen);
  Result<bool> advance(const Expect* expect, Fingerprint* seen);
  Result<bool> advanceOn(int socket, const Expect* expect, Fingerprint* seen);
  int socketsOf(const Expect* expect) const;
  Result<bool> readHeader(int socket, const Expect* expect);
  bool rests();
  void rest();
  Result<bool> readBehindHeader(size_t bytes);
  Result<size_t> readPiece(int socket, const Piece& piece);
  Status headerCame(int socket);
  Status pieceCame(int socket, const Piece& piece);
  Status begin(const Header& header, const Expect* expect, Fingerprint* seen);
  Status notOfThis(const Header& header) const;
  void publish(const Fingerprint& call);
  void publishNext();
  Status check(const Expect* expect, Fingerprint* seen) const;
  void retarget(std::byte* dst, bool asked);
  void reset();
  bool untouched() const { return !known_ && arriving_[0].headGot == 0; }
  bool whole() const { return known_ && have_ != 0 && lacks_ == 0; }
  std::span<const Arriving> arriving() const { return std::span(arriving_).first(spread_); }
  std::byte* spare() { return staging_[held_ == 0 ? 1 : 0].get(); }

  Sockets& sockets_;
  size_t slotBytes_;
  std::unique_ptr<std::byte[]> staging_[2];
  int held_ = -1;  // the staging buffer whose message is being read, or -1

  ReadAhead ahead_;  // of socket 0; empty whenever a payload is read from there straight to its place
  int64_t restUntilNs_ = 0;
  bool rested_ = false;  // since the last message
  bool polled_ = false;
  Fifo<Posted> posted_;
  uint64_t done_ = 0;  // of those

  // The message being assembled.
  std::byte* target_;   // where its payload goes: spare(), or the caller's memory
  bool asked_ = false;  // target_ is the caller's
  bool known_ = false;  // message_ is this one; until then the one before
  Header message_;
  Pieces pieces_;
  uint64_t have_ = 0;  // a bit for each piece that is there
  size_t lacks_ = 0;   // bytes
  uint16_t number_ = 0;
  uint32_t spread_;  // the peer's: all sockets until a header has said otherwise, so that nothing is read too far
  std::array<Arriving, kMaxSockets> arriving_;
  static_assert(kMostPieces <= 64 && kMostAheadBytes <= kMostPathWholeBytes);

  std::optional<Status> ended_;  // the peer closed, found while draining

  // For pending(): odd while a head has been read and not asked for.  Moves with every message.
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> filling_{false};  // the socket may be further than the message that is being read
  std::atomic<uint64_t> pendingHead_{0}, pendingCount_{0};
};

}  // namespace tutti::tcp

// The sending half of a tcp endpoint: messages in line, written as far as the system takes them, several in one call.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "src/base/fifo.hpp"
#include "transport/tcp/header.hpp"
#include "transport/tcp/pieces.hpp"
#include "transport/tcp/row.hpp"
#include "transport/tcp/sockets.hpp"

namespace tutti::tcp {

/// Payloads up to this are copied behind their header and leave as one piece of memory: some ns for the copy, some 0.1
/// us less in the system than two pieces.
inline constexpr size_t kMostPackedBytes = 16384;

/// Not thread safe.  A larger payload is never copied in user space: it goes from the caller's memory, which is
/// borrowed from the first send() of a message until a send() of it returns true.
class Outgoing {
 public:
  /// looks: of this rank; borrowed.
  Outgoing(Sockets& sockets, size_t slotBytes, const EmptyLooks& looks);

  /// Begin the message or go on with it: true when the system has it all.  Posted ones leave before it.
  Result<bool> send(const std::byte* data, const Header& header);

  /// Put a message in line; its number.  data is borrowed until it is done.
  Result<uint64_t> post(const std::byte* data, const Header& header);
  /// Posted messages that the system has all of.
  uint64_t done() const { return done_; }
  size_t numPosted() const { return posted_.size(); }
  /// Give up what has not left; no message can follow.
  void cancel();

  /// Memory to build a message in (of slotBytes), or nothing while a message is under way.
  std::span<std::byte> staging();
  Result<bool> commit(const Header& header) { return send(staging_.get(), header); }

  /// Whether a message is in line or partly written.
  bool busy() const { return active_ || !posted_.empty(); }
  /// Go on with messages that are in line or partly written, if there are any.  True if something moved.
  Result<bool> push();

 private:
  /// A message in line.
  struct Posted {
    Header header;
    HeaderBytes head{};  // of its first piece
    const std::byte* data = nullptr;
    Pieces pieces;
    size_t sent = 0;    // of one in one piece, its header counted
    uint32_t next = 0;  // the piece that a socket takes next
    uint32_t left = 1;  // pieces that have not left
  };
  /// The piece that is leaving by one socket.
  struct Leaving {
    uint64_t message = 0;  // its number; 0: none
    HeaderBytes head{};
    std::span<const std::byte> bytes;
    size_t sent = 0;  // its header counted
  };
  bool inRow();
  Pieces piecesOf(size_t bytes) const { return {bytes, sockets_.spread(), sockets_.severalPaths()}; }
  Header numbered(const Header& header, bool row);
  void putInLine(const std::byte* data, const Header& header);
  Posted& posted(uint64_t number) { return posted_[static_cast<size_t>(number - done_ - 1)]; }
  Result<bool> pushActive();
  Result<bool> pushLine();
  Result<size_t> pushWhole();
  Result<size_t> pushPiece(int socket);
  Result<bool> pushPieces(bool* moved);
  void takePiece(int socket);
  bool piecesWait() const { return taken_ < posted_.size() && posted_[taken_].pieces.count > 1; }
  static_assert(kMostPackedBytes <= kMostPathWholeBytes && kMostPackedBytes < kLeastPieceBytes);
  bool packed() const { return bytes_ <= kMostPackedBytes; }
  bool whole() const { return sent_ == kHeaderBytes + bytes_; }

  Sockets& sockets_;
  size_t slotBytes_;
  std::unique_ptr<std::byte[]> staging_;  // pages are touched when used, not before
  const EmptyLooks& looks_;
  SmallRow row_;
  uint16_t number_ = 0;  // of the next message
  Fifo<Posted> posted_;
  size_t taken_ = 0;  // of those, from the first on, all pieces have been taken
  uint64_t done_ = 0;
  std::array<Leaving, kMaxSockets> leaving_;
  uint64_t polled_ = 0;  // the message in line that send() is about; 0: none
  // The message in one piece under way that nobody has posted.
  bool active_ = false;
  bool ofRow_ = false;
  const std::byte* data_ = nullptr;
  // The header, and a small payload.
  std::unique_ptr<std::byte[]> packet_{new std::byte[kHeaderBytes + kMostPackedBytes]};
  size_t bytes_ = 0;
  size_t sent_ = 0;  // its header counted
};

}  // namespace tutti::tcp

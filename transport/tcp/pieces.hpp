// How one message is cut for the sockets of an endpoint: each piece travels behind a header of its own, on whichever
// socket has room when its turn comes, so that each carries what its link can.
//
// Both ends compute the cut from the size and the sender's spread, which its headers carry.  A small message is one
// piece, which travels on the first socket: a second system call costs more than it brings.  Where sockets go by
// several interfaces (paths) pieces are smaller, so that links of unequal speed end together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::tcp {

inline constexpr int kMaxSockets = 16;
inline constexpr size_t kLeastPieceBytes = 64 << 10;
inline constexpr size_t kPieceAlign = 4096;  // parts of pages cost the kernel more
/// For each socket, of one message: what the last of them wait for at its end is a piece on the slowest link.
inline constexpr size_t kPiecesOfSocket = 4;
inline constexpr size_t kMostPieces = kMaxSockets * kPiecesOfSocket;
/// The same with several paths; and the most bytes of a message in one piece, which a fast path alone carries sooner.
inline constexpr size_t kLeastPathPieceBytes = 16 << 10;
inline constexpr size_t kMostPathWholeBytes = 64 << 10;
inline constexpr size_t kPiecesOfPathSocket = 8;

struct Piece {
  size_t offset = 0;
  size_t bytes = 0;
};

struct Pieces {
  size_t bytes = 0;
  uint32_t count = 1;  // at most kMostPieces
  size_t each = 0;     // all but the last, which may be smaller

  Pieces() = default;
  Pieces(size_t messageBytes, uint32_t spread, bool paths = false) : bytes(messageBytes), each(messageBytes) {
    if (spread == 1 || messageBytes < (paths ? kMostPathWholeBytes + 1 : 2 * kLeastPieceBytes)) return;
    const size_t least = paths ? kLeastPathPieceBytes : kLeastPieceBytes;
    const size_t most = std::min(spread * (paths ? kPiecesOfPathSocket : kPiecesOfSocket), kMostPieces);
    const size_t aligned = ((messageBytes + most - 1) / most + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
    each = std::max(aligned, least);
    count = static_cast<uint32_t>((messageBytes + each - 1) / each);
  }
  Piece operator[](uint32_t i) const {
    const size_t offset = std::min(each * i, bytes);
    return {offset, std::min(each, bytes - offset)};
  }
};

}  // namespace tutti::tcp

// Which messages have come, as the 32 bits beside their pieces tell: in any order, and some of them twice where a rail
// was lost.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/verbs/wire.hpp"

namespace tutti::verbs {

/// Counts messages that are complete and have no gap before them.  One thread.
class Arrivals {
 public:
  enum class Told : uint8_t {
    New,
    Again,  // it has been told before
    Odd,    // of a message that cannot be under way
  };
  enum class Whole : uint8_t {
    No,
    Yes,
    Odd,  // it cannot be of so many pieces, or one came that it is not made of
  };
  explicit Arrivals(uint32_t slots) : pieces_(slots) {}

  /// Piece `piece`, below kMostPieces, of the message whose number, from 1 on, has these low bits.
  Told tell(uint32_t low, uint32_t piece) {
    const uint32_t ahead = (low - static_cast<uint32_t>(complete_)) & kCounterBits;
    if (ahead == 0 || ahead > kCounterBits / 2) return Told::Again;
    if (ahead > pieces_.size()) return Told::Odd;
    uint64_t& known = pieces_[(complete_ + ahead - 1) % pieces_.size()];
    const uint64_t bit = uint64_t{1} << piece;
    if ((known & bit) != 0) return Told::Again;
    known |= bit;
    return Told::New;
  }
  /// Messages that are complete.
  uint64_t complete() const { return complete_; }
  /// Whether the next has its first piece, in which its header says how many there are.
  bool hasHeader() const { return (next() & 1) != 0; }
  /// Whether the next, of so many pieces, is complete: then it counts.
  Whole countIfWhole(uint32_t pieces) {
    if (!canBePieces(pieces)) return Whole::Odd;
    const uint64_t all = ~uint64_t{0} >> (64 - pieces);
    if ((next() & ~all) != 0) return Whole::Odd;
    if (next() != all) return Whole::No;
    pieces_[complete_++ % pieces_.size()] = 0;
    return Whole::Yes;
  }

 private:
  uint64_t next() const { return pieces_[complete_ % pieces_.size()]; }
  std::vector<uint64_t> pieces_;  // by slot, a bit each
  uint64_t complete_ = 0;
};

}  // namespace tutti::verbs

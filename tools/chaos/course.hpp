// What happens to the bytes of one direction of one connection: a machine without I/O.
//
// Every decision is a function of the seed, the connection's number, the direction and the position in the stream.  How
// reads cut the stream and when they happen changes only when bytes leave, so a run with the same seed damages the same
// bytes.  One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tutti::chaos {

/// What a relay does to what it carries.  Of "every N bytes", N is the mean of distances that are drawn from 1..2N-1.
struct Misdeeds {
  uint64_t seed = 1;
  double delayMs = 0;
  double jitterMs = 0;       // beside the delay, from 0 to this, drawn for each piece
  size_t splitBytes = 0;     // pieces of 1 to this many bytes leave one by one; 0: pieces of 16 KiB
  size_t coalesceBytes = 0;  // bytes wait until so many leave together, 20 ms at most; 0: they do not
  size_t bandwidth = 0;      // bytes a second; 0: no limit
  size_t stallEvery = 0;     // 0: never
  double stallMs = 200;
  size_t flipEvery = 0;
  size_t closeEvery = 0;  // ends the direction, as shutdown() does
  size_t resetEvery = 0;  // ends the connection, and what it still holds is lost

  /// "delay 5 ms, split 100 bytes", or "nothing".
  std::string text() const;
};

enum class DeedKind : uint8_t { Stall, Flip, Close, Reset };

/// Something that was done, at a byte of the stream.
struct Deed {
  DeedKind kind;
  uint64_t position;
  int bit = 0;
  bool operator==(const Deed&) const = default;
  std::string text() const;
};

/// A pseudorandom sequence that is the same on all machines (SplitMix64).
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// From 1 to most.
  uint64_t upTo(uint64_t most) { return 1 + next() % most; }

 private:
  uint64_t state_;
};

class Course {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  enum class End : uint8_t { Open, Closed, Reset };

  /// direction: 0 or 1.
  Course(const Misdeeds& misdeeds, uint64_t connection, int direction);

  /// Bytes have come, or (finish) their end.
  void put(std::span<const std::byte> bytes, int64_t nowNs);
  void finish(int64_t nowNs);

  /// The piece that may leave now: one write's worth, empty if there is none.  taken() says how much of it has left.
  std::span<const std::byte> due(int64_t nowNs) const;
  void taken(size_t bytes);
  /// How the stream ends for its reader, once all that comes before it has left.
  End end(int64_t nowNs) const;
  /// When due() or end() change by themselves.
  int64_t nextNs(int64_t nowNs) const;
  /// Bytes that wait here.
  size_t held() const { return held_; }
  /// What was done since the last call.
  std::vector<Deed> takeDeeds();
  /// No flips, closes or resets from here on.
  void behave();

 private:
  struct Piece {
    std::vector<std::byte> bytes;
    uint64_t boundary = 0;
    int64_t dueNs = 0;
  };
  /// Where a deed is done next.
  struct Mark {
    Dice dice;
    uint64_t mean = 0;
    uint64_t position = 0;
    void move(uint64_t from);
    bool at(uint64_t p) const { return position == p; }
    uint64_t left(uint64_t p) const { return position - p; }
  };
  Mark mark(DeedKind kind, size_t mean) const;
  uint64_t seedOf(uint64_t what) const;
  void beginPiece();
  void deeds(int64_t nowNs);
  void append(std::span<const std::byte> bytes, int64_t nowNs);
  void flip(std::span<std::byte> bytes);

  Misdeeds misdeeds_;
  uint64_t connection_;
  int direction_;
  uint64_t position_ = 0;  // of the next byte that comes
  uint64_t boundary_ = 0;  // the end of the piece that it is in
  int64_t pieceDelayNs_ = 0;
  Dice sizes_, delays_, bits_;
  Mark stalls_, flips_, closes_, resets_;
  std::deque<Piece> pieces_;
  size_t done_ = 0;  // of the first
  size_t held_ = 0;
  int64_t lastDueNs_ = 0;
  End end_ = End::Open;
  int64_t endNs_ = kNever;
  std::vector<Deed> deeds_;
};

}  // namespace tutti::chaos

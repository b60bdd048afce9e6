// A ring buffer that grows on demand.  It holds the bytes that a stream keeps for its next connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace tutti::tcp {

inline constexpr size_t kLeastWindowBytes = 64 << 10;

/// Small at first, and `most` bytes by a power of two always: what lies in one piece does so in a larger ring, too.
class KeptRing {
 public:
  explicit KeptRing(size_t most) : bytes_(least(most)), memory_(new std::byte[bytes_]) {}

  size_t bytes() const { return bytes_; }
  std::byte* at(uint64_t position) const { return memory_.get() + position % bytes_; }
  /// Bytes from there to where the ring ends.
  size_t left(uint64_t position) const { return bytes_ - position % bytes_; }
  /// Doubles it.  records: all that is kept, of `bytes` from `position` on each.
  template <class Records>
  void grow(const Records& records) {
    const size_t larger = 2 * bytes_;
    std::unique_ptr<std::byte[]> memory(new std::byte[larger]);
    for (const auto& r : records) std::memcpy(memory.get() + r.position % larger, at(r.position), r.bytes);
    memory_ = std::move(memory);
    bytes_ = larger;
  }

 private:
  static size_t least(size_t most) {
    while (most % 2 == 0 && most / 2 >= kLeastWindowBytes) most /= 2;
    return most;
  }

  size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace tutti::tcp

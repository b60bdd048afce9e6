// A range of memory, and where it lies.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

enum class MemoryKind : uint8_t {
  Host,
  Pinned,  // of the host, and a device reads and writes it, too
  Device,
};

/// Some of the kinds.  A value.
class MemoryKinds {
 public:
  constexpr MemoryKinds() = default;
  constexpr MemoryKinds(MemoryKind kind) : bits_(bitOf(kind)) {}  // NOLINT: implicit on purpose
  constexpr MemoryKinds operator|(MemoryKinds other) const { return MemoryKinds(bits_ | other.bits_); }
  constexpr bool has(MemoryKind kind) const { return (bits_ & bitOf(kind)) != 0; }

 private:
  constexpr explicit MemoryKinds(int bits) : bits_(static_cast<uint8_t>(bits)) {}
  static constexpr uint8_t bitOf(MemoryKind kind) { return static_cast<uint8_t>(1 << static_cast<int>(kind)); }
  uint8_t bits_ = 0;
};
inline constexpr MemoryKinds kHostMemory = MemoryKinds(MemoryKind::Host) | MemoryKind::Pinned;

/// Borrowed.
struct Memory {
  MemoryKind kind = MemoryKind::Host;
  int device = -1;  // of device memory: its ordinal
  std::byte* base = nullptr;
  size_t bytes = 0;

  bool holds(const void* data, size_t size) const {
    const auto at = static_cast<const std::byte*>(data);
    return at >= base && size <= bytes && static_cast<size_t>(at - base) <= bytes - size;
  }
};

}  // namespace tutti

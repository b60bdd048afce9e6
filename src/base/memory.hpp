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

/// Some of the kinds.
struct MemoryKinds {
  bool host = true;
  bool pinned = true;
  bool device = false;
  constexpr bool has(MemoryKind kind) const {
    return kind == MemoryKind::Host ? host : kind == MemoryKind::Pinned ? pinned : device;
  }
};

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

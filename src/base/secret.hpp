// A key of 32 bytes.  All copies of the object share one place in memory.
//
// Core dumps leave that place out (MADV_DONTDUMP).  It is not swapped if the system allows that (mlock).  The last copy
// wipes it.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

namespace tutti {

/// A value; copies are cheap and share the bytes, which never change.  Any thread.
class Secret {
 public:
  static constexpr size_t kBytes = 32;
  using Raw = std::array<unsigned char, kBytes>;

  Secret() = default;  // all zero; keeps no memory
  /// The first bytes; the others are zero.
  Secret(std::initializer_list<unsigned char> first);
  /// Copies kBytes; the caller wipes its own (wipe()) where they are of no more use.
  explicit Secret(std::span<const unsigned char, kBytes> bytes);
  /// Of the system's random bytes.
  static Secret random();

  const unsigned char* data() const;
  static constexpr size_t size() { return kBytes; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data()), kBytes}; }
  /// Nobody has set it.
  bool empty() const { return bytes_ == nullptr; }

 private:
  struct Bytes;
  static std::shared_ptr<Bytes> place();
  std::shared_ptr<Bytes> bytes_;
};

/// In constant time.
bool operator==(const Secret& a, const Secret& b);

/// Keys of one connection, of which each end has the other's the other way round.
struct DirectionKeys {
  Secret send, receive;
};

/// Overwrites memory that held a secret; no compiler leaves it out.
void wipe(void* memory, size_t bytes);
template <class Container>
void wipe(Container& container) {
  wipe(container.data(), container.size() * sizeof(*container.data()));
}

}  // namespace tutti

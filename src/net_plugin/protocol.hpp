// The messages of a connection: three kinds of fixed sizes, and payloads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/collective/fingerprint.hpp"

namespace tutti::net_plugin {

inline constexpr size_t kMostGrouped = 8;    // buffers of one receive
inline constexpr size_t kMostRequests = 32;  // under way on a comm; of sends as many for each buffer
inline constexpr size_t kMostBytes = size_t{1} << 40;

/// From the receiver: buffers that wait for messages.
struct Grant {
  uint32_t number = 0;
  uint32_t n = 0;
  std::array<int32_t, kMostGrouped> tags{};
  std::array<uint64_t, kMostGrouped> bytes{};
};
static_assert(sizeof(Grant) == 104);

/// From the sender: what comes for one of them, in the head itself where it fits there, else as a payload behind it.
struct Head {
  static constexpr size_t kMostBytes = 232;
  uint32_t grant = 0;
  uint32_t index = 0;
  uint64_t bytes = 0;
  std::array<std::byte, kMostBytes> payload{};
};
static_assert(sizeof(Head) == 248);

/// Messages belong to no call.
inline Fingerprint ofNoCall() { return makeFingerprint({.kind = kKindControl}); }

}  // namespace tutti::net_plugin

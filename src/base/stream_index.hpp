// The index of a stream between two ranks, by which both know whether its dialer begins with another of the peer's
// addresses than the best: number `path` of those of its kind, each of an interface.
#pragma once

#include <cstdint>

namespace tutti {

/// Each one is used once, so that a connection which is made again takes another.
using StreamIndex = int64_t;

inline constexpr int kStreamPathBit = 17;
inline constexpr int kMostStreamPaths = 8;
constexpr StreamIndex streamOnPath(StreamIndex index, int path) {
  return index | (static_cast<StreamIndex>(path) << kStreamPathBit);
}
constexpr int pathOfStream(StreamIndex index) {
  return static_cast<int>(index >> kStreamPathBit) & (kMostStreamPaths - 1);
}
/// Without its path.
constexpr StreamIndex numberOfStream(StreamIndex index) { return index & ((1 << kStreamPathBit) - 1); }

}  // namespace tutti

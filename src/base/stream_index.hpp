// The index of a stream between two ranks, by which both know whether its dialer begins with another of the peer's
// addresses than the best: number `path` of those of its kind, each of an interface.
#pragma once

namespace tutti {

inline constexpr int kStreamPathBit = 17;
inline constexpr int kMostStreamPaths = 8;
constexpr int streamOnPath(int index, int path) { return index | (path << kStreamPathBit); }
constexpr int pathOfStream(int index) { return (index >> kStreamPathBit) & (kMostStreamPaths - 1); }
/// Without its path.
constexpr int numberOfStream(int index) { return index & ((1 << kStreamPathBit) - 1); }

}  // namespace tutti

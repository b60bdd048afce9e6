// How values are cut where channels start apart (Schedule::staggered).
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti {

/// So many channels keep links of all levels busy; further ones only make messages smaller.
inline constexpr int kChannelsApart = 8;
/// Smaller slices cost more in messages than is won.
inline constexpr size_t kLeastStaggeredBytes = 128 * 1024;

/// Channels that chunks of so many bytes are worth; 1: too small to start apart.
inline int channelsApart(size_t chunkBytes, int most = kChannelsApart) {
  return static_cast<int>(std::clamp<size_t>(chunkBytes / (2 * kLeastStaggeredBytes), 1, static_cast<size_t>(most)));
}

/// The most bytes of a message of one of so many channels: two slices at least, for the first of a channel to differ.
inline size_t staggeredBytes(size_t chunkBytes, int channels, size_t slotBytes) {
  constexpr size_t kPage = 4096;
  const size_t half = chunkBytes / static_cast<size_t>(channels) / 2;
  return std::clamp((half + kPage - 1) / kPage * kPage, std::min(kLeastStaggeredBytes, slotBytes), slotBytes);
}

/// Whether channels start apart: not where that would cut what goes in one message.
inline bool startsApart(size_t chunkBytes, int channels, size_t slotBytes) {
  return channels > 1 && chunkBytes / static_cast<size_t>(channels) > staggeredBytes(chunkBytes, channels, slotBytes);
}

}  // namespace tutti

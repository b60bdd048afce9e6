// How values are cut where channels start apart (Schedule::staggered).
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti {

/// So many channels keep links of all levels busy; further ones only make messages smaller.
inline constexpr int kChannelsApart = 8;
/// Slices of a channel: while the first of the call goes through one level, and the last through another, a link idles.
inline constexpr size_t kSlicesApart = 12;
/// Smaller slices cost a host more in messages than is won.
inline constexpr size_t kLeastStaggeredBytes = 128 * 1024;

/// Channels that chunks of so many bytes are worth, with slices of at least `least`; 1: too small to start apart.
inline int channelsApart(size_t chunkBytes, int most = kChannelsApart, size_t least = kLeastStaggeredBytes) {
  return static_cast<int>(std::clamp<size_t>(chunkBytes / (2 * least), 1, static_cast<size_t>(most)));
}

/// The most bytes of a message of one of so many channels: two slices at least, for the first of a channel to differ.
inline size_t staggeredBytes(size_t chunkBytes, int channels, size_t slotBytes, size_t least = kLeastStaggeredBytes) {
  constexpr size_t kPage = 4096;
  const size_t slice = chunkBytes / static_cast<size_t>(channels) / kSlicesApart;
  return std::clamp((slice + kPage - 1) / kPage * kPage, std::min(least, slotBytes), slotBytes);
}

/// Whether channels start apart: not where that would cut what goes in one message.
inline bool startsApart(size_t chunkBytes, int channels, size_t slotBytes, size_t least = kLeastStaggeredBytes) {
  return channels > 1 &&
         chunkBytes / static_cast<size_t>(channels) > staggeredBytes(chunkBytes, channels, slotBytes, least);
}

}  // namespace tutti

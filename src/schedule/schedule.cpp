#include "src/schedule/schedule.hpp"

#include <algorithm>
#include <numeric>

#include "src/base/text.hpp"

namespace tutti {

const char* levelPartName(LevelPart part) {
  constexpr const char* kNames[] = {"direct", "circulant", "doubling", "tree", "pairwise"};
  return kNames[static_cast<size_t>(part)];
}

size_t Schedule::headStart(int lane, size_t sliceBytes, size_t elementBytes) const {
  if (!staggered) return 0;
  constexpr size_t kCacheLines = 128;
  const auto channels = static_cast<size_t>(nChannels), behind = channels - 1 - static_cast<size_t>(channelOf(lane));
  const size_t step = std::lcm(kCacheLines, elementBytes);
  return sliceBytes / channels * behind / step * step;
}

Chunk Schedule::memoryOf(Chunk chunk) const {
  if (!inPlace || chunk.buffer == Buffer::Scratch || !mayBeInPlace(collective, rank, root)) return chunk;
  switch (inPlaceOf(collective)) {
    case InPlace::Same: return out(chunk.index);
    case InPlace::InputInOutput: return chunk.buffer == Buffer::Input ? out(rank) : chunk;
    case InPlace::OutputInInput: return chunk.buffer == Buffer::Output ? in(rank) : chunk;
  }
  return chunk;
}

size_t elementsOfPart(size_t count, size_t elementBytes, size_t nParts) {
  if (nParts == 1) return count;
  const size_t lineElements = std::max<size_t>(1, kCacheLineBytes / elementBytes);
  // Parts that are a few lines each would be uneven if rounded up to lines, so small vectors are cut to the element.
  const size_t even = (count + nParts - 1) / nParts;
  return even >= 8 * lineElements ? (even + lineElements - 1) / lineElements * lineElements : even;
}

namespace {

/// Of a vector of `bytes`, whatever it is of: elements of up to 8 bytes that divide it.
size_t largestChunkBytes(size_t bytes, size_t nChunks) {
  size_t most = 1;
  for (size_t element = 1; element <= 8 && bytes % element == 0; element *= 2) {
    most = std::max(most, elementsOfPart(bytes / element, element, nChunks) * element);
  }
  return most;
}

}  // namespace

size_t chunksPerMessage(const Shape& shape, int nChunks) {
  if (shape.messageBytes == 0) return 1;
  const bool divides = isOneVector(shape.collective);
  const size_t chunk = divides ? largestChunkBytes(shape.bytes, static_cast<size_t>(nChunks)) : shape.bytes;
  return std::max<size_t>(1, shape.messageBytes / std::max<size_t>(1, chunk));
}

std::string toString(Chunk chunk) {
  const char* name = chunk.buffer == Buffer::Input ? "in" : chunk.buffer == Buffer::Output ? "out" : "scratch";
  return cat(name, "[", chunk.index, "]");
}

static const char* nameOf(const Op& op) {
  if (op.token) return op.from.empty() ? "sendToken" : op.to.empty() ? "recvToken" : "recvSendToken";
  if (op.from.empty()) {
    if (op.to.empty()) return op.reduces() ? "reduce" : "copy";
    if (op.reduces()) return "reduceSend";
    if (op.hasDst) return "copySend";
    return op.to.size() > 1 ? "publish" : "send";
  }
  if (op.to.empty()) return op.reduces() ? "recvReduce" : "recv";
  return op.reduces() ? "recvReduceSend" : "recvCopySend";
}

std::string toString(const Op& op) {
  std::string text = nameOf(op);
  const char* separator = " ";
  for (const Chunk source : op.sources) {
    text += separator + toString(source);
    separator = " + ";
  }
  for (const int32_t peer : op.from) {
    text += cat(separator, "rank ", peer);
    separator = " + ";
  }
  if (op.hasDst) text += " => " + toString(op.dst);
  separator = " -> ";
  for (const int32_t peer : op.to) {
    text += peer == kEveryone ? cat(separator, "everyone") : cat(separator, peer);
    separator = ",";
  }
  if (op.direct) text += " (direct)";
  if (op.rounds) text += " (rounded)";
  return text;
}

std::string toString(const Schedule& schedule) {
  std::string text = cat("rank ", schedule.rank, " of ", schedule.nRanks, ", ", collectiveKey(schedule.collective));
  if (schedule.inPlace) text += " in place";
  text += cat(", ", schedule.nChunks, " chunks, ", schedule.nScratch, " scratch, ", schedule.nChannels, " channels\n");
  for (size_t l = 0; l < schedule.lanes.size(); ++l) {
    const Lane& lane = schedule.lanes[l];
    text += cat("lane ", l, "\n");
    size_t phase = 0;
    for (size_t i = 0; i < lane.ops.size(); ++i) {
      for (; phase < lane.phases.size() && lane.phases[phase].begin <= static_cast<int32_t>(i); ++phase) {
        text += cat("  ", lane.phases[phase].name, "\n");
      }
      text += cat("    ", i, lane.ops[i].joined ? "+ " : ": ", toString(lane.ops[i]), "\n");
    }
  }
  return text;
}

}  // namespace tutti

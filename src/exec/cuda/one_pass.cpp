#include "src/exec/cuda/one_pass.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tutti {
namespace {

using kernels::PassArguments;
using kernels::PassCall;

// Every thread of a block has one access of 16 bytes to make; below that a further block brings nothing.
constexpr uint64_t kLeastTileBytes = kernels::kWalkThreads * 16;
// Above that nothing is gained, and blocks end at more different times.
constexpr uint64_t kMostTileBytes = 8 * kLeastTileBytes;

/// Bytes of some rank's memory that a call reads or writes.
struct Touched {
  uintptr_t begin;
  uintptr_t end;
  uint32_t call;
  bool written;
};

/// Ascending by where they begin.
std::vector<Touched> touchedBy(const PassArguments& a) {
  std::vector<Touched> all;
  const auto add = [&](const void* address, uint64_t bytes, uint32_t call, bool written) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (bytes > 0) all.push_back({begin, begin + bytes, call, written});
  };
  for (uint32_t c = 0; c < a.nCalls; ++c) {
    for (uint32_t r = 0; r < a.nRanks; ++r) {
      const kernels::PassSide& side = a.sides[c * a.nRanks + r];
      add(side.input, passInputBytes(a.calls[c], r, a.nRanks), c, false);
      add(side.output, passOutputBytes(a.calls[c], r, a.nRanks), c, true);
    }
  }
  std::sort(all.begin(), all.end(), [](const Touched& x, const Touched& y) { return x.begin < y.begin; });
  return all;
}

}  // namespace

bool exchangesBlocks(Collective collective) {
  const Geometry& g = geometryOf(collective);
  return g.input.content == Content::Blocks && g.output.content == Content::Blocks;
}

PassCall passCall(Collective collective, size_t bytes, int root, int nRanks) {
  const Geometry& g = geometryOf(collective);
  const bool readsBlocks = g.input.content == Content::Blocks, writesBlocks = g.output.content == Content::Blocks;
  PassCall call{};
  call.root = static_cast<uint32_t>(root);
  if (g.input.holders == Holders::None || bytes == 0) return call;
  call.bytes = bytes;
  call.exchanges = exchangesBlocks(collective);
  call.moves = static_cast<uint32_t>(call.exchanges ? nRanks * (nRanks + 1) / 2 : blocksOfCall(collective, nRanks));
  call.reads = g.reduces ? kernels::kAllRanks : startsAtRoot(collective) ? kernels::kRootRank : kernels::kOwnRank;
  call.writes = endsAtRoot(collective)                                      ? kernels::kRootRank
                : g.output.content == Content::Block || call.exchanges != 0 ? kernels::kOwnRank
                                                                            : kernels::kAllRanks;
  call.readsBlock = readsBlocks && !writesBlocks;
  call.writesBlock = writesBlocks && !readsBlocks;
  return call;
}

uint64_t passTraffic(const PassCall& call, int nRanks) {
  const auto n = static_cast<uint32_t>(nRanks);
  uint64_t bytes = 0;
  for (uint32_t r = 0; r < n; ++r) bytes += passInputBytes(call, r, n) + passOutputBytes(call, r, n);
  return bytes;
}

void cutTiles(PassArguments* arguments, size_t blocks) {
  uint64_t bytes = 0;
  for (uint32_t c = 0; c < arguments->nCalls; ++c) bytes += arguments->calls[c].bytes * arguments->calls[c].moves;
  const uint64_t share = (bytes + blocks - 1) / blocks;
  const uint64_t tileBytes =
      std::clamp((share + kLeastTileBytes - 1) / kLeastTileBytes * kLeastTileBytes, kLeastTileBytes, kMostTileBytes);
  arguments->nTiles = 0;
  for (uint32_t c = 0; c < arguments->nCalls; ++c) {
    PassCall& call = arguments->calls[c];
    call.tileBytes = tileBytes;
    call.tiles = static_cast<uint32_t>((call.bytes + tileBytes - 1) / tileBytes);
    call.firstTile = arguments->nTiles;
    arguments->nTiles += uint64_t{call.tiles} * call.moves;
  }
}

size_t independentCalls(const PassArguments& arguments) {
  if (arguments.nCalls < 2) return arguments.nCalls;
  uint32_t n = arguments.nCalls;
  std::vector<Touched> open;  // those that reach beyond where the next begins
  for (const Touched& next : touchedBy(arguments)) {
    std::erase_if(open, [&](const Touched& other) { return other.end <= next.begin; });
    for (const Touched& other : open) {
      const bool clash = other.call != next.call && (other.written || next.written);
      if (clash) n = std::min(n, std::max(other.call, next.call));
    }
    open.push_back(next);
  }
  return n;
}

}  // namespace tutti

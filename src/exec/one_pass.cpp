#include "src/exec/one_pass.hpp"

#include <algorithm>
#include <cstdint>

namespace tutti {
namespace {

using kernels::PassArguments;
using kernels::PassCall;
using kernels::PassRanks;

// Every thread of a block has one access of 16 bytes to make; below that a further block brings nothing.
constexpr uint64_t kLeastTileBytes = kernels::kWalkThreads * 16;
// Above that nothing is gained, and blocks end at more different times.
constexpr uint64_t kMostTileBytes = 8 * kLeastTileBytes;

PassCall moves(size_t bytes, int count, PassRanks reads, PassRanks writes) {
  PassCall call{};
  call.bytes = bytes;
  call.moves = static_cast<uint32_t>(count);
  call.reads = reads;
  call.writes = writes;
  return call;
}

/// Bytes of one rank's memory.
struct Range {
  uintptr_t begin;
  uintptr_t end;
  bool overlaps(const Range& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
};

Range rangeAt(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return {begin, begin + bytes};
}

bool independent(const PassArguments& a, uint32_t first, uint32_t second) {
  for (uint32_t i = 0; i < a.nRanks; ++i) {
    const kernels::PassSide& one = a.sides[first * a.nRanks + i];
    const Range read = rangeAt(one.input, passInputBytes(a.calls[first], i, a.nRanks));
    const Range written = rangeAt(one.output, passOutputBytes(a.calls[first], i, a.nRanks));
    for (uint32_t j = 0; j < a.nRanks; ++j) {
      const kernels::PassSide& other = a.sides[second * a.nRanks + j];
      const Range reads = rangeAt(other.input, passInputBytes(a.calls[second], j, a.nRanks));
      const Range writes = rangeAt(other.output, passOutputBytes(a.calls[second], j, a.nRanks));
      if (written.overlaps(reads) || written.overlaps(writes) || read.overlaps(writes)) return false;
    }
  }
  return true;
}

}  // namespace

PassCall passCall(Collective collective, size_t bytes, int root, int nRanks) {
  using kernels::kAllRanks;
  using kernels::kOwnRank;
  using kernels::kRootRank;
  PassCall call{};
  switch (collective) {
    case Collective::AllReduce: call = moves(bytes, 1, kAllRanks, kAllRanks); break;
    case Collective::Reduce: call = moves(bytes, 1, kAllRanks, kRootRank); break;
    case Collective::Broadcast: call = moves(bytes, 1, kRootRank, kAllRanks); break;
    case Collective::AllGather:
      call = moves(bytes, nRanks, kOwnRank, kAllRanks);
      call.writesBlock = 1;
      break;
    case Collective::ReduceScatter:
      call = moves(bytes, nRanks, kAllRanks, kOwnRank);
      call.readsBlock = 1;
      break;
    case Collective::Gather:
      call = moves(bytes, nRanks, kOwnRank, kRootRank);
      call.writesBlock = 1;
      break;
    case Collective::Scatter:
      call = moves(bytes, nRanks, kRootRank, kOwnRank);
      call.readsBlock = 1;
      break;
    case Collective::AllToAll:
      call = moves(bytes, nRanks * (nRanks + 1) / 2, kOwnRank, kOwnRank);
      call.exchanges = 1;
      break;
    case Collective::Barrier: break;
  }
  call.root = static_cast<uint32_t>(root);
  if (call.bytes == 0) call.moves = 0;
  return call;
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
  for (uint32_t second = 1; second < arguments.nCalls; ++second) {
    for (uint32_t first = 0; first < second; ++first) {
      if (!independent(arguments, first, second)) return second;
    }
  }
  return arguments.nCalls;
}

}  // namespace tutti

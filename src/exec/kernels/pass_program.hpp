// Collectives of ranks that one launch serves, as data: one pass over the buffers of all ranks, in which every byte of
// input is read once and every byte of output written once.  What src/exec/cuda/one_pass.cpp writes and pass_body.hpp
// reads.
//
// A call is a number of moves of equal size, and a move a value for each of its bytes: the bytes of one rank's input,
// or those of all ranks' combined in the order of ranks, that go to one rank's output, or to all ranks'.  Move k is
// about rank k's block where blocks are what is moved.  Moves are cut into tiles, which blocks of threads take in
// turn; no block waits for another, so ranks need no links, no plan and no memory between them.  A reduction of several
// buffers for one rank alone is the same thing: a Reduce whose ranks are the buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/exec/kernels/walk_program.hpp"

namespace tutti::kernels {

inline constexpr uint32_t kMostPassRanks = 64;   // of a launch; also as kMaxSources of src/exec/reduce/reduce.hpp
inline constexpr uint32_t kMostPassCalls = 32;   // of a launch
inline constexpr uint32_t kMostPassSides = 128;  // of a launch: calls, times ranks

/// Which ranks' buffers a move reads or writes.
enum PassRanks : uint8_t {
  kAllRanks,
  kRootRank,
  kOwnRank,  // rank k, of move k
};

struct PassCall {
  uint64_t bytes;      // of a move
  uint64_t tileBytes;  // a multiple of kPackBytes and of an element
  uint64_t firstTile;  // of the launch
  uint32_t tiles;      // of a move
  uint32_t moves;
  uint32_t root;
  uint8_t reads, writes;  // PassRanks
  uint8_t readsBlock;     // k * bytes into the input
  uint8_t writesBlock;    // k * bytes into the output
  /// Instead of all that: a move for every pair of ranks i <= j, whose blocks change places: i's block j goes to j's
  /// block i, and j's block i to i's block j.  Kernels that combine do not do that.
  uint8_t exchanges;
  uint8_t reserved[3];
};

/// Bytes of `rank`'s buffer that moves of such a call read or write, from its start; 0: none.
constexpr uint64_t passBytes(const PassCall& call, uint8_t ranks, bool blocks, uint32_t rank, uint32_t nRanks) {
  if (call.moves == 0) return 0;
  if (call.exchanges != 0) return call.bytes * nRanks;
  if (ranks == kRootRank && rank != call.root) return 0;
  return call.bytes * (blocks ? nRanks : 1);
}
constexpr uint64_t passInputBytes(const PassCall& call, uint32_t rank, uint32_t nRanks) {
  return passBytes(call, call.reads, call.readsBlock != 0, rank, nRanks);
}
constexpr uint64_t passOutputBytes(const PassCall& call, uint32_t rank, uint32_t nRanks) {
  return passBytes(call, call.writes, call.writesBlock != 0, rank, nRanks);
}

/// One rank's buffers in one call.
struct PassSide {
  const unsigned char* input;
  unsigned char* output;
};

/// What the host passes by value to a pass kernel.
struct PassArguments {
  PassCall calls[kMostPassCalls];
  PassSide sides[kMostPassSides];  // [call * nRanks + rank]
  uint64_t nTiles;
  uint32_t nCalls;
  uint32_t nRanks;
};
static_assert(sizeof(PassCall) == 48 && sizeof(PassSide) == 16, "host and device agree on the layout");
static_assert(sizeof(PassArguments) == 48 * kMostPassCalls + 16 * kMostPassSides + 16 && sizeof(PassArguments) <= 4096,
              "a kernel takes 4 KiB of arguments");

}  // namespace tutti::kernels

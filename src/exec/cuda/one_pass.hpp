// Calls of ranks that one launch serves: which bytes go where, as the pass kernels read it (kernels/pass_program.hpp).
#pragma once

#include <cstddef>

#include "src/collective/geometry.hpp"
#include "src/exec/kernels/pass_program.hpp"

namespace tutti {

/// Whether all ranks give each other blocks, as in AllToAll.
bool exchangesBlocks(Collective collective);

/// A collective whose blocks are all alike, without its tiles.  bytes: of the vector of an AllReduce, Broadcast or
/// Reduce, else of one rank's block.  A Barrier has no moves: that all ranks' streams have come to it is all there is.
kernels::PassCall passCall(Collective collective, size_t bytes, int root, int nRanks);

/// Bytes that a call reads and writes in the memory of all ranks together.
uint64_t passTraffic(const kernels::PassCall& call, int nRanks);

/// Sets the tiles of all calls, such that `blocks` blocks have about as much to do, and no tile is smaller than is
/// worth a block's while.  Sets nTiles.
void cutTiles(kernels::PassArguments* arguments, size_t blocks);

/// How many of arguments->calls, from the first, can be carried out side by side: before one whose buffers overlap
/// with what an earlier one writes, or which writes what an earlier one reads.  At least 1.
size_t independentCalls(const kernels::PassArguments& arguments);

}  // namespace tutti

// The geometry of collectives: who has which buffer, what it holds, and where the values of the output come from.
//
// One row for each collective is all there is to know; the functions below are read off the rows.  Counts are those of
// tutti.h: elements of the whole vector of an AllReduce, Broadcast or Reduce, else of one rank's block.
//
//   collective      input                    output                   in place
//   AllReduce       vector                   vector, reduced          the same
//   Broadcast       vector, of the root      vector                   the same
//   Reduce          vector                   vector, of the root      the same
//   AllGather       block                    blocks                   input is the rank's block of the output
//   ReduceScatter   blocks                   block, reduced           output is the rank's block of the input
//   AllToAll        blocks                   blocks                   the same
//   Gather          block                    blocks, of the root      input is the rank's block of the output
//   Scatter         blocks, of the root      block                    output is the rank's block of the input
//   Barrier         -                        -                        -
// In place is possible on ranks that have both buffers.  Those that have blocks have a v form, with a count and a
// displacement for each of them.
#pragma once

#include <array>

#include "src/base/types.hpp"

namespace tutti {

/// Which ranks have a buffer.
enum class Holders : uint8_t { None, Root, All };

/// What a buffer holds.
enum class Content : uint8_t {
  Vector,  // `count` elements, which schedules cut into chunks as they like
  Block,   // `count` elements: one rank's block
  Blocks,  // `count` elements for each rank; block r is rank r's
};

struct Side {
  Holders holders;
  Content content;
};

struct Geometry {
  Collective collective;
  Side input, output;
  bool reduces;  // the output is combined of all ranks' inputs
};

inline constexpr auto kGeometry = [] {
  using enum Holders;
  using enum Content;
  using enum Collective;
  return std::array<Geometry, kNumCollectives>{{
      {AllReduce, {All, Vector}, {All, Vector}, true},
      {Broadcast, {Root, Vector}, {All, Vector}, false},
      {Reduce, {All, Vector}, {Root, Vector}, true},
      {AllGather, {All, Block}, {All, Blocks}, false},
      {ReduceScatter, {All, Blocks}, {All, Block}, true},
      {AllToAll, {All, Blocks}, {All, Blocks}, false},
      {Gather, {All, Block}, {Root, Blocks}, false},
      {Scatter, {Root, Blocks}, {All, Block}, false},
      {Barrier, {None, Block}, {None, Block}, false},
  }};
}();

constexpr const Geometry& geometryOf(Collective c) { return kGeometry[static_cast<size_t>(c)]; }

static_assert(
    [] {
      for (const Geometry& row : kGeometry) {
        if (&geometryOf(row.collective) != &row) return false;
      }
      return true;
    }(),
    "rows are in the order of Collective");

constexpr bool reduces(Collective c) { return geometryOf(c).reduces; }

/// From one rank to all.
constexpr bool startsAtRoot(Collective c) { return geometryOf(c).input.holders == Holders::Root; }
/// From all ranks to one.
constexpr bool endsAtRoot(Collective c) { return geometryOf(c).output.holders == Holders::Root; }
constexpr bool isRooted(Collective c) { return startsAtRoot(c) || endsAtRoot(c); }

/// Every rank sends data while it receives some.
constexpr bool goesBothWays(Collective c) {
  return geometryOf(c).input.holders == Holders::All && geometryOf(c).output.holders == Holders::All;
}

/// Buffers are the whole vector; else a block for each rank, or one of those.
constexpr bool isOneVector(Collective c) { return geometryOf(c).input.content == Content::Vector; }

/// How many times `count` elements a call is about: what goes in or comes out, whichever is more.
constexpr int blocksOfCall(Collective c, int nRanks) { return isOneVector(c) ? 1 : nRanks; }

/// Of a v form: every rank is given the sizes of all blocks.
constexpr bool everyoneKnowsBlocks(Collective c) {
  return goesBothWays(c) && geometryOf(c).input.content != geometryOf(c).output.content;
}

constexpr bool isHolder(const Side& side, int rank, int root) {
  return side.holders == Holders::All || (side.holders == Holders::Root && rank == root);
}
constexpr bool hasInput(Collective c, int rank, int root) { return isHolder(geometryOf(c).input, rank, root); }
constexpr bool hasOutput(Collective c, int rank, int root) { return isHolder(geometryOf(c).output, rank, root); }

/// Chunks of a buffer where there is one.  vectorChunks: those that a vector is cut into.
constexpr int chunksIn(const Side& side, int nRanks, int vectorChunks) {
  if (side.content == Content::Blocks) return nRanks;
  return side.content == Content::Vector ? vectorChunks : 1;
}
/// Chunks of a rank's buffers, 0 where it has none.  With one chunk for a vector: how many times `count` elements.
constexpr int inputChunks(Collective c, int rank, int root, int nRanks, int vectorChunks = 1) {
  return hasInput(c, rank, root) ? chunksIn(geometryOf(c).input, nRanks, vectorChunks) : 0;
}
constexpr int outputChunks(Collective c, int rank, int root, int nRanks, int vectorChunks = 1) {
  return hasOutput(c, rank, root) ? chunksIn(geometryOf(c).output, nRanks, vectorChunks) : 0;
}

/// How the buffers of a rank lie in place, if it has both.
enum class InPlace : uint8_t {
  Same,           // Output[c] is Input[c]
  InputInOutput,  // Input[0] is Output[rank]
  OutputInInput,  // Output[0] is Input[rank]
};
constexpr InPlace inPlaceOf(Collective c) {
  const Geometry& g = geometryOf(c);
  if (g.input.content == g.output.content) return InPlace::Same;
  return g.input.content == Content::Block ? InPlace::InputInOutput : InPlace::OutputInInput;
}
constexpr bool mayBeInPlace(Collective c, int rank, int root) {
  return hasInput(c, rank, root) && hasOutput(c, rank, root);
}

/// In Source::rank: all ranks' chunks, combined.
inline constexpr int kCombined = -1;

/// Whose input chunk an output chunk holds.
struct Source {
  int rank;
  int chunk;
};
constexpr Source sourceOf(Collective c, int rank, int root, int outputChunk) {
  const Geometry& g = geometryOf(c);
  const int from = g.reduces ? kCombined : startsAtRoot(c) ? root : outputChunk;
  if (g.input.content == Content::Blocks) return {from, rank};
  return {from, g.input.content == Content::Vector ? outputChunk : 0};
}

}  // namespace tutti

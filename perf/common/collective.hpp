// What distinguishes one *_perf program from another: a description of its collective.  One file each in
// perf/collectives/.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::perf {

/// One rank's view of one row.  Group means the communicator that is measured.
struct Geometry {
  int nRanks = 1;
  int rank = 0;
  int root = 0;
  size_t bytes = 0;  // what -b .. -e asked for
  size_t elementBytes = 4;
  bool inPlace = false;
};

/// Counts in elements.  In place, both buffers lie in one of max(send, recv) elements, at these offsets.
struct Layout {
  size_t sendCount = 0;     // elements of this rank's send buffer
  size_t recvCount = 0;     // elements of this rank's receive buffer
  size_t count = 0;         // the call's count argument, printed
  size_t rowBytes = 0;      // the size column
  size_t trafficBytes = 0;  // what algbw counts: trafficBytes / time
  size_t inPlaceSend = 0;   // where sendbuff begins in the shared buffer
  size_t inPlaceRecv = 0;   // where recvbuff begins
  size_t inPlaceCount = 0;  // elements of the shared buffer; 0: max(sendCount, recvCount)
};

/// A part of the receive buffer and what it must hold: elements [sourceIndex, sourceIndex + count) of `source`'s send
/// buffer, or of the reduction over all ranks' send buffers.
struct Block {
  static constexpr int kReduction = -1;
  size_t offset = 0;
  size_t count = 0;
  int source = kReduction;
  size_t sourceIndex = 0;
};

/// Per-rank counts and displacements of the v forms, in elements.
struct Vectors {
  std::vector<size_t> sendCounts, sendOffsets, recvCounts, recvOffsets;
};

struct Call {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  tuttiComm_t comm = nullptr;
  tuttiStream_t stream = nullptr;
  int step = 0;  // of Collective::steps
  Geometry geometry;
  Vectors vectors;  // of Collective::vectors
};

struct Collective {
  const char* name;     // "AllReduce"
  const char* program;  // "all_reduce_perf"
  bool reduces;         // has an operator
  bool rooted;          // has a root
  Layout (*layout)(const Geometry&);
  std::vector<Block> (*expect)(const Geometry&);  // ascending, not overlapping; what lies between stays untouched
  /// Called inside a group when there are `steps`, when one thread drives several ranks, or when -m aggregates.
  tuttiResult_t (*call)(const Call&);
  double (*busFactor)(int nRanks);  // busbw = algbw * factor
  Vectors (*vectors)(const Geometry&) = nullptr;
  const char* (*refuses)(int nRanks) = nullptr;  // a sentence if it cannot run with so many ranks, else nullptr
  bool (*hasInPlace)(int nRanks) = nullptr;      // nullptr: always
  tuttiResult_t (*estimate)(const Call&, tuttiEstimate_t*) = nullptr;  // what the library expects; nullptr: nothing
  int (*steps)(int nRanks) = nullptr;  // rounds that follow one another, each a group; nullptr: a single plain call
};

/// The library's estimate of one `which` with the call's type, operator and root, for `count` elements.
inline tuttiResult_t ask(const Call& c, tuttiCall_t which, size_t count, tuttiEstimate_t* out) {
  return tuttiCommEstimate(c.comm, which, count, c.type, c.op, c.geometry.root, out);
}

/// The part of `bytes` that each of nRanks ranks gets, in elements, rounded down to 16 bytes.
inline size_t perRankCount(const Geometry& g) {
  const size_t count = g.bytes / g.elementBytes / static_cast<size_t>(g.nRanks);
  return count & ~(16 / g.elementBytes - 1);
}
inline size_t toSize(int n) { return static_cast<size_t>(n); }
inline double one(int) { return 1.0; }
/// (n-1)/n: the share of the data that leaves a rank.
inline double shareOfOthers(int nRanks) { return (nRanks - 1.0) / nRanks; }

extern const Collective kAllReduce, kAllGather, kReduceScatter, kAllToAll, kAllToAllv, kBroadcast, kReduce, kGather,
    kScatter, kSendRecv, kHyperCube;

}  // namespace tutti::perf

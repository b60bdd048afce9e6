// A schedule: what one rank does in one collective, as data.
//
// A schedule is a few lanes; a lane is a list of ops on chunks, executed in order.  Lanes are independent of
// each other: they share no chunk that one of them writes.  Between two ranks and for one lane there is one FIFO in
// each direction; the i-th message sent is the i-th message received.  A schedule knows no bytes, types, operators or
// links.
//
// Buffers and their chunks.  The executor maps chunk indices to memory.  What Input and Output hold, which ranks have
// them, and what in place means, is the geometry of the collective (src/collective/geometry.hpp): a vector has nChunks
// chunks, blocks are nRanks chunks, chunk r rank r's, and one block is one chunk.  Input is never written (out of place
// it is the user's const buffer).  Scratch has nScratch chunks, private to the rank; each is as large as the largest
// chunk that it ever holds.
//
// Messages of several chunks: ops that follow each other may have their messages in common (Op::joined).  A run of such
// ops takes one message from each rank of `from` and sends one to each rank of `to`; the k-th op handles the k-th chunk
// of each.  The chunks need not lie side by side: the executor gathers and scatters what does not.
//
// Large buffers: the executor runs the schedule repeatedly over slices of every chunk, so that no message is larger
// than a slot.  A schedule must therefore complete with one message of room per FIFO and direction (fused ones: with
// slotsNeeded; the verifier checks that), and must leave all FIFOs empty.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "src/collective/geometry.hpp"

namespace tutti {

enum class Buffer : uint8_t { Input, Output, Scratch };

struct Chunk {
  Buffer buffer = Buffer::Output;
  int32_t index = 0;
  auto operator<=>(const Chunk&) const = default;
};

inline Chunk in(int index) { return {Buffer::Input, index}; }
inline Chunk out(int index) { return {Buffer::Output, index}; }
inline Chunk scratch(int index) { return {Buffer::Scratch, index}; }

/// In Op::to of a schedule that publishes: all other ranks, by one message that each of them reads.
inline constexpr int32_t kEveryone = -1;

/// One op.  All ops have the one form "value := combination of what comes in; store it; pass it on":
///   1. take one message from each rank of `from` (in this order),
///   2. combine them with the chunks of `sources`,
///   3. store the value in `dst` if hasDst,
///   4. send the value to each rank of `to`.
/// Combination: with one operand in all, the operand itself; with several, the collective's reduction operator, applied
/// in the order sources[0], sources[1], ..., from[0], from[1], ... (left to right).
///
/// Logical ops, which algorithms are written in:   Fused ops, which passes make of them:
///   send        to={p}   sources={x}                recvCopySend    from={p} dst=y to={q}
///   recv        from={p} dst=y                      recvReduceSend  from={p} sources={x} [dst=y] to={q}
///   recvReduce  from={p} sources={x} dst=y          multi-source    from={p,q,...} sources={x} dst=y
///   copy        sources={x} dst=y                   publish         sources={x} to={p,q,...}
///   reduce      sources={x,y} dst=z
/// x, y and z may be the same chunk.
struct Op {
  std::vector<int32_t> from;
  std::vector<int32_t> to;
  std::vector<Chunk> sources;
  Chunk dst;
  bool hasDst = false;
  /// Barrier only: an empty message still has to travel.
  bool token = false;
  /// Set by a pass: send from the user's memory without copying (the `direct` protocol).  The op is done when the
  /// message is posted; a later op of the lane that writes a source chunk waits until the receiver has taken it.
  bool direct = false;
  /// The chunk (index into the larger of Input and Output; of AllToAll sender * nRanks + receiver) whose size the value
  /// has.  Set by the algorithm or a pass where it cannot be seen from the op itself (a value that only passes through
  /// scratch, of chunks that differ in size); else -1.
  int32_t origin = -1;
  /// Its messages are parts of the messages of the op before it, which has the same `from` and `to`.  No op of a
  /// message reads what an earlier one of it writes; none is a token, direct, or sent to kEveryone.
  bool joined = false;
  /// Set by a pass: the value is rounded to what travels between hosts before it is stored or sent; see roundResults().
  bool rounds = false;

  bool operator==(const Op&) const = default;
  bool reduces() const { return from.size() + sources.size() > 1; }
};

/// The end of the message that op `begin` begins: the first op behind it that is not joined to it.
inline size_t messageEnd(const std::vector<Op>& ops, size_t begin) {
  size_t end = begin + 1;
  while (end < ops.size() && ops[end].joined) ++end;
  return end;
}

/// A name for the ops [begin, next phase's begin) of a lane, for printing and tracing.
struct Phase {
  std::string name;
  int32_t begin = 0;
  bool operator==(const Phase&) const = default;
};

struct Lane {
  std::vector<Op> ops;
  std::vector<Phase> phases;
  bool operator==(const Lane&) const = default;
};

/// One rank's part of a collective.  A value.
struct Schedule {
  Collective collective = Collective::AllReduce;
  int rank = 0;
  int nRanks = 1;
  int root = 0;
  bool inPlace = false;
  /// Chunks that AllReduce, Broadcast and Reduce divide their buffer into; other collectives ignore it.
  int nChunks = 1;
  int nScratch = 0;
  /// Lanes [k * lanes / nChannels, (k+1) * lanes / nChannels) are channel k, which works on the k-th of nChannels parts
  /// of the bytes of every chunk: lanes of different channels never touch the same byte.  A scratch chunk belongs to
  /// the lanes of one channel.
  int nChannels = 1;
  /// Channels start apart: the first slice of channel k is (k + 1) / nChannels of one.  For schedules whose phases use
  /// different links, which are all busy then; with channels in step, all of them are in one phase at a time.
  bool staggered = false;
  /// Messages of room per FIFO and direction without which it can deadlock; see fuse().
  int slotsNeeded = 1;
  /// All messages are to kEveryone; set by publish().
  bool published = false;
  /// Every reduction has two operands and follows reduction_tree.hpp; passes must leave it so (an executor may round
  /// once per op, so the grouping into ops matters too).
  bool reproducible = false;
  /// Whether fuse() may have an op add up several messages.
  bool accumulates = true;
  std::vector<Lane> lanes;

  bool operator==(const Schedule&) const = default;
  /// 0 where this rank has no Input, or no Output.
  int inputChunks() const { return tutti::inputChunks(collective, rank, root, nRanks, nChunks); }
  int outputChunks() const { return tutti::outputChunks(collective, rank, root, nRanks, nChunks); }
  /// The chunk that stands for this one's memory: two chunks are the same bytes (in place) iff this says the same.
  Chunk memoryOf(Chunk chunk) const;
  int channelOf(int lane) const { return lane / (static_cast<int>(lanes.size()) / nChannels); }
  /// Bytes that the first slice of a lane has less than sliceBytes, a multiple of elementBytes; on all ranks the same.
  size_t headStart(int lane, size_t sliceBytes, size_t elementBytes) const;
};

/// How a hierarchical algorithm goes about one level; which of them it knows depends on the algorithm.
enum class LevelPart : uint8_t {
  Direct,     // everyone with everyone at once
  Circulant,  // in ceil(log2 n) rounds
  Doubling,   // whole values, in ceil(log2 n) rounds
  Tree,       // one member for all, reached along a binomial tree
  Pairwise,   // one partner after the other
};
const char* levelPartName(LevelPart part);

/// What a schedule is built for.  Every rank of a call has the same Shape but for `rank`.
struct Shape {
  Collective collective = Collective::AllReduce;
  int rank = 0;
  int nRanks = 1;
  int root = 0;
  bool inPlace = false;
  /// Bytes of the whole vector for AllReduce, Broadcast, Reduce; of one rank's block otherwise.
  size_t bytes = 0;
  /// Bytes one message may carry (a slot); pipelined algorithms use it to choose their number of pieces.
  size_t slotBytes = 128 * 1024;
  /// False: operands must be combined in rank order (the reproducible pass then rewrites the schedule).
  bool commutative = true;
  /// nodeOf[r] is the node of rank r; empty: one node.  Nodes are numbered 0.. in order of their first rank.
  std::vector<int> nodeOf = {};
  /// Groups of ranks inside nodes (sockets, NUMA nodes, caches), the coarsest first: inner[i][r] is the group of rank
  /// r. Every level divides the groups of the one before.
  std::vector<std::vector<int>> inner = {};
  /// The rail that rank r reaches other nodes by (the number of its nearest adapter); empty: rails are not known, or
  /// all are on one.  Hierarchical algorithms let ranks of one rail talk to each other.
  std::vector<int> railOf = {};
  /// For hierarchical algorithms: how to go about each step of Hierarchy::steps(); empty: as the algorithm likes.
  std::vector<LevelPart> parts = {};
  /// Some ranks' blocks differ in size (the v forms).
  bool uneven = false;
  /// What a step sends to one rank goes in messages of several chunks (Op::joined) of together at most so many bytes,
  /// which must not be more than slotBytes; 0: every chunk goes for itself.
  size_t messageBytes = 0;
};

/// "rank 0 of 4, allreduce, 4 chunks, 2 scratch / lane 0 / reduce-scatter / 0: send out[0] -> 1 ..." for people.
std::string toString(const Schedule& schedule);
std::string toString(const Op& op);
std::string toString(Chunk chunk);

/// How a vector of `count` elements is cut into chunks: elements of each of nParts parts.  Those at the end have what
/// is left, which may be nothing.  They start on cache lines where that does not make them much more uneven.
size_t elementsOfPart(size_t count, size_t elementBytes, size_t nParts);

/// The most chunks of a step that a message to one rank has, by Shape::messageBytes: at least 1.  nChunks: that the
/// schedule divides a vector into.  Chunks that are rounded to cache lines count as large as they may become.
size_t chunksPerMessage(const Shape& shape, int nChunks);

}  // namespace tutti

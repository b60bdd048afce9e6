// A plan: one rank's schedule bound to sizes, memory layout and endpoints; what the host executor walks.
//
// Slices.  Chunks are cut so that no message exceeds `sliceBytes`; the executor runs the whole schedule for slice 0 of
// every chunk, then for slice 1, and so on, each lane at its own pace.  A chunk that has no such slice moves nothing,
// and as all ranks know all sizes, nobody waits for it.
//
// Messages of several chunks (Op::joined) are one bound op with parts.  Parts that lie side by side in every buffer
// that they touch are one part, and an op of one part is like any other; what is left is gathered into the message, and
// scattered from it, by the executor.  Such a message has all bytes of its chunks, from where these really lie, and
// must fit a slice: Shape::messageBytes sees to that.
//
// A plan is made once per kind of call and reused; running it allocates nothing.  It borrows its endpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/base/status.hpp"
#include "src/exec/packed_endpoint.hpp"
#include "src/exec/worker.hpp"
#include "src/schedule/schedule.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Elements [offset, offset + count) of a user's buffer.
struct Block {
  size_t offset = 0;
  size_t count = 0;
};

/// Where the chunks of a schedule lie.  One entry per chunk index.
struct Layout {
  std::vector<Block> input;
  std::vector<Block> output;
  /// Elements of the values that ops name by Op::origin, where those are more than this rank's chunks: of an AllToAll
  /// whose blocks pass through other ranks, [sender * nRanks + receiver].
  std::vector<size_t> values = {};
};

/// Part `part` of `count` elements that are cut into nParts (elementsOfPart() of schedule.hpp).
Block partOf(size_t count, size_t elementBytes, int nParts, int part);

/// The layout of a call whose blocks are all alike: for AllReduce, Broadcast and Reduce `count` elements in nChunks
/// parts; else blocks of `count` elements each.
Layout evenLayout(const Schedule& schedule, size_t count, size_t elementBytes);

/// A chunk as seen by one channel: its bytes in one of the three buffers.
struct Operand {
  Buffer buffer = Buffer::Input;
  size_t offset = 0;   // bytes from the start of the buffer (scratch: of the plan's scratch memory)
  Chunk memory;        // stands for the chunk's bytes: two chunks share memory iff this is the same
  int32_t chunks = 1;  // that lie side by side: memory, and those with the next indices

  bool covers(Chunk other) const {
    return other.buffer == memory.buffer && other.index >= memory.index && other.index < memory.index + chunks;
  }
};

/// The commonest ops, which the executor recognizes at a glance; for the rest it looks at everything.
enum class OpShape : uint8_t {
  Other,
  Parts,       // see BoundOp::parts
  Send,        // one buffer to one receiver
  Move,        // from one sender, to a buffer (or a token) and perhaps on from there
  Accumulate,  // a message and a buffer to a buffer
  Copy,        // one buffer to another
};

/// What an op does with a run of its messages' bytes.
struct BoundPart {
  std::vector<Operand> sources;
  Operand dst;
  bool hasDst = false;
  size_t touchedBytes = 0;  // as BoundOp::touchedBytes
  size_t bytes = 0;
};

/// An op with everything looked up.
struct BoundOp {
  std::vector<Endpoint*> from;
  std::vector<Endpoint*> to;
  std::vector<int> fromRanks;
  std::vector<int> toRanks;
  std::vector<Operand> sources;
  Operand dst;
  bool hasDst = false;
  bool token = false;
  bool direct = false;
  bool rounds = false;  // as Op::rounds
  /// The outbox that all of `to`, two or more, have in common; null: none.
  Outbox* outbox = nullptr;
  OpShape shape = OpShape::Other;
  /// Bytes that the call touches on this host, if dst is a part of the output that no op reads afterwards; else 0.
  /// Decides whether to store past the cache.
  size_t touchedBytes = 0;
  size_t bytes = 0;  // of the value, all slices together
  /// The parts of a message whose chunks do not lie side by side, in its order; `bytes` is then their sum, at most a
  /// slice, and sources, dst, hasDst and touchedBytes are unused.
  std::vector<BoundPart> parts;

  /// handle(sources, dst or null, bytes, touchedBytes) for every part, or for the op where it has none.
  template <class Handle>
  void eachPart(Handle handle) {
    if (parts.empty()) return handle(sources, hasDst ? &dst : nullptr, bytes, touchedBytes);
    for (BoundPart& part : parts)
      handle(part.sources, part.hasDst ? &part.dst : nullptr, part.bytes, part.touchedBytes);
  }
};

struct BoundLane {
  std::vector<BoundOp> ops;
  size_t headStart = 0;  // bytes that the first slice has less than the others
  size_t loops = 0;      // slices of the largest value

  /// The first byte of a slice.
  size_t beginOf(size_t slice, size_t sliceBytes) const { return slice == 0 ? 0 : slice * sliceBytes - headStart; }
};

/// Smaller messages go through slots even from memory that the receiver has mapped, unless Plan::lendsAll.  Reading it
/// costs no more than reading a slot; but the sender's call does not return before, which is long where the reader has
/// to wait for the sender's core.
inline constexpr size_t kLeastMappedBytes = 4096;
inline constexpr size_t kLeastMappedBytesOnSharedCores = 16384;
/// Smaller ones go through slots from memory of processes that has to be pulled, unless Plan::lendsAll: a system call
/// takes longer than two copies.
inline constexpr size_t kLeastPulledBytes = 4096;
/// The most bytes of a message that is read from the memory of another process.
inline constexpr size_t kPullBytes = 512 * 1024;

/// Which messages to a rank are posted ahead (Endpoint::postSend).
enum class Posting : uint8_t {
  Nothing,
  Direct,  // of ops that are marked direct: the receiver takes them from the sender's memory, and late
  All,     // the system takes them, as it would take messages that are polled
};

/// A message of so many leaves in one system call, and costs less when it is polled than when it is posted.
inline constexpr size_t kMostUnpostedBytes = 16384;

struct Plan {
  Schedule schedule;
  size_t elementBytes = 1;
  size_t sliceBytes = 0;
  /// What ops that are marked direct may lend: every memory that a receiver can read somehow, or only what it has
  /// mapped.  Each rank's own business: receivers take what comes.
  bool lendsAll = false;
  size_t leastMappedBytes = kLeastMappedBytes;
  std::vector<Posting> posts;  // by rank; empty: nothing is posted
  /// What messages between hosts travel as, which their endpoints see to; ops that round do so to it.
  WireCode wire;
  std::vector<BoundLane> lanes;
  std::unique_ptr<std::byte[]> ownScratch;
  std::byte* scratch = nullptr;  // ownScratch, or what the plan's owner has lent
  size_t scratchBytes = 0;
  /// Who copies and reduces; null: the executor itself, on host memory.  Borrowed.
  Worker* worker = nullptr;
};

/// Finds the endpoint of a lane to a peer; null for executors that know links by rank, and while it comes up.
using EndpointFinder = std::function<Result<Endpoint*>(int peer, int lane)>;

/// Gives scratch memory of at least so many bytes, which outlives the plan.
using ScratchLender = std::function<Result<std::byte*>(size_t bytes)>;

/// Bind `schedule`.  sliceBytes: a multiple of elementBytes, at most the slot size of every endpoint; more where
/// endpoints take larger messages in pieces and nothing is built in slots.  lend: null: the plan has scratch memory of
/// its own, on the host.  ranksOnHost: those of the call that share a cache with this one.  Errors: those of the finder
/// and of the lender; InternalError if a message of several chunks is larger than a slice.
Result<std::unique_ptr<Plan>> bindPlan(Schedule schedule, const Layout& layout, size_t elementBytes, size_t sliceBytes,
                                       const EndpointFinder& endpoint, const ScratchLender& lend = nullptr,
                                       size_t ranksOnHost = 1);

/// Whether the rank sends and receives nothing.
bool onlySends(const Plan& plan);

}  // namespace tutti

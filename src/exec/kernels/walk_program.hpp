// One rank's plan as data that a GPU walks: what src/exec/cuda/resident_program.cpp writes and walk_body.hpp reads.
//
// A lane is walked by one block.  Links are numbered per lane.  A link joins two ends, one of each rank, which lie in
// the memory of their rank's device; an end is written by the peer but for `counters`:
//   head      messages that the peer has written here, not counting inline ones behind the last other one
//   credit    messages of this end's that the peer is done with
//   counters  of this end alone: messages sent, and messages received; they outlive a launch, so that launches can be
//             captured and replayed
//   offers    by slot: where the message lies if it is lent instead of copied, else 0
//   lines     by slot: short messages, payload and flag in the same 8 or 16 bytes
//   slots     the other messages
// Every word has one writer and only grows, and all of an end but its slots is zero at first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

inline constexpr uint32_t kMostLinks = 64;      // of a lane, and so operands and receivers of an op
inline constexpr uint32_t kMostMembers = 32;    // ranks of one launch
inline constexpr uint64_t kInlineBytes = 4096;  // of a message: 8 bytes for each of 512 threads
inline constexpr unsigned kWalkThreads = 512;

/// Where the parts of an end are, in bytes from its start.
struct EndLayout {
  uint64_t slots = 0;
  uint64_t slotBytes = 0;  // a multiple of 128

  static constexpr uint64_t kHead = 0;
  static constexpr uint64_t kCredit = 128;
  static constexpr uint64_t kCounters = 256;
  static constexpr uint64_t kOffers = 384;
  constexpr uint64_t linesAt() const { return kOffers + (slots * 8 + 127) / 128 * 128; }
  constexpr uint64_t slotsAt() const { return linesAt() + slots * 2 * kInlineBytes; }
  constexpr uint64_t bytes() const { return slotsAt() + slots * slotBytes; }
};

struct WalkLink {
  unsigned char* mine;
  unsigned char* peers;
};

struct WalkOperand {
  uint64_t offset;  // bytes from the buffer's start
  uint32_t buffer;  // as tutti::Buffer: 0 input, 1 output, 2 scratch
  uint32_t reserved;
};

/// One of the ranks that a value goes to.
struct WalkReceiver {
  uint32_t link;
  uint32_t place;  // which of the op's copies, or kLent: it reads the value where it lies
};
inline constexpr uint32_t kLent = ~0u;

/// Something lent that must be back before an op writes its dst.
struct WalkLoan {
  uint32_t link;
  uint32_t ticket;  // index into WalkLane::tickets
};

/// As tutti::Op.  Lists are ranges of the lane's arrays.
struct WalkOp {
  uint64_t bytes;  // of the value, all slices together
  WalkOperand dst;
  uint32_t from, nFrom;        // of senders: link numbers
  uint32_t to, nTo;            // of receivers; also of tickets
  uint32_t sources, nSources;  // of operands
  uint32_t loans, nLoans;
  uint32_t nCopies;  // receivers that are not lent to
  uint8_t hasDst;
  uint8_t token;
  uint8_t reserved[2];
};

struct WalkLane {
  const WalkOp* ops;
  const WalkLink* links;
  const uint32_t* senders;
  const WalkReceiver* receivers;
  const WalkOperand* operands;
  const WalkLoan* loans;
  uint64_t* tickets;   // by receiver: the message, counted from 1, that was lent to it last
  uint64_t loops;      // slices of the largest value
  uint64_t headStart;  // bytes that the first slice has less than the others
  uint32_t nOps, nLinks;
};

struct WalkProgram {
  const WalkLane* lanes;
  unsigned char* scratch;
  uint64_t sliceBytes;
  EndLayout layout;
  uint32_t nLanes;
  uint32_t elementBytes;
};

/// One rank's part of a launch.
struct WalkMember {
  const WalkProgram* program;
  const unsigned char* input;
  unsigned char* output;
  const uint32_t* abort;  // nonzero: leave.  Host memory that the device reads.
  uint32_t firstBlock;    // its lanes are blocks from here on
  uint32_t reserved;
};

/// What the host passes by value to a walk kernel.
struct WalkArguments {
  WalkMember members[kMostMembers];
  uint32_t nMembers;
  uint32_t what;      // of kernels for several types and operators: which
  uint32_t* started;  // host memory that gets `launch` when the blocks start; null: nobody looks
  uint32_t launch;
  uint32_t reserved;
};
static_assert(sizeof(WalkMember) == 40 && sizeof(WalkArguments) == 40 * kMostMembers + 24,
              "host and device agree on the layout");
static_assert(sizeof(WalkOp) == 8 + 16 + 9 * 4 + 4 && sizeof(WalkLane) == 80 && sizeof(WalkProgram) == 48,
              "host and device agree on the layout");

}  // namespace tutti::kernels

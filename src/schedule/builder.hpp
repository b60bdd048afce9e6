// Writing schedules: what algorithm files use.
//
// A builder may treat Output as if it already held the input (`workInOutput()`): an op that reads an Output chunk which
// nothing has written reads Input instead, and finish() adds copies for chunks that no op has written.  So the ring of
// the textbook needs no special case for out-of-place buffers and no copy pass.
#pragma once

#include <string>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Shape& shape, int nChunks = 1, int nLanes = 1);

  /// Following ops go to this lane (0 at first).
  ScheduleBuilder& lane(int index);
  /// Following ops of the current lane belong to this phase.
  ScheduleBuilder& phase(const std::string& name);
  /// Following ops handle the value of this number (Op::origin), until another is named.
  void value(int origin) { origin_ = origin; }
  /// Following ops of the current lane, up to endStep() or the next step() or phase(), are one step: no send depends on
  /// a receive of it.  Its chunks to and from one rank may then share messages (Shape::messageBytes), so both ends of a
  /// message must have it in one step, and all messages between the two in those steps.
  ScheduleBuilder& step();
  void endStep();
  /// The most chunks that a message of a step may have.
  size_t mostChunks() const { return chunksPerMessage_; }
  /// A new scratch chunk, for the whole schedule.
  Chunk newScratch();

  void send(int peer, Chunk source);
  void recv(int peer, Chunk dst);
  /// dst = source (op) message.  The two-argument form accumulates in place.
  void recvReduce(int peer, Chunk source, Chunk dst);
  void recvReduce(int peer, Chunk acc) { recvReduce(peer, acc, acc); }
  void copy(Chunk source, Chunk dst);
  /// dst = left (op) right.
  void reduce(Chunk left, Chunk right, Chunk dst);
  /// An empty message that must travel (Barrier).
  void sendToken(int peer);
  void recvToken(int peer);

  /// See the head of this file; call before the first op.  AllReduce; Reduce, where ranks without Output work in
  /// scratch chunks that take its place; Broadcast, where it is about the root (others have nothing to start from).
  void workInOutput();

  /// The schedule.  Copies of a chunk onto itself (in place: Input[c] and Output[c] may be one) are not in it.
  Schedule finish();

 private:
  Lane& current();
  void checkPeer(int peer) const;
  void append(Op op);
  /// Where to read what the algorithm calls `chunk`, and where to write it: see workInOutput.
  Chunk readable(Chunk chunk);
  Chunk writable(Chunk chunk);
  size_t checkedOutput(int index) const;

  /// What workInOutput knows of an Output chunk.
  struct OutputState {
    bool written = false;
    int lane = 0;      // that touched it last
    int standIn = -1;  // scratch chunk, on a rank that has no Output
  };

  /// Ops [begin, end) of a lane.
  struct Step {
    size_t begin = 0;
    size_t end = 0;
  };

  Schedule schedule_;
  const size_t chunksPerMessage_;
  std::vector<std::vector<Step>> steps_;  // [lane]
  std::vector<bool> inStep_;              // [lane]
  int lane_ = 0;
  int origin_ = -1;
  std::vector<OutputState> output_;  // empty unless workInOutput
};

}  // namespace tutti

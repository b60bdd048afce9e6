// Writing schedules: what algorithm files use.
//
// A builder for AllReduce may treat Output as if it already held the input (`workInOutput()`): the first op that reads
// an Output chunk which nothing has written reads Input instead, and finish() adds copies for chunks that no op has
// written.  So the ring of the textbook needs no special case for out-of-place buffers and no copy pass.
#pragma once

#include <string>

#include "src/schedule/schedule.hpp"

namespace tutti {

class ScheduleBuilder {
 public:
  ScheduleBuilder(const Shape& shape, int nChunks = 1, int nLanes = 1);

  /// Following ops go to this lane (0 at first).
  ScheduleBuilder& lane(int index);
  /// Following ops of the current lane belong to this phase.
  ScheduleBuilder& phase(const std::string& name);
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

  /// See the head of this file.  AllReduce only; call before the first op.
  void workInOutput();

  /// The schedule.  Drops copies of a chunk onto itself (in place: Input[c] and Output[c] may be one).
  Schedule finish();

 private:
  Lane& current();
  Chunk readable(Chunk chunk);
  void written(Chunk chunk);

  Schedule schedule_;
  int lane_ = 0;
  bool workInOutput_ = false;
  std::vector<char> outputWritten_;
};

}  // namespace tutti

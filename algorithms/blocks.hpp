// The blocks of one rank's vector while an algorithm works on them.
//
// A block's value is first read where the collective put it (Input) and from its first change on lives at its home:
// the place in Output where it has to end, or scratch.  With this, one text of a phase serves AllReduce,
// ReduceScatter, Reduce and the rest, in place and out of place.
#pragma once

#include <optional>
#include <vector>

#include "src/schedule/builder.hpp"

namespace tutti {

class Blocks {
 public:
  Blocks(ScheduleBuilder& builder, int count);

  /// The vector of each collective.  AllReduce, Broadcast and Reduce have as many blocks as the schedule has chunks;
  /// AllGather and ReduceScatter one per rank.
  static Blocks ofAllReduce(ScheduleBuilder& builder, int nChunks);
  static Blocks ofBroadcast(ScheduleBuilder& builder, const Shape& shape, int nChunks);
  static Blocks ofReduce(ScheduleBuilder& builder, const Shape& shape, int nChunks);
  static Blocks ofAllGather(ScheduleBuilder& builder, const Shape& shape);
  static Blocks ofReduceScatter(ScheduleBuilder& builder, const Shape& shape);

  /// Where the value is now; where the next value is stored.  A block without a home gets scratch when it needs it.
  void place(int block, Chunk at) { entries_[block].at = at; }
  void setHome(int block, Chunk home) { entries_[block].home = home; }

  /// As those of the builder.
  void step() { builder_->step(); }
  void endStep() { builder_->endStep(); }
  size_t mostChunks() const { return builder_->mostChunks(); }

  void send(int peer, int block) const;
  void recv(int peer, int block);
  void recvReduce(int peer, int block);
  /// Copy the value home if it is not there (it never changed).
  void settle(int block);
  void settleAll();
  /// The value is no longer needed: scratch it lives in may serve another block.
  void release(int block);

 private:
  struct Entry {
    std::optional<Chunk> at;
    std::optional<Chunk> home;
  };
  Chunk home(int block);

  ScheduleBuilder* builder_;
  std::vector<Entry> entries_;
  std::vector<Chunk> freeScratch_;
};

}  // namespace tutti

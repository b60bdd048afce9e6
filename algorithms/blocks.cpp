#include "algorithms/blocks.hpp"

#include "src/base/assert.hpp"

namespace tutti {

Blocks::Blocks(ScheduleBuilder& builder, int count) : builder_(&builder), entries_(count) {}

Blocks Blocks::ofAllReduce(ScheduleBuilder& builder, int nChunks) {
  Blocks blocks(builder, nChunks);
  for (int c = 0; c < nChunks; ++c) blocks.entries_[c] = {in(c), out(c)};
  return blocks;
}

Blocks Blocks::ofBroadcast(ScheduleBuilder& builder, const Shape& shape, int nChunks) {
  Blocks blocks(builder, nChunks);
  for (int c = 0; c < nChunks; ++c) {
    if (shape.rank == shape.root) blocks.place(c, in(c));
    blocks.setHome(c, out(c));
  }
  return blocks;
}

Blocks Blocks::ofReduce(ScheduleBuilder& builder, const Shape& shape, int nChunks) {
  Blocks blocks(builder, nChunks);
  for (int c = 0; c < nChunks; ++c) {
    blocks.place(c, in(c));
    if (shape.rank == shape.root) blocks.setHome(c, out(c));
  }
  return blocks;
}

Blocks Blocks::ofAllGather(ScheduleBuilder& builder, const Shape& shape) {
  Blocks blocks(builder, shape.nRanks);
  for (int r = 0; r < shape.nRanks; ++r) blocks.setHome(r, out(r));
  blocks.place(shape.rank, in(0));
  return blocks;
}

Blocks Blocks::ofReduceScatter(ScheduleBuilder& builder, const Shape& shape) {
  Blocks blocks(builder, shape.nRanks);
  for (int r = 0; r < shape.nRanks; ++r) blocks.place(r, in(r));
  blocks.setHome(shape.rank, out(0));
  return blocks;
}

Chunk Blocks::home(int block) {
  Entry& entry = entries_[block];
  if (!entry.home && !freeScratch_.empty()) {
    entry.home = freeScratch_.back();
    freeScratch_.pop_back();
  }
  if (!entry.home) entry.home = builder_->newScratch();
  return *entry.home;
}

void Blocks::send(int peer, int block) const {
  TUTTI_ASSERT(entries_[block].at.has_value());
  builder_->send(peer, *entries_[block].at);
}

void Blocks::recv(int peer, int block) {
  const Chunk dst = home(block);
  builder_->recv(peer, dst);
  entries_[block].at = dst;
}

void Blocks::recvReduce(int peer, int block) {
  TUTTI_ASSERT(entries_[block].at.has_value());
  const Chunk dst = home(block);
  builder_->recvReduce(peer, *entries_[block].at, dst);
  entries_[block].at = dst;
}

void Blocks::settle(int block) {
  Entry& entry = entries_[block];
  TUTTI_ASSERT(entry.at.has_value() && entry.home.has_value());
  if (*entry.at != *entry.home) builder_->copy(*entry.at, *entry.home);
  entry.at = entry.home;
}

void Blocks::settleAll() {
  for (int block = 0; block < static_cast<int>(entries_.size()); ++block) settle(block);
}

void Blocks::release(int block) {
  Entry& entry = entries_[block];
  if (entry.home && entry.home->buffer == Buffer::Scratch) freeScratch_.push_back(*entry.home);
  entry = {};
}

}  // namespace tutti

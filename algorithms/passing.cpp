#include "algorithms/passing.hpp"

#include <algorithm>

namespace tutti {

Bundle bundle(const std::vector<int>& origins, const std::vector<int>& destinations) {
  Bundle all;
  for (const int o : origins) {
    for (const int d : destinations) all.push_back({o, d});
  }
  return all;
}

HeldBlocks::HeldBlocks(const Shape& shape, ScheduleBuilder& builder)
    : me_(shape.rank), nRanks_(shape.nRanks), inPlace_(shape.inPlace), namesValues_(shape.uneven), b_(builder) {
  for (int d = 0; d < nRanks_; ++d) {
    if (d != me_) held_[numberOf({me_, d})] = in(d);
  }
  name({me_, me_});
  b_.copy(in(me_), out(me_));
}

void HeldBlocks::exchange(const Group& group, LevelPart part, const std::function<Bundle(int, int)>& between) {
  const int n = group.size();
  if (part != LevelPart::Pairwise) return step(group, 1, n, between);
  for (int k = 1; k < n; ++k) step(group, k, k + 1, between);
}

// A row has one block to each and from each: so one message of room per link is enough.
void HeldBlocks::step(const Group& group, int firstDistance, int endDistance,
                      const std::function<Bundle(int, int)>& between) {
  const int n = group.size();
  std::vector<Bundle> out(n), in(n);
  size_t rows = 0;
  for (int k = firstDistance; k < endDistance; ++k) {
    out[k] = between(group.me, wrap(group.me + k, n));
    in[k] = between(wrap(group.me - k, n), group.me);
    rows = std::max({rows, out[k].size(), in[k].size()});
  }
  b_.step();
  for (size_t row = 0; row < rows; ++row) {
    for (int k = firstDistance; k < endDistance; ++k) {
      if (row < out[k].size()) send(group.at(group.me + k), out[k][row]);
    }
    for (int k = firstDistance; k < endDistance; ++k) {
      if (row < in[k].size()) recv(group.at(group.me - k), in[k][row]);
    }
  }
  endStep();
}

void HeldBlocks::endStep() {
  b_.endStep();
  free_.insert(free_.end(), leaving_.begin(), leaving_.end());
  leaving_.clear();
}

Chunk HeldBlocks::roomInScratch() {
  if (free_.empty()) return b_.newScratch();
  const Chunk chunk = free_.back();
  free_.pop_back();
  return chunk;
}

void HeldBlocks::name(const BlockName& block) {
  if (namesValues_) b_.value(numberOf(block));
}

void HeldBlocks::send(int peer, const BlockName& block) {
  name(block);
  const auto found = held_.find(numberOf(block));
  b_.send(peer, found->second);
  // What shares a message with others leaves later than it is sent here.
  if (found->second.buffer == Buffer::Scratch) (b_.mostChunks() > 1 ? leaving_ : free_).push_back(found->second);
  held_.erase(found);
}

void HeldBlocks::recv(int peer, const BlockName& block) {
  if (block.second != me_) {
    const Chunk room = roomInScratch();
    name(block);
    b_.recv(peer, room);
    held_[numberOf(block)] = room;
    return;
  }
  const BlockName own{me_, block.first};
  const auto inTheWay = held_.find(numberOf(own));
  if (inPlace_ && inTheWay != held_.end() && inTheWay->second.buffer == Buffer::Input) {
    const Chunk room = roomInScratch();
    name(own);
    b_.copy(inTheWay->second, room);
    inTheWay->second = room;
  }
  name(block);
  b_.recv(peer, out(block.first));
}

}  // namespace tutti

#include "src/schedule/builder.hpp"

#include <utility>

#include "src/base/assert.hpp"
#include "src/schedule/join_step.hpp"

namespace tutti {

ScheduleBuilder::ScheduleBuilder(const Shape& shape, int nChunks, int nLanes)
    : chunksPerMessage_(chunksPerMessage(shape, nChunks)) {
  TUTTI_ASSERT_CMP(shape.rank, >=, 0);
  TUTTI_ASSERT_CMP(shape.rank, <, shape.nRanks);
  TUTTI_ASSERT_CMP(nChunks, >=, 1);
  TUTTI_ASSERT_CMP(nLanes, >=, 1);
  schedule_.collective = shape.collective;
  schedule_.rank = shape.rank;
  schedule_.nRanks = shape.nRanks;
  schedule_.root = shape.root;
  schedule_.inPlace = shape.inPlace;
  schedule_.nChunks = nChunks;
  schedule_.lanes.resize(static_cast<size_t>(nLanes));
  steps_.resize(schedule_.lanes.size());
  inStep_.resize(schedule_.lanes.size());
}

Lane& ScheduleBuilder::current() { return schedule_.lanes[static_cast<size_t>(lane_)]; }

ScheduleBuilder& ScheduleBuilder::lane(int index) {
  TUTTI_ASSERT_CMP(index, >=, 0);
  TUTTI_ASSERT_CMP(static_cast<size_t>(index), <, schedule_.lanes.size());
  lane_ = index;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::phase(const std::string& name) {
  Lane& lane = current();
  endStep();
  const auto begin = static_cast<int32_t>(lane.ops.size());
  if (!lane.phases.empty() && lane.phases.back().begin == begin) lane.phases.pop_back();  // it had no op
  lane.phases.push_back({name, begin});
  return *this;
}

ScheduleBuilder& ScheduleBuilder::step() {
  endStep();
  const size_t begin = current().ops.size();
  steps_[static_cast<size_t>(lane_)].push_back({begin, begin});
  inStep_[static_cast<size_t>(lane_)] = true;
  return *this;
}

void ScheduleBuilder::endStep() {
  const auto l = static_cast<size_t>(lane_);
  if (inStep_[l]) steps_[l].back().end = current().ops.size();
  inStep_[l] = false;
}

Chunk ScheduleBuilder::newScratch() { return scratch(schedule_.nScratch++); }

void ScheduleBuilder::checkPeer(int peer) const {
  TUTTI_ASSERT_CMP(peer, >=, 0);
  TUTTI_ASSERT_CMP(peer, <, schedule_.nRanks);
  TUTTI_ASSERT_CMP(peer, !=, schedule_.rank);
}

void ScheduleBuilder::append(Op op) {
  op.origin = origin_;
  current().ops.push_back(std::move(op));
}

// Sources are resolved before the destination: `recvReduce(p, x, x)` reads the old x.

void ScheduleBuilder::send(int peer, Chunk source) {
  checkPeer(peer);
  append({.to = {peer}, .sources = {readable(source)}});
}

void ScheduleBuilder::recv(int peer, Chunk dst) {
  checkPeer(peer);
  append({.from = {peer}, .dst = writable(dst), .hasDst = true});
}

void ScheduleBuilder::recvReduce(int peer, Chunk source, Chunk dst) {
  checkPeer(peer);
  const Chunk left = readable(source);
  append({.from = {peer}, .sources = {left}, .dst = writable(dst), .hasDst = true});
}

void ScheduleBuilder::copy(Chunk source, Chunk dst) {
  const Chunk readFrom = readable(source);
  const Chunk writeTo = writable(dst);
  if (schedule_.memoryOf(readFrom) == schedule_.memoryOf(writeTo)) return;
  append({.sources = {readFrom}, .dst = writeTo, .hasDst = true});
}

void ScheduleBuilder::reduce(Chunk left, Chunk right, Chunk dst) {
  const Chunk first = readable(left);
  const Chunk second = readable(right);
  append({.sources = {first, second}, .dst = writable(dst), .hasDst = true});
}

void ScheduleBuilder::sendToken(int peer) {
  checkPeer(peer);
  append({.to = {peer}, .token = true});
}

void ScheduleBuilder::recvToken(int peer) {
  checkPeer(peer);
  append({.from = {peer}, .token = true});
}

void ScheduleBuilder::workInOutput() {
  TUTTI_ASSERT(isOneVector(schedule_.collective));
  output_.assign(static_cast<size_t>(schedule_.nChunks), {});
}

size_t ScheduleBuilder::checkedOutput(int index) const {
  TUTTI_ASSERT_CMP(index, >=, 0);
  TUTTI_ASSERT_CMP(static_cast<size_t>(index), <, output_.size());
  return static_cast<size_t>(index);
}

Chunk ScheduleBuilder::readable(Chunk chunk) {
  if (output_.empty() || chunk.buffer != Buffer::Output || schedule_.inputChunks() == 0) return chunk;
  OutputState& state = output_[checkedOutput(chunk.index)];
  state.lane = lane_;
  if (state.written) return state.standIn >= 0 ? scratch(state.standIn) : chunk;
  const bool holdsInput = schedule_.memoryOf(in(chunk.index)) == schedule_.memoryOf(chunk);
  return holdsInput ? chunk : in(chunk.index);
}

Chunk ScheduleBuilder::writable(Chunk chunk) {
  if (output_.empty() || chunk.buffer != Buffer::Output) return chunk;
  OutputState& state = output_[checkedOutput(chunk.index)];
  state.lane = lane_;
  state.written = true;
  if (schedule_.outputChunks() > 0) return chunk;
  if (state.standIn < 0) state.standIn = newScratch().index;
  return scratch(state.standIn);
}

Schedule ScheduleBuilder::finish() {
  if (schedule_.inputChunks() > 0 && schedule_.outputChunks() > 0) {
    for (size_t c = 0; c < output_.size(); ++c) {
      if (output_[c].written) continue;
      lane(output_[c].lane);  // a lane that reads the chunk already
      endStep();
      copy(in(static_cast<int>(c)), out(static_cast<int>(c)));
    }
  }
  for (size_t l = 0; l < schedule_.lanes.size(); ++l) {
    lane(static_cast<int>(l)).endStep();
    if (chunksPerMessage_ < 2) continue;
    for (const Step& step : steps_[l])
      joinStep(std::span(current().ops).subspan(step.begin, step.end - step.begin), chunksPerMessage_);
  }
  return std::move(schedule_);
}

}  // namespace tutti

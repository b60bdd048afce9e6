#include "src/comm/schedules.hpp"

#include <algorithm>

#include "src/schedule/passes.hpp"
#include "src/schedule/rounding.hpp"
#include "src/schedule/stagger.hpp"

namespace tutti {
namespace {

// Passes that look at all ranks' schedules cost time and memory that grow with the square of the rank count.
constexpr int kMostRanksForDirect = 64;

std::vector<Block> blocksOf(const std::vector<size_t>& counts, const std::vector<size_t>& displs) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < counts.size(); ++i) blocks.push_back({displs[i], counts[i]});
  return blocks;
}

Schedule ownSchedule(const Choice& choice, const Shape& shape, const Rewrites& rewrites) {
  if (choice.ready)
    return (shape.inPlace ? *choice.ready->inPlace : *choice.ready->outOfPlace)[static_cast<size_t>(shape.rank)];
  Schedule schedule = choice.algorithm->build(shape);
  schedule.accumulates = !rewrites.byTwo;
  return schedule;
}

std::vector<Schedule> allRanks(const Choice& choice, Shape shape, const Rewrites& rewrites) {
  std::vector<Schedule> schedules;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank)
    schedules.push_back(ownSchedule(choice, shape, rewrites));
  return schedules;
}

/// A value that passes through scratch only has a size that the op does not show.
bool hidesSizes(const Schedule& schedule) {
  for (const Lane& lane : schedule.lanes) {
    for (const Op& op : lane.ops) {
      bool shown = op.token || (op.hasDst && op.dst.buffer != Buffer::Scratch);
      for (const Chunk& source : op.sources) shown = shown || source.buffer != Buffer::Scratch;
      if (!shown) return true;
    }
  }
  return false;
}

bool allAlike(const std::vector<Block>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(), [&](const Block& b) { return b.count == blocks.front().count; });
}

}  // namespace

Layout layoutOf(const Schedule& schedule, const Call& call) {
  if (!call.counts) return evenLayout(schedule, call.count, dataTypeBytes(call.dtype));
  const Counts& c = *call.counts;
  const Geometry& g = geometryOf(call.collective);
  const auto blocks = [&](const Side& side, const std::vector<size_t>& counts, const std::vector<size_t>& displs) {
    return side.content == Content::Blocks ? blocksOf(counts, displs) : std::vector<Block>{{0, call.count}};
  };
  return {blocks(g.input, c.sendCounts, c.sendDispls), blocks(g.output, c.recvCounts, c.recvDispls), c.all};
}

size_t chunkBytes(const Shape& shape, const Schedule& schedule) {
  return isOneVector(shape.collective) ? shape.bytes / static_cast<size_t>(schedule.nChunks) : shape.bytes;
}

// A message of several chunks needs a whole slice.
bool staggers(const Choice& choice, const Shape& shape, const Schedule& schedule) {
  const bool levels = choice.algorithm != nullptr && choice.algorithm->hasLevels() && !choice.joined;
  return levels && startsApart(chunkBytes(shape, schedule), schedule.nChannels, shape.slotBytes);
}

// Passes that need all ranks' schedules run only where they are needed.
Schedule buildSchedule(const Choice& choice, const Shape& shape, const Rewrites& rewrites, const Call& call) {
  Schedule mine = fuse(ownSchedule(choice, shape, rewrites));
  const Layout layout = layoutOf(mine, call);
  const bool direct = rewrites.direct && shape.nRanks <= kMostRanksForDirect;
  const bool alike = allAlike(layout.input) && allAlike(layout.output);
  const bool origins = (rewrites.ordered || hidesSizes(mine)) && !alike && layout.values.empty();
  if (!rewrites.ordered && !direct && !origins) return mine;
  std::vector<Schedule> all = allRanks(choice, shape, rewrites);
  if (rewrites.ordered) all = makeReproducible(all);
  for (Schedule& schedule : all) schedule = direct ? fuseForDirect(schedule) : fuse(schedule);
  if (origins) all = markOrigins(all);
  if (direct) all = markDirect(all);
  return all[static_cast<size_t>(shape.rank)];
}

std::optional<uint64_t> roundingOf(const Choice& choice, const Shape& shape, const Rewrites& rewrites,
                                   tuttiDataType_t dtype) {
  std::vector<Schedule> all = allRanks(choice, shape, rewrites);
  const bool direct = rewrites.direct && shape.nRanks <= kMostRanksForDirect;
  for (Schedule& schedule : all) schedule = direct ? fuseForDirect(schedule) : fuse(schedule);
  return roundingOf(all, dataTypeBytes(dtype) <= 2);
}

}  // namespace tutti

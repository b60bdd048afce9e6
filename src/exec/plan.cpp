#include "src/exec/plan.hpp"

#include <algorithm>
#include <unordered_set>

#include "src/base/assert.hpp"
#include "src/base/collective_kinds.hpp"

namespace tutti {
namespace {

size_t roundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// The Output chunk that an op writes.  In place, a schedule may name the same bytes by their Input chunk.
Chunk outputOf(const Schedule& schedule, const Chunk& dst) {
  if (dst.buffer != Buffer::Input) return dst;
  int index = 0;
  while (index < schedule.outputChunks() && schedule.memoryOf(out(index)) != schedule.memoryOf(dst)) ++index;
  TUTTI_ASSERT_CMP(index, <, schedule.outputChunks());
  return out(index);
}

/// Looks chunks up for one lane of a plan that is being bound.
class LaneBinder {
 public:
  LaneBinder(const Schedule& schedule, const Layout& layout, size_t elementBytes, size_t sliceBytes, int lane)
      : schedule_(schedule), layout_(layout), elementBytes_(elementBytes), sliceBytes_(sliceBytes) {
    const int lanesPerChannel = std::max<int>(1, static_cast<int>(schedule.lanes.size()) / schedule.nChannels);
    part_ = lane / lanesPerChannel;
  }

  Operand operand(const Chunk& chunk) const {
    const auto index = static_cast<size_t>(chunk.index);
    if (chunk.buffer == Buffer::Scratch) return {chunk.buffer, index * sliceBytes_, schedule_.memoryOf(chunk)};
    const Block block = blockOf(chunk);
    return {chunk.buffer, block.offset * elementBytes_, schedule_.memoryOf(chunk)};
  }

  Operand writable(const Chunk& dst) const { return operand(outputOf(schedule_, dst)); }

  /// Bytes of the value that an op handles: of an operand that is the user's, else of the chunk it descends from.
  size_t valueBytes(const Op& op) const {
    if (op.token) return 0;
    if (op.hasDst && op.dst.buffer != Buffer::Scratch) return blockOf(op.dst).count * elementBytes_;
    for (const Chunk& source : op.sources) {
      if (source.buffer != Buffer::Scratch) return blockOf(source).count * elementBytes_;
    }
    return originBlock(op.origin).count * elementBytes_;
  }

 private:
  Block channelPart(const Block& block) const {
    Block part = partOf(block.count, elementBytes_, schedule_.nChannels, part_);
    part.offset += block.offset;
    return part;
  }

  Block blockOf(const Chunk& chunk) const {
    const auto& blocks = chunk.buffer == Buffer::Input ? layout_.input : layout_.output;
    TUTTI_ASSERT_CMP(static_cast<size_t>(chunk.index), <, blocks.size());
    return channelPart(blocks[static_cast<size_t>(chunk.index)]);
  }

  /// The size of a value that only passes through scratch.  Blocks that are all alike need no origin.
  Block originBlock(int32_t origin) const {
    if (!layout_.values.empty()) {
      TUTTI_ASSERT_CMP(static_cast<size_t>(origin), <, layout_.values.size());
      return channelPart({0, layout_.values[static_cast<size_t>(origin)]});
    }
    const auto& blocks = layout_.output.size() >= layout_.input.size() ? layout_.output : layout_.input;
    if (origin >= 0 && static_cast<size_t>(origin) < blocks.size()) {
      return channelPart(blocks[static_cast<size_t>(origin)]);
    }
    const auto& any = layout_.input.empty() ? layout_.output : layout_.input;
    TUTTI_ASSERT(!any.empty());
    for (const Block& block : any) TUTTI_ASSERT_CMP(block.count, ==, any.front().count);
    return channelPart(any.front());
  }

  const Schedule& schedule_;
  const Layout& layout_;
  size_t elementBytes_;
  size_t sliceBytes_;
  int part_;
};

Status bindChannels(const std::vector<int32_t>& ranks, int lane, const ChannelFinder& find,
                    std::vector<Channel*>* channels, std::vector<int>* boundRanks) {
  for (const int32_t rank : ranks) {
    TUTTI_ASSIGN(Channel * channel, find(rank, lane));
    channels->push_back(channel);
    boundRanks->push_back(rank);
  }
  return {};
}

Outbox* commonOutbox(const std::vector<Channel*>& to) {
  if (to.size() < 2 || to.front() == nullptr) return nullptr;
  Outbox* common = to.front()->outbox();
  for (Channel* channel : to) {
    if (channel->outbox() != common) return nullptr;
  }
  return common;
}

OpShape shapeOf(const BoundOp& op) {
  if (op.from.size() == 1 && op.sources.empty() && (op.hasDst || op.token)) return OpShape::Move;
  if (op.from.size() == 1 && op.sources.size() == 1 && op.hasDst && op.to.empty()) return OpShape::Accumulate;
  if (op.from.empty() && op.sources.size() == 1 && !op.hasDst && op.to.size() == 1) return OpShape::Send;
  return OpShape::Other;
}

// How much of the output a rank writes in a lane, told to those ops whose part nothing reads afterwards: only there may
// stores go past the cache.
void noteOutputs(BoundLane* lane) {
  size_t outputBytes = 0;
  for (const BoundOp& op : lane->ops) outputBytes += op.hasDst && op.dst.buffer == Buffer::Output ? op.bytes : 0;
  std::unordered_set<uint64_t> readLater;
  const auto key = [](const Chunk& c) {
    return uint64_t{static_cast<uint8_t>(c.buffer)} << 32 | static_cast<uint32_t>(c.index);
  };
  for (auto op = lane->ops.rbegin(); op != lane->ops.rend(); ++op) {
    const bool output = op->hasDst && op->dst.buffer == Buffer::Output;
    if (output && op->to.empty() && !readLater.contains(key(op->dst.memory))) op->outputBytes = outputBytes;
    for (const Operand& source : op->sources) readLater.insert(key(source.memory));
  }
}

Result<BoundLane> bindLane(const Lane& lane, int laneIndex, const LaneBinder& binder, size_t sliceBytes,
                           const ChannelFinder& find) {
  BoundLane bound;
  bound.ops.reserve(lane.ops.size());
  for (const Op& op : lane.ops) {
    BoundOp b;
    b.bytes = binder.valueBytes(op);
    if (b.bytes == 0 && !op.token) continue;  // every rank skips it
    TUTTI_TRY(bindChannels(op.from, laneIndex, find, &b.from, &b.fromRanks));
    TUTTI_TRY(bindChannels(op.to, laneIndex, find, &b.to, &b.toRanks));
    for (const Chunk& source : op.sources) b.sources.push_back(binder.operand(source));
    b.hasDst = op.hasDst;
    if (op.hasDst) b.dst = binder.writable(op.dst);
    b.token = op.token;
    b.direct = op.direct;
    b.outbox = op.token ? nullptr : commonOutbox(b.to);
    b.shape = shapeOf(b);
    bound.loops = std::max(bound.loops, op.token ? size_t{1} : (b.bytes + sliceBytes - 1) / sliceBytes);
    bound.ops.push_back(std::move(b));
  }
  noteOutputs(&bound);
  return bound;
}

}  // namespace

Block partOf(size_t count, size_t elementBytes, int nParts, int part) {
  const auto n = static_cast<size_t>(nParts);
  const auto i = static_cast<size_t>(part);
  if (n == 1) return {0, count};
  const size_t lineElements = std::max<size_t>(1, kCacheLineBytes / elementBytes);
  // Parts that are a few lines each would be uneven if rounded up to lines, so small vectors are cut to the element.
  const size_t even = (count + n - 1) / n;
  const size_t partCount = even >= 8 * lineElements ? roundUp(even, lineElements) : even;
  const size_t begin = std::min(count, i * partCount);
  return {begin, std::min(count, begin + partCount) - begin};
}

Layout evenLayout(const Schedule& schedule, size_t count, size_t elementBytes) {
  const bool oneVector = isOneVector(schedule.collective);
  const auto blocks = [&](int nBlocks) {
    std::vector<Block> result(static_cast<size_t>(nBlocks));
    for (int i = 0; i < nBlocks; ++i) {
      result[static_cast<size_t>(i)] =
          oneVector ? partOf(count, elementBytes, nBlocks, i) : Block{static_cast<size_t>(i) * count, count};
    }
    return result;
  };
  Layout layout{blocks(schedule.inputChunks()), blocks(schedule.outputChunks())};
  // Sizes are also needed for values that pass through a rank which has neither buffer (a non-root's scratch).
  if (oneVector && layout.input.empty() && layout.output.empty()) layout.input = blocks(schedule.nChunks);
  return layout;
}

Result<std::unique_ptr<Plan>> bindPlan(Schedule schedule, const Layout& layout, size_t elementBytes, size_t sliceBytes,
                                       const ChannelFinder& channel, const ScratchLender& lend) {
  auto plan = std::make_unique<Plan>();
  plan->schedule = std::move(schedule);
  plan->elementBytes = elementBytes;
  plan->sliceBytes = sliceBytes;
  for (size_t l = 0; l < plan->schedule.lanes.size(); ++l) {
    const LaneBinder binder(plan->schedule, layout, elementBytes, sliceBytes, static_cast<int>(l));
    TUTTI_ASSIGN(BoundLane bound, bindLane(plan->schedule.lanes[l], static_cast<int>(l), binder, sliceBytes, channel));
    plan->lanes.push_back(std::move(bound));
  }
  plan->scratchBytes = static_cast<size_t>(plan->schedule.nScratch) * sliceBytes;
  if (lend != nullptr) {
    TUTTI_ASSIGN(plan->scratch, lend(plan->scratchBytes));
    return plan;
  }
  // Not zeroed on purpose: the verifier has shown that nothing is read before it is written.
  plan->ownScratch = std::make_unique_for_overwrite<std::byte[]>(std::max<size_t>(plan->scratchBytes, 1));
  plan->scratch = plan->ownScratch.get();
  return plan;
}

}  // namespace tutti

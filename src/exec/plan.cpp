#include "src/exec/plan.hpp"

#include <algorithm>
#include <span>
#include <unordered_set>

#include "src/base/assert.hpp"

namespace tutti {
namespace {

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

Status bindEndpoints(const std::vector<int32_t>& ranks, int lane, const EndpointFinder& find,
                     std::vector<Endpoint*>* endpoints, std::vector<int>* boundRanks) {
  for (const int32_t rank : ranks) {
    TUTTI_ASSIGN(Endpoint * endpoint, find(rank, lane));
    endpoints->push_back(endpoint);
    boundRanks->push_back(rank);
  }
  return {};
}

Outbox* commonOutbox(const std::vector<Endpoint*>& to) {
  if (to.size() < 2 || to.front() == nullptr) return nullptr;
  Outbox* common = to.front()->outbox();
  for (Endpoint* endpoint : to) {
    if (endpoint == nullptr || endpoint->outbox() != common) return nullptr;
  }
  return common;
}

OpShape shapeOf(const BoundOp& op) {
  if (!op.parts.empty()) return OpShape::Parts;
  if (op.from.size() == 1 && op.sources.empty() && (op.hasDst || op.token)) return OpShape::Move;
  if (op.from.size() == 1 && op.sources.size() == 1 && op.hasDst && op.to.empty()) return OpShape::Accumulate;
  if (op.from.empty() && op.sources.size() == 1 && !op.hasDst && op.to.size() == 1) return OpShape::Send;
  const bool stays = op.from.empty() && op.to.empty();
  if (stays && op.sources.size() == 1 && op.hasDst && !op.rounds) return OpShape::Copy;
  return OpShape::Other;
}

// The memory of a rank's buffers.
size_t bufferBytes(const Schedule& schedule, const Layout& layout, size_t elementBytes) {
  size_t elements = 0;
  for (const Block& block : layout.output) elements += block.count;
  for (const Block& block : layout.input) elements += schedule.inPlace ? 0 : block.count;
  return elements * elementBytes;
}

// How much memory the call touches, told to those ops whose part of the output nothing reads afterwards: only there may
// stores go past the cache.
void noteOutputs(BoundLane* lane, size_t touched) {
  const auto isOutput = [](const Operand* dst) { return dst != nullptr && dst->buffer == Buffer::Output; };
  std::unordered_set<uint64_t> readLater;
  const auto key = [](const Operand& o, int32_t chunk) {
    return uint64_t{static_cast<uint8_t>(o.memory.buffer)} << 32 | static_cast<uint32_t>(o.memory.index + chunk);
  };
  const auto isRead = [&](const Operand& o) {
    for (int32_t c = 0; c < o.chunks; ++c) {
      if (readLater.contains(key(o, c))) return true;
    }
    return false;
  };
  for (auto op = lane->ops.rbegin(); op != lane->ops.rend(); ++op) {
    op->eachPart([&](auto&, Operand* dst, size_t, size_t& touchedBytes) {
      if (isOutput(dst) && op->to.empty() && !isRead(*dst)) touchedBytes = touched;
    });
    op->eachPart([&](auto& sources, Operand*, size_t, size_t&) {
      for (const Operand& source : sources) {
        for (int32_t c = 0; c < source.chunks; ++c) readLater.insert(key(source, c));
      }
    });
  }
}

bool follows(const Operand& before, size_t bytes, const Operand& next) {
  return before.buffer == next.buffer && before.offset + bytes == next.offset &&
         before.memory.buffer == next.memory.buffer && before.memory.index + before.chunks == next.memory.index;
}

/// Whether each operand of `next` lies behind its counterpart of `last`, and a pass over both together reads nothing
/// that it has written: an operand is where the result goes, or nowhere near.
bool liesBehind(const BoundPart& last, const BoundPart& next, bool inPlace) {
  if (last.sources.size() != next.sources.size() || last.hasDst != next.hasDst) return false;
  if (last.hasDst && !follows(last.dst, last.bytes, next.dst)) return false;
  for (size_t i = 0; i < last.sources.size(); ++i) {
    if (!follows(last.sources[i], last.bytes, next.sources[i])) return false;
    if (!last.hasDst) continue;
    const bool same = last.sources[i].memory == last.dst.memory;
    const bool apart = last.sources[i].buffer != last.dst.buffer &&
                       (!inPlace || last.sources[i].buffer == Buffer::Scratch || last.dst.buffer == Buffer::Scratch);
    if (!same && !apart) return false;
  }
  return true;
}

void addPart(std::vector<BoundPart>* parts, BoundPart part, bool inPlace) {
  if (!parts->empty() && liesBehind(parts->back(), part, inPlace)) {
    BoundPart& last = parts->back();
    last.bytes += part.bytes;
    ++last.dst.chunks;
    for (Operand& source : last.sources) ++source.chunks;
  } else {
    parts->push_back(std::move(part));
  }
}

/// The ops of one message as one; without bytes if every rank skips them.
Result<BoundOp> bindMessage(std::span<const Op> ops, int laneIndex, const LaneBinder& binder, bool inPlace,
                            const EndpointFinder& find) {
  const Op& first = ops.front();
  std::vector<BoundPart> parts;
  BoundOp b;
  for (const Op& op : ops) {
    BoundPart part{.sources = {}, .dst = {}, .hasDst = op.hasDst, .touchedBytes = 0, .bytes = binder.valueBytes(op)};
    b.bytes += part.bytes;
    if (part.bytes == 0 && !op.token) continue;
    for (const Chunk& source : op.sources) part.sources.push_back(binder.operand(source));
    if (op.hasDst) part.dst = binder.writable(op.dst);
    addPart(&parts, std::move(part), inPlace);
  }
  b.token = first.token;
  if (parts.empty()) return b;
  b.direct = first.direct;
  b.rounds = first.rounds;
  TUTTI_TRY(bindEndpoints(first.from, laneIndex, find, &b.from, &b.fromRanks));
  TUTTI_TRY(bindEndpoints(first.to, laneIndex, find, &b.to, &b.toRanks));
  b.outbox = b.token ? nullptr : commonOutbox(b.to);
  if (parts.size() == 1) {
    b.sources = std::move(parts[0].sources);
    b.dst = parts[0].dst;
    b.hasDst = parts[0].hasDst;
  } else {
    b.parts = std::move(parts);
  }
  b.shape = shapeOf(b);
  return b;
}

Result<BoundLane> bindLane(const Schedule& schedule, int laneIndex, const LaneBinder& binder, size_t elementBytes,
                           size_t sliceBytes, const EndpointFinder& find, size_t touched) {
  const std::vector<Op>& ops = schedule.lanes[static_cast<size_t>(laneIndex)].ops;
  BoundLane bound;
  bound.headStart = schedule.headStart(laneIndex, sliceBytes, elementBytes);
  bound.ops.reserve(ops.size());
  for (size_t i = 0, end = 0; i < ops.size(); i = end) {
    end = messageEnd(ops, i);
    TUTTI_ASSIGN(BoundOp b, bindMessage(std::span(ops).subspan(i, end - i), laneIndex, binder, schedule.inPlace, find));
    if (b.bytes == 0 && !b.token) continue;  // every rank skips it
    if (end - i > 1 && b.bytes > sliceBytes) {
      return internalError(ErrorCode::MessageTooLarge, "a message of ", end - i, " chunks has ", b.bytes,
                           " bytes, more than a slot of ", sliceBytes, "; chunks of that size must go one by one");
    }
    const size_t loops = (b.bytes + bound.headStart + sliceBytes - 1) / sliceBytes;
    bound.loops = std::max(bound.loops, b.token ? size_t{1} : loops);
    bound.ops.push_back(std::move(b));
  }
  noteOutputs(&bound, touched);
  return bound;
}

}  // namespace

Block partOf(size_t count, size_t elementBytes, int nParts, int part) {
  const size_t partCount = elementsOfPart(count, elementBytes, static_cast<size_t>(nParts));
  const size_t begin = std::min(count, static_cast<size_t>(part) * partCount);
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
                                       const EndpointFinder& endpoint, const ScratchLender& lend, size_t ranksOnHost) {
  auto plan = std::make_unique<Plan>();
  plan->schedule = std::move(schedule);
  plan->elementBytes = elementBytes;
  plan->sliceBytes = sliceBytes;
  const size_t touched = bufferBytes(plan->schedule, layout, elementBytes) * ranksOnHost;
  for (size_t l = 0; l < plan->schedule.lanes.size(); ++l) {
    const LaneBinder binder(plan->schedule, layout, elementBytes, sliceBytes, static_cast<int>(l));
    TUTTI_ASSIGN(BoundLane bound,
                 bindLane(plan->schedule, static_cast<int>(l), binder, elementBytes, sliceBytes, endpoint, touched));
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

bool onlySends(const Plan& plan) {
  bool sends = false;
  for (const BoundLane& lane : plan.lanes) {
    for (const BoundOp& op : lane.ops) {
      if (!op.from.empty()) return false;
      sends = sends || !op.to.empty();
    }
  }
  return sends;
}

}  // namespace tutti

#include "src/import/emitter.hpp"

#include <algorithm>

#include "src/base/assert.hpp"

namespace tutti::foreign {
namespace {

Op transfer(std::vector<int32_t> from, std::vector<int32_t> to, std::vector<Chunk> sources, std::optional<Chunk> dst) {
  Op op{.from = std::move(from), .to = std::move(to), .sources = std::move(sources)};
  op.hasDst = dst.has_value();
  if (dst) op.dst = *dst;
  return op;
}

}  // namespace

Emitter::Emitter(const MemoryMap& memory, const LaneGroups& lanes, int nRanks)
    : memory_(memory), lanes_(lanes), cells_(memory.nCells()), occupants_(at(nRanks) * at(nRanks)) {
  for (int r = 0; r < nRanks; ++r) {
    schedules_.push_back(memory.shape(r));
    schedules_.back().lanes.resize(at(lanes.nLanes * memory.nParts()));
    const Schedule& s = schedules_.back();
    const int pieces = s.inputChunks() * memory.nParts();
    const Place input{.rank = r, .buffer = Buffer::Input};
    for (int i = 0; i < pieces; ++i) {
      const size_t cell = memory.cell(input, i);
      cells_[cell].part = memory.partOf(cell);
    }
  }
}

void Emitter::append(int rank, int lane, int part, Op op) {
  schedules_[at(rank)].lanes[at(laneIndex(lane, part))].ops.push_back(std::move(op));
}

Chunk Emitter::newScratch(int rank) { return scratch(schedules_[at(rank)].nScratch++); }

Chunk Emitter::newTemporary(int rank, int lane, int part) {
  std::vector<int>& free = released_[{rank, laneIndex(lane, part)}];
  if (free.empty()) return newScratch(rank);
  const int index = free.back();
  free.pop_back();
  return scratch(index);
}

void Emitter::drop(int rank, int lane, const Value& value) {
  if (value.temporary) released_[{rank, laneIndex(lane, value.part)}].push_back(value.chunk.index);
}

Chunk Emitter::chunkFor(size_t cell, int rank, int part) {
  if (memory_.writable(rank, cell) && !memory_.isScratch(cell)) return memory_.chunkOf(cell);
  const auto [known, isNew] = scratchOf_.try_emplace({cell, part}, 0);
  if (isNew) known->second = newScratch(rank).index;
  return scratch(known->second);
}

int& Emitter::occupant(int from, int to, int lane, int part) {
  std::vector<int>& ofPair = occupants_[at(from) * schedules_.size() + at(to)];
  if (ofPair.empty()) ofPair.assign(schedules_[at(from)].lanes.size(), -1);
  return ofPair[at(laneIndex(lane, part))];
}

void Emitter::deliver(int message) {
  Message& m = messages_[at(message)];
  if (!m.underway) return;
  m.underway = false;
  occupant(m.from, m.to, m.lane, m.part) = -1;
  if (m.cell) {
    cells_[*m.cell].pending = -1;
    return append(m.to, m.lane, m.part, transfer({m.from}, {}, {}, chunkFor(*m.cell, m.to, m.part)));
  }
  m.stash = newTemporary(m.to, m.lane, m.part);
  append(m.to, m.lane, m.part, transfer({m.from}, {}, {}, m.stash));
}

Value Emitter::load(size_t cell) {
  Cell& c = cells_[cell];
  TUTTI_ASSERT_CMP(c.part, >=, 0);
  if (c.pending >= 0) deliver(c.pending);
  const auto inScratch = scratchOf_.find({cell, c.part});
  return {inScratch == scratchOf_.end() ? memory_.chunkOf(cell) : scratch(inScratch->second), c.part, false};
}

bool Emitter::hasRoom(int from, int to, int lane, int part) {
  const int message = occupant(from, to, lane, part);
  if (message >= 0 && messages_[at(message)].cell) deliver(message);
  return occupant(from, to, lane, part) < 0;
}

void Emitter::makeRoom(int from, int to, int lane, int part) {
  if (const int message = occupant(from, to, lane, part); message >= 0) deliver(message);
}

int Emitter::send(int from, int to, int lane, const Value& value) {
  TUTTI_ASSERT(hasRoom(from, to, lane, value.part));
  append(from, lane, value.part, transfer({}, {to}, {value.chunk}, {}));
  messages_.push_back({.from = from, .to = to, .lane = lane, .part = value.part});
  const int message = static_cast<int>(messages_.size()) - 1;
  occupant(from, to, lane, value.part) = message;
  return message;
}

void Emitter::accumulate(int rank, int lane, int part, const Operand& operand, std::optional<Chunk> acc, Chunk into) {
  std::vector<Chunk> sources;
  if (acc) sources.push_back(*acc);
  if (operand.message < 0 && operand.rank < 0) {
    sources.push_back(operand.value.chunk);
    return append(rank, lane, part, transfer({}, {}, std::move(sources), into));
  }
  if (operand.message < 0) {
    makeRoom(operand.rank, rank, lane, part);
    append(operand.rank, lane, part, transfer({}, {rank}, {operand.value.chunk}, {}));
    return append(rank, lane, part, transfer({operand.rank}, {}, std::move(sources), into));
  }
  Message& m = messages_[at(operand.message)];
  if (m.underway) {
    m.underway = false;
    occupant(m.from, m.to, m.lane, m.part) = -1;
    return append(rank, lane, part, transfer({m.from}, {}, std::move(sources), into));
  }
  sources.push_back(m.stash);
  append(rank, lane, part, transfer({}, {}, std::move(sources), into));
  drop(rank, lane, {m.stash, part, true});
}

Value Emitter::combine(int rank, int lane, std::span<const Operand> operands, std::optional<size_t> into) {
  const Operand& first = operands.front();
  const int part = first.message >= 0 ? partOfMessage(first.message) : first.value.part;
  const bool here = first.message < 0 && first.rank < 0;
  if (operands.size() == 1 && here) return first.value;
  std::optional<Chunk> target;
  if (into) {
    if (cells_[*into].pending >= 0) deliver(cells_[*into].pending);
    target = chunkFor(*into, rank, part);
    // The second of three operands onwards is read after the target has been written for the first time.
    for (size_t i = here ? 2 : 1; i < operands.size() && target; ++i) {
      if (operands[i].message < 0 && operands[i].rank < 0 && operands[i].value.chunk == *target) target.reset();
    }
  }
  Value result{target ? *target : newTemporary(rank, lane, part), part, !target};
  std::optional<Chunk> acc;
  if (here) acc = first.value.chunk;
  for (const Operand& operand : operands.subspan(here ? 1 : 0)) {
    accumulate(rank, lane, part, operand, acc, result.chunk);
    acc = result.chunk;
  }
  if (target) cells_[*into].part = part;
  return result;
}

void Emitter::store(int rank, int lane, const Value& value, size_t cell) {
  if (cells_[cell].pending >= 0) deliver(cells_[cell].pending);
  const Chunk dst = chunkFor(cell, rank, value.part);
  cells_[cell].part = value.part;
  if (dst != value.chunk) append(rank, lane, value.part, transfer({}, {}, {value.chunk}, dst));
}

void Emitter::put(int rank, int lane, const Value& value, int toRank, size_t cell) {
  if (cells_[cell].pending >= 0) deliver(cells_[cell].pending);
  makeRoom(rank, toRank, lane, value.part);
  const int message = send(rank, toRank, lane, value);
  messages_[at(message)].cell = cell;
  (void)chunkFor(cell, toRank, value.part);
  cells_[cell] = {value.part, message};
  pending_.push_back(cell);
}

std::vector<Schedule> Emitter::finish() {
  for (const size_t cell : pending_) {
    if (cells_[cell].pending >= 0) deliver(cells_[cell].pending);
  }
  return std::move(schedules_);
}

}  // namespace tutti::foreign

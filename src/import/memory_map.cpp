#include "src/import/memory_map.hpp"

#include <algorithm>
#include <numeric>

namespace tutti::foreign {
namespace {

constexpr int kMostRefined = 64;
constexpr size_t kMostCells = size_t{1} << 22;

/// The least number of pieces of a chunk that gives every thread block of every group whole pieces.
Result<int> refinementOf(const Program& program) {
  int refine = 1;
  for (const Thread& thread : program.threads) {
    for (const Step& step : thread.steps) {
      if (step.kind == StepKind::Data) refine = std::lcm(refine, step.nShares);
      if (refine > kMostRefined) {
        return invalidArgument(ErrorCode::PlanTooLarge, thread.where, " ", step.where,
                               ": thread block groups cut chunks into more than ", kMostRefined, " pieces");
      }
    }
  }
  return refine;
}

}  // namespace

Result<MemoryMap> MemoryMap::make(const Program& program, bool inPlace) {
  MemoryMap map(program);
  TUTTI_ASSIGN(map.refine_, refinementOf(program));
  const bool vector = isOneVector(program.collective);
  const int pieces = program.blockChunks * map.refine_;
  if (!vector) map.nParts_ = pieces;
  for (int r = 0; r < program.nRanks; ++r) {
    map.shapes_.push_back({.collective = program.collective,
                           .rank = r,
                           .nRanks = program.nRanks,
                           .root = program.root,
                           .inPlace = inPlace,
                           .nChunks = vector ? pieces : 1,
                           .nChannels = map.nParts_});
  }
  for (int r = 0; r < program.nRanks; ++r) {
    const Schedule& shape = map.shape(r);
    for (const Buffer buffer : {Buffer::Input, Buffer::Output, Buffer::Scratch}) {
      const int chunks = buffer == Buffer::Input ? shape.inputChunks() : shape.outputChunks();
      const bool isScratch = buffer == Buffer::Scratch;
      const size_t cells = isScratch ? static_cast<size_t>(map.chunksOf(r, buffer)) * static_cast<size_t>(map.refine_)
                                     : static_cast<size_t>(chunks) * static_cast<size_t>(map.nParts_);
      map.first_.push_back(map.nCells_);
      map.nCells_ += cells;
      if (map.nCells_ > kMostCells)
        return invalidArgument(ErrorCode::PlanTooLarge, "has more than ", kMostCells, " chunks on all ranks");
      for (size_t i = 0; i < cells; ++i) {
        const int index = static_cast<int>(i);
        map.chunks_.push_back(isScratch ? Known{tutti::scratch(index), -1}
                                        : Known{{buffer, index / map.nParts_}, index % map.nParts_});
      }
    }
  }
  return map;
}

int MemoryMap::chunksOf(int rank, Buffer buffer) const {
  if (buffer == Buffer::Scratch) return program_->scratchChunks[static_cast<size_t>(rank)];
  const Schedule& s = shape(rank);
  const auto blocks = buffer == Buffer::Input ? inputChunks : outputChunks;
  return blocks(s.collective, s.rank, s.root, s.nRanks, 1) * program_->blockChunks;
}

size_t MemoryMap::cell(const Place& place, int piece) const {
  const int at = place.index * refine_ + piece;
  const size_t first = static_cast<size_t>(place.rank) * 3;
  if (place.buffer == Buffer::Scratch) return first_[first + 2] + static_cast<size_t>(at);
  const Chunk memory = shape(place.rank).memoryOf({place.buffer, at / nParts_});
  return first_[first + static_cast<size_t>(memory.buffer)] +
         static_cast<size_t>(memory.index) * static_cast<size_t>(nParts_) + static_cast<size_t>(at % nParts_);
}

bool MemoryMap::writable(int rank, size_t cell) const {
  if (isScratch(cell) || chunkOf(cell).buffer == Buffer::Output) return true;
  const Schedule& s = shape(rank);
  for (int c = 0; s.inPlace && c < s.outputChunks(); ++c) {
    if (s.memoryOf(out(c)) == chunkOf(cell)) return true;
  }
  return false;
}

std::string MemoryMap::outOfRange(const Place& place, int count) const {
  const int have = chunksOf(place.rank, place.buffer);
  if (place.index >= 0 && count >= 0 && place.index <= have - count) return {};
  return cat(describe(place, 0), count > 1 ? cat(" to [", int64_t{place.index} + count - 1, "]") : "", " of gpu ",
             place.rank, " is out of range: it has ", have, " chunks there");
}

std::string MemoryMap::describe(const Place& place, int piece) const {
  const char* name = place.buffer == Buffer::Input ? "i" : place.buffer == Buffer::Output ? "o" : "s";
  return cat(name, "[", place.index + piece / refine_, "]");
}

}  // namespace tutti::foreign

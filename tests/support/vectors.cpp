#include "tests/support/vectors.hpp"

#include <algorithm>

#include "src/base/split_mix.hpp"
#include "src/base/text.hpp"

namespace tutti::test {
namespace {

constexpr size_t kGuard = 16;  // elements on each side
constexpr uint32_t kPoison = 0xa5a5a5a5;

/// Elements of a buffer of this many chunks.
size_t elements(const Schedule& s, int chunks, size_t count) {
  if (chunks == 0) return 0;
  return isOneVector(s.collective) ? count : static_cast<size_t>(chunks) * count;
}

bool guardsHold(const std::vector<uint32_t>& memory, size_t used) {
  if (memory.empty()) return true;
  const auto poisoned = [](uint32_t value) { return value == kPoison; };
  return std::all_of(memory.begin(), memory.begin() + kGuard, poisoned) &&
         std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(kGuard + used), memory.end(), poisoned);
}

}  // namespace

uint32_t contribution(int rank, size_t i) {
  return static_cast<uint32_t>(splitMix(static_cast<uint64_t>(rank) << 40 ^ i) >> 32);
}

Vectors::Vectors(const std::vector<Schedule>& schedules, size_t count)
    : schedules_(schedules), count_(count), memory_(schedules.size()) {
  const Schedule& first = schedules.front();
  if (reduces(first.collective)) {
    sums_.assign(elements(first, first.inputChunks(), count), 0);
    for (const Schedule& s : schedules) {
      for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += contribution(s.rank, i);
    }
  }
  for (const Schedule& s : schedules) fill(s, &memory_[static_cast<size_t>(s.rank)]);
}

bool Vectors::inPlace(const Schedule& s) const { return s.inPlace && s.inputChunks() > 0 && s.outputChunks() > 0; }

// In place, what is shared is the smaller of the two buffers, which lies in the larger one at the rank's block.
void Vectors::fill(const Schedule& s, Memory* m) const {
  m->inputElements = elements(s, s.inputChunks(), count_);
  m->outputElements = elements(s, s.outputChunks(), count_);
  const bool shared = inPlace(s);
  if (shared && m->inputElements < m->outputElements) m->inputOffset = static_cast<size_t>(s.rank) * count_;
  const size_t whole = shared ? std::max(m->inputElements, m->outputElements) : m->outputElements;
  m->output.assign(whole + 2 * kGuard, kPoison);
  if (!shared) m->input.assign(m->inputElements + 2 * kGuard, kPoison);
  uint32_t* input = shared ? m->output.data() + kGuard + m->inputOffset : m->input.data() + kGuard;
  for (size_t i = 0; i < m->inputElements; ++i) input[i] = contribution(s.rank, i);
}

CallBuffers Vectors::buffers(int rank) {
  const Schedule& s = schedules_[static_cast<size_t>(rank)];
  Memory& m = memory_[static_cast<size_t>(rank)];
  const bool shared = inPlace(s);
  const bool outputInside = shared && m.outputElements < m.inputElements;
  uint32_t* output = m.output.data() + kGuard + (outputInside ? static_cast<size_t>(rank) * count_ : 0);
  uint32_t* input = shared ? m.output.data() + kGuard + m.inputOffset : m.input.data() + kGuard;
  CallBuffers buffers;
  if (s.inputChunks() > 0) buffers.input = reinterpret_cast<const std::byte*>(input);
  if (s.outputChunks() > 0) buffers.output = reinterpret_cast<std::byte*>(output);
  buffers.reduction = {.dtype = tuttiUint32, .op = tuttiSum};
  buffers.call = makeFingerprint({.sequence = 1,
                                  .kind = static_cast<uint32_t>(s.collective),
                                  .dtype = tuttiUint32,
                                  .root = static_cast<uint32_t>(s.root),
                                  .count = count_});
  return buffers;
}

uint32_t Vectors::expected(int rank, size_t i) const {
  const Schedule& s = schedules_[static_cast<size_t>(rank)];
  const size_t own = static_cast<size_t>(rank) * count_;
  const int block = count_ == 0 ? 0 : static_cast<int>(i / count_);
  const size_t within = count_ == 0 ? 0 : i % count_;
  switch (s.collective) {
    case Collective::AllReduce:
    case Collective::Reduce: return sums_[i];
    case Collective::ReduceScatter: return sums_[own + i];
    case Collective::Broadcast: return contribution(s.root, i);
    case Collective::Scatter: return contribution(s.root, own + i);
    case Collective::AllGather:
    case Collective::Gather: return contribution(block, within);
    case Collective::AllToAll: return contribution(block, own + within);
    case Collective::Barrier: break;
  }
  return 0;
}

std::string Vectors::check(int rank) const {
  const Schedule& s = schedules_[static_cast<size_t>(rank)];
  const Memory& m = memory_[static_cast<size_t>(rank)];
  const bool outputInside = inPlace(s) && m.outputElements < m.inputElements;
  const uint32_t* output = m.output.data() + kGuard + (outputInside ? static_cast<size_t>(rank) * count_ : 0);
  for (size_t i = 0; i < m.outputElements; ++i) {
    if (output[i] == expected(rank, i)) continue;
    return cat("rank ", rank, ": element ", i, " of ", m.outputElements, " is ", output[i], ", not ",
               expected(rank, i));
  }
  const size_t used = inPlace(s) ? std::max(m.inputElements, m.outputElements) : m.outputElements;
  if (!guardsHold(m.output, used)) return cat("rank ", rank, ": wrote outside of its output");
  return checkInput(rank, m);
}

std::string Vectors::checkInput(int rank, const Memory& m) const {
  if (m.input.empty()) return {};
  if (!guardsHold(m.input, m.inputElements)) return cat("rank ", rank, ": wrote outside of its input");
  for (size_t i = 0; i < m.inputElements; ++i) {
    if (m.input[kGuard + i] != contribution(rank, i)) return cat("rank ", rank, ": wrote into its input");
  }
  return {};
}

}  // namespace tutti::test

#include "src/schedule/rounding.hpp"

#include <algorithm>

#include "src/base/split_mix.hpp"
#include "src/schedule/chunk_values.hpp"
#include "src/schedule/lane_machine.hpp"

namespace tutti {
namespace {

uint64_t mix(uint64_t a, uint64_t b) { return splitMix(splitMix(a) + b); }

/// Symbolic runs of all lanes.  Values are numbers of hashes; a chunk's index is no part of them.
class Rounding {
 public:
  Rounding(const std::vector<Schedule>& schedules, bool roundsPerOp)
      : schedules_(schedules), roundsPerOp_(roundsPerOp), held_(schedules, -1) {
    for (const Schedule& s : schedules_) {
      for (int c = 0; c < s.inputChunks(); ++c)
        held_.of(s, in(c)) = number(splitMix(static_cast<uint64_t>(s.rank) + 1));
    }
  }

  std::optional<uint64_t> run() { return runLanes() ? results() : std::nullopt; }

  bool alike() {
    if (!runLanes()) return false;
    for (int c = 0; c < schedules_.front().outputChunks(); ++c) {
      const int32_t first = held_.of(0, out(c));
      for (const Schedule& s : schedules_) {
        const int32_t value = held_.of(s, out(c));
        if (first < 0 || value < 0 || hashOf(value) != hashOf(first)) return false;
      }
    }
    return true;
  }

 private:
  bool runLanes() {
    const int slots = std::ranges::max_element(schedules_, {}, &Schedule::slotsNeeded)->slotsNeeded;
    for (size_t lane = 0; lane < schedules_.front().lanes.size(); ++lane) {
      LaneMachine machine(schedules_, static_cast<int>(lane), slots);
      const bool completed = machine.run([&](int rank, int op, std::span<const int32_t> received) {
        return execute(schedules_[static_cast<size_t>(rank)], lane, static_cast<size_t>(op), received);
      });
      if (!completed) return false;
    }
    return true;
  }

  int32_t number(uint64_t hash) {
    hashes_.push_back(hash);
    return static_cast<int32_t>(hashes_.size()) - 1;
  }

  int32_t execute(const Schedule& s, size_t lane, size_t at, std::span<const int32_t> received) {
    const Op& op = s.lanes[lane].ops[at];
    operands_.clear();
    for (const Chunk source : op.sources) operands_.push_back(held_.of(s, source));
    operands_.insert(operands_.end(), received.begin(), received.end());
    if (operands_.empty() || std::ranges::find(operands_, -1) != operands_.end()) return LaneMachine::kStop;
    const int32_t value = operands_.size() == 1 ? operands_[0] : number(sum());
    if (op.hasDst) held_.of(s, op.dst) = value;
    return value;
  }

  uint64_t hashOf(int32_t value) const { return hashes_[static_cast<size_t>(value)]; }

  uint64_t sum() const {
    uint64_t sum = hashOf(operands_[0]);
    for (size_t i = 1; i < operands_.size(); ++i) {
      const uint64_t operand = hashOf(operands_[i]);
      sum = mix(std::min(sum, operand), std::max(sum, operand));
    }
    return roundsPerOp_ && operands_.size() > 2 ? mix(sum, operands_.size()) : sum;
  }

  std::optional<uint64_t> results() {
    uint64_t all = 0;
    for (const Schedule& s : schedules_) {
      std::vector<uint64_t> ofRank;
      for (int c = 0; c < s.outputChunks(); ++c) {
        if (held_.of(s, out(c)) < 0) return std::nullopt;
        ofRank.push_back(hashOf(held_.of(s, out(c))));
      }
      const bool alike = std::ranges::all_of(ofRank, [&](uint64_t hash) { return hash == ofRank[0]; });
      if (alike) ofRank.resize(std::min<size_t>(ofRank.size(), 1));
      for (const uint64_t hash : ofRank) all = mix(all, hash);
      all = mix(all, ofRank.size());
    }
    return all;
  }

  const std::vector<Schedule>& schedules_;
  const bool roundsPerOp_;
  ChunkValues held_;
  std::vector<uint64_t> hashes_;  // by value
  std::vector<int32_t> operands_;
};

}  // namespace

std::optional<uint64_t> roundingOf(const std::vector<Schedule>& schedules, bool roundsPerOp) {
  return Rounding(schedules, roundsPerOp).run();
}

bool roundsAlike(const std::vector<Schedule>& schedules, bool roundsPerOp) {
  return Rounding(schedules, roundsPerOp).alike();
}

}  // namespace tutti

#include "src/schedule/verifier.hpp"

#include <algorithm>

#include "src/base/text.hpp"
#include "src/schedule/check_ops.hpp"
#include "src/schedule/chunk_values.hpp"
#include "src/schedule/lane_machine.hpp"
#include "src/schedule/symbolic_values.hpp"

namespace tutti {
namespace {

/// Runs the lanes one after the other: lanes share no chunk that one of them writes, so their order does not matter.
class Verification {
 public:
  Verification(const std::vector<Schedule>& schedules, const VerifyOptions& options)
      : schedules_(schedules),
        options_(options),
        nRanks_(static_cast<int>(schedules.size())),
        values_(nRanks_, maxInputChunks(schedules)),
        held_(schedules, SymbolicValues::kNone) {}

  std::string run() {
    const int nLanes = static_cast<int>(schedules_.front().lanes.size());
    const int lanesPerChannel = nLanes / schedules_.front().nChannels;
    for (int lane = 0; lane < nLanes; ++lane) {
      if (lane % lanesPerChannel == 0) reset();
      if (std::string text = runLane(lane); !text.empty()) return text;
      if ((lane + 1) % lanesPerChannel != 0) continue;
      if (std::string text = checkResults(); !text.empty()) return text;
    }
    return {};
  }

 private:
  static int maxInputChunks(const std::vector<Schedule>& schedules) {
    int most = 1;
    for (const Schedule& s : schedules) most = std::max(most, s.inputChunks());
    return most;
  }

  void reset() {
    held_.clear();
    for (const Schedule& s : schedules_) {
      for (int c = 0; c < s.inputChunks(); ++c) held_.of(s, in(c)) = values_.input(s.rank, c);
    }
  }

  std::string runLane(int lane) {
    LaneMachine machine(schedules_, lane, options_.slots);
    std::string complaint;
    const bool completed = machine.run([&](int rank, int opIndex, std::span<const int32_t> received) {
      const int32_t value = execute(rank, lane, opIndex, received, &complaint);
      return complaint.empty() ? value : LaneMachine::kStop;
    });
    if (!complaint.empty()) return complaint;
    return completed ? machine.describeLeftover() : machine.describeDeadlock();
  }

  int32_t execute(int rank, int lane, int opIndex, std::span<const int32_t> received, std::string* complaint) {
    const Schedule& s = schedules_[static_cast<size_t>(rank)];
    const Op& op = s.lanes[static_cast<size_t>(lane)].ops[static_cast<size_t>(opIndex)];
    int32_t value = SymbolicValues::kNone;
    bool first = true;
    const auto operand = [&](int32_t next) {
      std::string text = first ? std::string() : complainAbout(value, next);
      value = first ? next : text.empty() ? values_.combine(value, next) : SymbolicValues::kNone;
      first = false;
      if (!text.empty()) *complaint = describeOp(s, lane, opIndex) + ": " + text;
      return text.empty();
    };
    for (const Chunk source : op.sources) {
      const int32_t next = held_.of(s, source);
      if (next == SymbolicValues::kNone) {
        *complaint = describeOp(s, lane, opIndex) + ": reads " + toString(source) + ", which was never written";
        return value;
      }
      if (!operand(next)) return value;
    }
    for (const int32_t next : received) {
      if (!operand(next)) return value;
    }
    if (op.hasDst) held_.of(s, op.dst) = value;
    return value;
  }

  /// Why left op right may not be.
  std::string complainAbout(int32_t left, int32_t right) const {
    const auto both = [&] { return cat(values_.describe(left), " with ", values_.describe(right)); };
    if (values_.origin(left) != values_.origin(right)) return "combines chunks that do not belong together: " + both();
    if (const int rank = values_.commonRank(left, right); rank >= 0) {
      return cat("rank ", rank, " would contribute twice: combines ", both());
    }
    if (!options_.ordered && !options_.tree) return {};
    const RankInterval a = values_.interval(left);
    const RankInterval b = values_.interval(right);
    if (a.hi != b.lo) return "combines out of rank order: " + both();
    if (options_.tree && !(isTreeNode({a.lo, b.hi}, nRanks_) && treeSplit({a.lo, b.hi}) == a.hi)) {
      return "does not follow the reduction tree: combines " + both();
    }
    return {};
  }

  std::string checkResults() {
    for (const Schedule& s : schedules_) {
      for (int c = 0; c < s.outputChunks(); ++c) {
        const int32_t value = held_.of(s, out(c));
        if (value == SymbolicValues::kNone) return cat("rank ", s.rank, ": ", toString(out(c)), " was never written");
        if (std::string expected = mismatch(s, c, value); !expected.empty()) {
          return cat("rank ", s.rank, ": ", toString(out(c)), " ends with ", values_.describe(value), ", not ",
                     expected);
        }
      }
    }
    return {};
  }

  /// "" if the value is what the collective promises in out[c], else what that would be.
  std::string mismatch(const Schedule& s, int c, int32_t value) const {
    const auto single = [&](int rank, int chunk) {
      return value == values_.input(rank, chunk) ? "" : values_.describe(values_.input(rank, chunk));
    };
    const auto all = [&](int chunk) {
      if (values_.origin(value) == chunk && values_.count(value) == nRanks_) return std::string();
      return cat("chunk ", chunk, " of all ranks");
    };
    const Source source = sourceOf(s.collective, s.rank, s.root, c);
    return source.rank == kCombined ? all(source.chunk) : single(source.rank, source.chunk);
  }

  const std::vector<Schedule>& schedules_;
  const VerifyOptions& options_;
  const int nRanks_;
  SymbolicValues values_;
  ChunkValues held_;
};

/// A barrier promises that no rank ends before every rank began: messages carry what their sender has heard of.
class BarrierVerification {
 public:
  BarrierVerification(const std::vector<Schedule>& schedules, int slots)
      : schedules_(schedules), slots_(slots), words_((schedules.size() + 63) / 64) {}

  std::string run() {
    const size_t nRanks = schedules_.size();
    std::vector<uint64_t> heardByAnyLane(nRanks * words_, 0);
    for (size_t lane = 0; lane < schedules_.front().lanes.size(); ++lane) {
      if (std::string text = runLane(static_cast<int>(lane)); !text.empty()) return text;
      for (size_t w = 0; w < heard_.size(); ++w) heardByAnyLane[w] |= heard_[w];
    }
    for (size_t r = 0; r < nRanks; ++r) {
      for (size_t other = 0; other < nRanks; ++other) {
        if ((heardByAnyLane[r * words_ + other / 64] >> (other % 64) & 1) == 0) {
          return cat("rank ", r, " can leave the barrier before rank ", other, " has come to it");
        }
      }
    }
    return {};
  }

 private:
  std::string runLane(int lane) {
    heard_.assign(schedules_.size() * words_, 0);
    for (size_t r = 0; r < schedules_.size(); ++r) heard_[r * words_ + r / 64] |= uint64_t{1} << (r % 64);
    sent_.clear();
    LaneMachine machine(schedules_, lane, slots_);
    const bool completed = machine.run([&](int rank, int opIndex, std::span<const int32_t> received) {
      const size_t mine = static_cast<size_t>(rank) * words_;
      for (const int32_t message : received) {
        for (size_t w = 0; w < words_; ++w) heard_[mine + w] |= sent_[static_cast<size_t>(message) * words_ + w];
      }
      const auto& ops = schedules_[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)].ops;
      if (ops[static_cast<size_t>(opIndex)].to.empty()) return 0;
      const auto number = static_cast<int32_t>(sent_.size() / words_);
      for (size_t w = 0; w < words_; ++w) sent_.push_back(heard_[mine + w]);
      return number;
    });
    return completed ? machine.describeLeftover() : machine.describeDeadlock();
  }

  const std::vector<Schedule>& schedules_;
  const int slots_;
  const size_t words_;
  std::vector<uint64_t> heard_;  // words_ per rank: whom it has heard of
  std::vector<uint64_t> sent_;   // words_ per message
};

}  // namespace

std::string verify(const std::vector<Schedule>& schedules, const VerifyOptions& options) {
  if (std::string text = checkShapesAndOps(schedules); !text.empty()) return text;
  for (const Schedule& schedule : schedules) {
    if (std::string text = checkLanesDisjoint(schedule); !text.empty()) return text;
  }
  VerifyOptions chosen = options;
  for (const Schedule& schedule : schedules) {
    if (options.slots == 0) chosen.slots = std::max(chosen.slots, schedule.slotsNeeded);
  }
  if (schedules.front().collective == Collective::Barrier) return BarrierVerification(schedules, chosen.slots).run();
  return Verification(schedules, chosen).run();
}

}  // namespace tutti

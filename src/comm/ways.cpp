// The ways that are worth a trial for a kind of call.
#include <algorithm>
#include <cstdio>

#include "src/base/log.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/learning.hpp"
#include "src/comm/schedules.hpp"
#include "src/cost/kept_text.hpp"
#include "src/plan/fit.hpp"

namespace tutti {
namespace {

// Of 96 cells on 2, 4 and 8 ranks of two cores the fastest way, or one within 10 % of it, was in 95 among the five that
// cost least by the planner's figures, and cost at most twice the least (perf/results/learning-2core-vm.txt).
constexpr double kMostCost = 2;
/// Of more ranks it takes too long to see how a way rounds.
constexpr int kMostRanksForBits = 32;

bool isFloatingSum(const Call& call) {
  const bool sums = call.op == tuttiSum || call.op == tuttiProd || call.op == tuttiAvg;
  return callReduces(call) && isFloating(call.dtype) && sums;
}

TriedWay wayOf(const Candidate& row) { return {row.algorithm, row.protocol, row.joined, false}; }

/// The rows that are expected to cost little, the cheapest first.
std::vector<const Candidate*> cheapOnes(const Choice& choice) {
  std::vector<const Candidate*> rows;
  double least = choice.costUs;
  for (const Candidate& row : choice.table) {
    const bool usable = row.excluded.empty() && !row.ready && !row.atLeast && std::isfinite(row.costUs);
    if (!usable) continue;
    rows.push_back(&row);
    if (!row.tuned) least = std::min(least, row.costUs);
  }
  std::erase_if(rows, [&](const Candidate* row) { return row->costUs > kMostCost * least; });
  std::ranges::stable_sort(rows, {}, [](const Candidate* row) { return row->costUs; });
  return rows;
}

}  // namespace

Result<Choice> CallPlanner::chooseWay(const Call& call, const TriedWay& way) {
  PlanRequest request = planRequest(shapeOf(call, keyOf(call)));
  const Overrides asked = request.overrides;
  way.addTo(call.collective, &request.overrides);
  TUTTI_ASSIGN(Choice choice, ::tutti::plan(request, state_.calibration, estimatesFor(false)));
  // Nobody has asked for it: memory that peers map is read where it lies, as with any choice.
  if (!way.planned) {
    choice.overrides = asked;
    choice.unmet.clear();
  }
  return choice;
}

Result<std::optional<uint64_t>> CallPlanner::roundingOfWay(const Call& call, const TriedWay& way) {
  TUTTI_ASSIGN(const Choice choice, chooseWay(call, way));
  const PlanKey key = keyOf(call);
  const Shape shape = shapeFor(choice, shapeOf(call, key));
  return ::tutti::roundingOf(choice, shape, rewritesFor(choice, shape, key), call.dtype);
}

Result<std::vector<TriedWay>> CallPlanner::waysOf(const Call& call) {
  std::vector<TriedWay> ways(1);
  const PlanKey key = keyOf(call);
  if (key.narrow) return ways;  // where messages are rounded, each way gives other bits
  PlanRequest request = planRequest(shapeOf(call, key));
  request.within = kMostCost;
  TUTTI_ASSIGN(const Choice choice, ::tutti::plan(request, state_.calibration, estimatesFor(false)));
  if (choice.ready) return ways;
  ways[0] = {choice.algorithm, choice.protocol, choice.joined};
  const bool sameBits = learning_->among() == Learning::Among::SameBits && isFloatingSum(call) && comm_.nRanks() > 2;
  if (sameBits && comm_.nRanks() > kMostRanksForBits) return ways;
  std::optional<uint64_t> bits;
  if (sameBits) {
    TUTTI_ASSIGN(bits, roundingOfWay(call, ways[0]));
    if (!bits) return ways;
  }
  const auto isThere = [&](const Candidate& row) {
    // What is published to all takes no protocol.
    const bool published = publishes(request, *row.algorithm);
    return std::ranges::any_of(ways, [&](const TriedWay& way) {
      const bool same = way.protocol == row.protocol && way.joined == row.joined;
      return way.algorithm == row.algorithm && (published || same);
    });
  };
  for (const Candidate* row : cheapOnes(choice)) {
    if (ways.size() == Trials::kMostWays) break;
    if (isThere(*row)) continue;
    if (sameBits) {
      TUTTI_ASSIGN(const std::optional<uint64_t> others, roundingOfWay(call, wayOf(*row)));
      if (others != bits) continue;
    }
    ways.push_back(wayOf(*row));
  }
  return ways;
}

// Rank 0 speaks for all, which have come to the same.
void CallPlanner::tellLearned(const Call& call, const Learning::Kind& kind) {
  learning_->settled(call, kind);
  if (comm_.rank() != 0) return;
  std::string times;
  for (size_t i = 0; i < kind.ways.size(); ++i) {
    const uint64_t ns = kind.trials.nsOf(static_cast<uint8_t>(i));
    if (ns == Trials::kNoTime) continue;
    times += cat(times.empty() ? "" : "; ", describe(kind.ways[i]), " ", number(static_cast<double>(ns) * 1e-3), " us");
  }
  const std::string text = cat(callName(call), " of ", formatBytes(call.count * dataTypeBytes(call.dtype)), ": takes ",
                               describe(kind.ways[kind.trials.taken()]), " from now on; measured: ", times);
  TUTTI_INFO("plan", text);
  if (!state_.explain) return;
  const std::string line = cat("tutti: learned: ", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace tutti

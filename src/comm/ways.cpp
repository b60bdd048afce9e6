// The ways that are worth a trial for a kind of call.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "src/base/log.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/learning.hpp"
#include "src/comm/schedules.hpp"
#include "src/cost/kept_text.hpp"
#include "src/plan/fit.hpp"

namespace tutti {
namespace {

// The fastest way, or one within 10 % of it, was among the five that cost least by the planner's figures, and cost at
// most twice the least, in 95 of 96 cells on 2, 4 and 8 ranks of two cores (perf/results/learning-2core-vm.txt).
constexpr double kMostCost = 2;
// By figures that others disturbed a protocol may look so much dearer than it is.
constexpr double kMostCostByPoorFigures = 20;
// A way that is kept for later jobs takes at most this part of the time of what is planned.
constexpr double kClearly = 0.95;
/// It takes too long to see how a way rounds among more ranks.
constexpr int kMostRanksForBits = 32;

bool isFloatingSum(const Call& call) {
  const bool sums = call.op == tuttiSum || call.op == tuttiProd || call.op == tuttiAvg;
  return callReduces(call) && isFloating(call.dtype) && sums;
}

TriedWay wayOf(const Candidate& row) { return {row.algorithm, row.protocol, row.joined, false}; }

/// Algorithms that are the same among these ranks (ring, tree and others on two) cost the same in all parts: one of
/// them is enough.
bool looksLike(const Candidate& a, const Candidate& b) {
  constexpr double kEqual = 1e-3;
  const auto near = [](double x, double y) { return std::abs(x - y) <= kEqual * std::max(x, y); };
  return a.protocol == b.protocol && a.joined == b.joined && a.estimated && b.estimated && near(a.costUs, b.costUs) &&
         near(a.workUs, b.workUs) && near(a.wireUs, b.wireUs);
}

/// The rows that are expected to cost no more than `most` times the least of those that nobody has measured, the
/// cheapest first.  Compared as the planner does, which knows what all of these cost and of others maybe: the same on
/// all ranks.
std::vector<const Candidate*> cheapOnes(const Choice& choice, double most) {
  std::vector<const Candidate*> rows;
  double least = HUGE_VAL;
  for (const Candidate& row : choice.table) {
    const bool usable = row.excluded.empty() && !row.ready && !row.atLeast && std::isfinite(row.costUs);
    if (!usable || row.tuned) continue;
    rows.push_back(&row);
    least = std::min(least, row.comparedUs());
  }
  std::erase_if(rows, [&](const Candidate* row) { return row->comparedUs() > most * least; });
  std::ranges::stable_sort(rows, {}, [](const Candidate* row) { return row->comparedUs(); });
  return rows;
}

bool sameWay(const TriedWay& a, const TriedWay& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && a.joined == b.joined && a.copied == b.copied;
}

/// Whether one of these rows is the same way.  published: what is published to all takes no protocol.
bool isAmong(std::span<const Candidate* const> rows, const Candidate& row, bool published) {
  return std::ranges::any_of(rows, [&](const Candidate* other) {
    const bool same = other->protocol == row.protocol && other->joined == row.joined;
    return (other->algorithm == row.algorithm && (published || same)) || looksLike(*other, row);
  });
}

/// The ways of a row that are not there yet.  readsMapped: values are read where they lie, by all protocols alike, or
/// are copied through slots.
std::vector<TriedWay> variantsOf(const Candidate& row, bool readsMapped, std::span<const TriedWay> there) {
  const auto isThere = [&](const TriedWay& way) {
    return std::ranges::any_of(there, [&](TriedWay other) {
      if (readsMapped && !other.joined) other.protocol = way.protocol;
      return sameWay(other, way);
    });
  };
  const TriedWay way = wayOf(row);
  TriedWay copied = way;
  copied.copied = true;
  std::vector<TriedWay> ways;
  if (readsMapped && row.protocol != Protocol::Direct && !isThere(copied)) ways.push_back(copied);
  if (!isThere(way)) ways.push_back(way);
  return ways;
}

/// Disturbed figures are usually wrong about a protocol, whatever the algorithm.  The choice's algorithm by the other
/// protocol comes first: it also rounds as the choice does.
void otherProtocolFirst(const Choice& choice, std::vector<const Candidate*>* rows) {
  const auto other = std::ranges::find_if(*rows, [&](const Candidate* row) {
    return row->algorithm == choice.algorithm &&
           (row->protocol == Protocol::Direct) != (choice.protocol == Protocol::Direct);
  });
  if (other != rows->end()) std::rotate(rows->begin(), other, other + 1);
}

}  // namespace

Result<Choice> CallPlanner::chooseWay(const Call& call, const TriedWay& way) {
  PlanRequest request = callRequest(shapeOf(call, keyOf(call)), keyOf(call));
  const Overrides asked = request.overrides;
  way.addTo(call.collective, &request.overrides);
  TUTTI_ASSIGN(Choice choice, ::tutti::plan(request, state_.calibration, estimatesFor(false)));
  // Nobody has asked for it: memory that peers map is read where it lies, as with any choice.
  if (!way.planned) {
    choice.overrides = asked;
    choice.unmet.clear();
  }
  choice.copied = way.copied;
  return choice;
}

Result<std::optional<uint64_t>> CallPlanner::roundingOfWay(const Call& call, const TriedWay& way) {
  TUTTI_ASSIGN(const Choice choice, chooseWay(call, way));
  const PlanKey key = keyOf(call);
  const Shape shape = shapeFor(choice, shapeOf(call, key));
  return ::tutti::roundingOf(choice, shape, rewritesFor(choice, shape, key), call.dtype);
}

/// Whether values of memory that peers map are read where they lie.  The same on all ranks.
bool CallPlanner::readsMapped(const PlanRequest& request, const Candidate& row) const {
  const size_t least = leastMappedBytes();
  if (row.joined || publishes(request, *row.algorithm) || !mayLendMapped(request.shape, least)) return false;
  Shape shape = request.shape;
  shape.rank = 0;
  shape.parts = row.parts;
  return chunkBytes(shape, row.algorithm->build(shape)) >= least;
}

Result<std::vector<TriedWay>> CallPlanner::waysOf(const Call& call, bool mapped) {
  std::vector<TriedWay> ways(1);
  const PlanKey key = keyOf(call);
  if (key.narrow) return ways;  // where messages are rounded, each way gives other bits
  PlanRequest request = callRequest(shapeOf(call, key), key);
  const bool good = state_.calibration.good();
  request.within = good ? kMostCost : kMostCostByPoorFigures;
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
  const auto add = [&](const Candidate& row) -> Status {
    for (const TriedWay& way : variantsOf(row, mapped && readsMapped(request, row), ways)) {
      if (ways.size() == Trials::kMostWays) return {};
      if (sameBits) {
        TUTTI_ASSIGN(const std::optional<uint64_t> others, roundingOfWay(call, way));
        if (others != bits) continue;
      }
      ways.push_back(way);
    }
    return {};
  };
  std::vector<const Candidate*> rows = cheapOnes(choice, request.within), taken;
  if (!good || mapped) otherProtocolFirst(choice, &rows);
  for (const Candidate& row : choice.table) {
    if (!sameWay(wayOf(row), ways[0])) continue;
    taken.push_back(&row);
    TUTTI_TRY(add(row));
  }
  for (const Candidate* row : rows) {
    if (ways.size() == Trials::kMostWays) break;
    if (isAmong(taken, *row, publishes(request, *row->algorithm))) continue;
    const size_t before = ways.size();
    TUTTI_TRY(add(*row));
    if (ways.size() > before) taken.push_back(row);
  }
  return ways;
}

Status CallPlanner::findWays(const Call& call, Learning::Kind* kind) {
  if (kind->trials.wants() != Trials::Wants::Ways || !kind->ways.empty()) return {};
  TUTTI_ASSIGN(kind->ways, waysOf(call, !kind->trials.inPlainMemory()));
  return {};
}

/// Ranks that took different ways would read each other's messages as other ones.  All come to the same ways by the
/// same figures; whether they did, they tell each other, as processors may round differently, and nobody hears of that.
void CallPlanner::compare(const Call& call, Learning::Kind* kind, const std::vector<uint64_t>& all) {
  if (kind->trials.wants() == Trials::Wants::Times) {
    kind->trials.settle(all, callIsRooted(call));
    if (kind->trials.settled() && !kind->ways.empty()) tellLearned(call, *kind);
    return;
  }
  const bool alike = std::ranges::all_of(all, [&](uint64_t hash) { return hash == all[0]; });
  if (!alike) {
    kind->ways.resize(1);
    TUTTI_INFO("plan", "ranks would try different ways for ", callName(call), "; it goes as planned");
  }
  kind->trials.offer(static_cast<int>(kind->ways.size()));
}

/// A way that was found to be clearly faster than what is planned, or that takes the place of one which is kept.  Ways
/// of exact sums do not tell floating-point sums, which would get other bits in the next job.  Memory that peers map
/// does not tell how other memory fares; nor does a row of calls with a root, in which ranks run ahead of each other,
/// tell how such calls fare elsewhere.
std::optional<TunedWay> CallPlanner::worthKeeping(const Call& call, const Learning::Kind& kind) const {
  const uint8_t at = kind.trials.taken();
  const TriedWay& way = kind.ways[at];
  const bool exactSum = callReduces(call) && !isFloatingSum(call);
  const bool ranAhead = callIsRooted(call) && kind.trials.inRow();
  if (!state_.ranks || way.algorithm == nullptr || exactSum || ranAhead || !kind.trials.inPlainMemory() ||
      learning_->among() != Learning::Among::SameBits)
    return std::nullopt;
  TunedWay found{call.collective,
                 shapeOf(call, keyOf(call)).bytes,
                 std::string(way.algorithm->name),
                 way.protocol,
                 static_cast<double>(kind.trials.nsOf(at)) * 1e-3,
                 way.joined};
  if (found.us <= 0 || found.bytes == 0) return std::nullopt;
  const auto planned = static_cast<double>(kind.trials.nsOf(0)) * 1e-3;
  if (at != 0 && (planned == 0 || found.us < kClearly * planned)) return found;
  const auto set = std::ranges::find(state_.tuning.sets, *state_.ranks, &Tuning::Set::ranks);
  if (set == state_.tuning.sets.end()) return std::nullopt;
  const bool isKept = std::ranges::any_of(set->learned, [&](const TunedWay& kept) {
    return kept.collective == found.collective && kept.bytes == found.bytes;
  });
  return isKept ? std::optional(found) : std::nullopt;
}

/// By the rules of worthKeeping(), of sends that go alone.
std::vector<TunedSend> CallPlanner::sendsWorthKeeping() {
  std::vector<TunedSend> kept;
  for (const LearnedSend& found : sendLearning_.takeFound()) {
    const bool faster =
        !found.planned && static_cast<double>(found.ns) < kClearly * static_cast<double>(found.plannedNs);
    if (found.key.inGroup || found.ns == 0 || !(faster || keepsSend(state_.tuning, *state_.ranks, found.key.bytes)))
      continue;
    kept.push_back(
        {found.key.bytes, found.lends ? Protocol::Direct : Protocol::Slots, static_cast<double>(found.ns) * 1e-3});
  }
  return kept;
}

void CallPlanner::keepLearned() {
  if (learning_ == nullptr || comm_.rank() != 0 || !state_.ranks) return;
  const std::vector<TunedWay> ways = learning_->takeKept();
  const std::vector<TunedSend> sends = sendsWorthKeeping();
  if (ways.empty() && sends.empty()) return;
  const MachineIdentity machine = thisMachine();
  const Status status = ::tutti::keepLearned(machine, *state_.ranks, ways, sends);
  if (!status.ok()) TUTTI_INFO("plan", "what calls taught is not kept: ", status.text());
}

// Rank 0 speaks for all, which have come to the same.
void CallPlanner::tellLearned(const Call& call, const Learning::Kind& kind) {
  learning_->settled(call, kind);
  if (comm_.rank() != 0) return;
  if (const auto way = worthKeeping(call, kind)) learning_->keep(*way);
  std::string times;
  for (size_t i = 0; i < kind.ways.size(); ++i) {
    const uint64_t ns = kind.trials.nsOf(static_cast<uint8_t>(i));
    if (ns == Trials::kNoTime) continue;
    times += cat(times.empty() ? "" : "; ", describe(kind.ways[i]), " ", usText(ns), " us");
  }
  const std::string text = cat(callName(call), " of ", formatBytes(call.count * dataTypeBytes(call.dtype)), ": takes ",
                               describe(kind.ways[kind.trials.taken()]), " from now on; measured: ", times);
  TUTTI_INFO("plan", text);
  if (!state_.explain) return;
  const std::string line = cat("tutti: learned: ", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace tutti

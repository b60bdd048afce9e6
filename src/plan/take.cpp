#include "src/plan/take.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/plan/request_parts.hpp"

namespace tutti {
namespace {

/// Messages that follow each other, each of which waits for the one before, by the algorithm's formula.
double roundsOf(const Algorithm& a, Shape shape, const std::vector<LevelPart>& parts) {
  const LinearCost step{.latencyUs = 1, .bandwidthGBps = 1e12, .waitUs = 0, .workShare = 0};
  CostModel steps;
  for (LinearCost* link : {&steps.intra, &steps.inter, &steps.link, &steps.exchange, &steps.oneWay}) *link = step;
  steps.reduceGBps = steps.copyGBps = 1e12;
  shape.parts = parts;
  shape.bytes = 1;
  return a.costUs(shape, steps);
}

/// Estimates of ranks that share cores and memory are off by a tenth to two fifths, and the more, the more often ranks
/// wait for each other: by how their turns on a core fall, and by how far the cores are apart at the moment, which a
/// hypervisor changes from second to second (perf/results/choices-shared-cores-2core-epyc.txt).  So much cheaper a
/// choice of more rounds has to be.
constexpr double kRoundsMustWin = 1.3;

/// Over sockets a look at a rank's messages is a system call, and a wait is a turn of a core.  Of two ranks that
/// exchange messages at most one waits; in a ring of as many rounds more do (27 us instead of 31 on 4 ranks, 85 instead
/// of 104 on 8), and where one rank gathers from all, all others do (AllReduce of 8 B on 4 ranks: 24 us instead of 33).
/// Estimates do not see that.
constexpr double kExchangesMayCost = 1.1;

/// Hosts that share cores do the work of all messages between them on the same cores.  Leaders send few of them.
/// Beside the cheapest by estimates they gained 4 to 33 % more than those say, over 1 Gbit/s and with whole messages
/// (AllGather, ReduceScatter and AllToAll of 8 and 64 KiB, perf/results/hosts-2core-epyc.txt).
constexpr double kLeadersMayCost = 1.15;

bool shareCores(const PlanRequest& r) { return r.links.intra && !r.links.inter && r.links.ranksPerCore > 1; }

bool usable(const Candidate& row) { return row.excluded.empty() && !row.atLeast && std::isfinite(row.costUs); }

/// Candidates within this factor of the cheapest count as equal.  The first in the registry wins.
constexpr double kAlike = 1.02;

/// The time that a choice of one round less may cost more.  A round in which all ranks wait for each other takes a turn
/// of the core for each other rank on it.  Estimates of work are not that unsure: an AllReduce of 256 KiB in one round,
/// in which every rank sums all, takes 1.7 times what two rounds take on 4 ranks
/// (perf/results/choices-shared-cores-2core-epyc.txt).  Calls with a root have no such bound, as ranks run ahead of
/// each other.
double worthOfRoundUs(const PlanRequest& r, double handOverUs) {
  return isRooted(r.shape.collective) ? HUGE_VAL : (r.links.ranksPerCore - 1) * handOverUs;
}

/// The candidate of the fewest rounds among those that cost about as much as best, and the cheapest of as many rounds,
/// for ranks that share cores and memory.
const Candidate* fewestRounds(const PlanRequest& r, const std::vector<Candidate>& table, const Candidate* best,
                              double handOverUs) {
  const double mostUs = best->comparedUs() * kRoundsMustWin, roundUs = worthOfRoundUs(r, handOverUs);
  const double bestRounds = roundsOf(*best->algorithm, r.shape, best->parts);
  double rounds = bestRounds, leastUs = best->comparedUs();
  const auto eligible = [&](const Candidate& row) {
    if (!usable(row) || row.ready || row.comparedUs() > mostUs) return false;
    const double fewer = std::max(bestRounds - roundsOf(*row.algorithm, r.shape, row.parts), 0.0);
    return fewer == 0 || row.comparedUs() - best->comparedUs() <= fewer * roundUs;
  };
  for (const Candidate& row : table) {
    if (!eligible(row)) continue;
    const double its = roundsOf(*row.algorithm, r.shape, row.parts);
    if (its < rounds || (its == rounds && row.comparedUs() < leastUs)) rounds = its, leastUs = row.comparedUs();
  }
  const auto found = std::ranges::find_if(table, [&](const Candidate& row) {
    return eligible(row) && row.comparedUs() <= leastUs * kAlike &&
           roundsOf(*row.algorithm, r.shape, row.parts) <= rounds;
  });
  return found == table.end() ? best : &*found;
}

/// The cheapest candidate that exchanges messages in as many rounds as best and costs about as much, for ranks that
/// share cores and talk through sockets.  Only for little data (blocks that share messages, sums of as much), as bytes
/// matter more otherwise.
const Candidate* exchanging(const PlanRequest& r, const std::vector<Candidate>& table, const Candidate* best) {
  const bool littleSum = r.shape.collective == Collective::AllReduce && r.shape.bytes <= r.joinBytes;
  if (!(best->joined || littleSum) || best->algorithm->exchanges) return best;
  if (!std::has_single_bit(static_cast<unsigned>(r.shape.nRanks))) return best;
  const double mostUs = best->comparedUs() * kExchangesMayCost;
  const double rounds = roundsOf(*best->algorithm, r.shape, best->parts);
  const Candidate* found = best;
  for (const Candidate& row : table) {
    if (!usable(row) || !row.algorithm->exchanges || row.comparedUs() > mostUs) continue;
    if (!row.joined && !littleSum) continue;
    const bool cheaper = found == best || row.comparedUs() < found->comparedUs();
    if (cheaper && roundsOf(*row.algorithm, r.shape, row.parts) <= rounds) found = &row;
  }
  return found;
}

/// The cheapest candidate by leaders that costs about as much as best, if what a leader has for another is a message.
const Candidate* byLeaders(const PlanRequest& r, const std::vector<Candidate>& table, const Candidate* best) {
  const double ranks = ranksOfNode(r.shape), bytes = static_cast<double>(r.shape.bytes);
  const double message = (r.shape.collective == Collective::AllToAll ? ranks * ranks : ranks) * bytes;
  if (message > static_cast<double>(r.joinBytes)) return best;
  const Candidate* found = nullptr;
  for (const Candidate& row : table) {
    if (!usable(row) || row.ready || !row.joined || !row.algorithm->mustJoin) continue;
    if (row.comparedUs() > best->comparedUs() * kLeadersMayCost) continue;
    if (found == nullptr || row.comparedUs() < found->comparedUs()) found = &row;
  }
  return found == nullptr ? best : found;
}

}  // namespace

double mostOfBetter(const PlanRequest& r) {
  if (hostsShareCores(r)) return kLeadersMayCost;
  if (!shareCores(r)) return 1;
  return r.links.intra->systemCalls ? kExchangesMayCost : kRoundsMustWin;
}

void takeCheapest(const PlanRequest& r, double handOverUs, Choice* choice) {
  const Candidate* best = nullptr;
  for (const Candidate& row : choice->table) {
    if (usable(row) && (best == nullptr || row.comparedUs() < best->comparedUs())) best = &row;
  }
  if (best == nullptr) return;
  if (shareCores(r) && !best->ready && !best->tuned) {
    best = r.links.intra->systemCalls ? exchanging(r, choice->table, best)
                                      : fewestRounds(r, choice->table, best, handOverUs);
  }
  if (hostsShareCores(r) && !best->ready && !best->tuned) best = byLeaders(r, choice->table, best);
  choice->algorithm = best->algorithm;
  choice->ready = best->ready;
  choice->protocol = best->protocol;
  choice->nChannels = best->nChannels;
  choice->joined = best->joined;
  choice->costUs = best->costUs;
  choice->parts = best->parts;
  choice->wire = !best->ready && mayNarrow(*best->algorithm) ? r.wire : WireFormat::Full;
}

}  // namespace tutti

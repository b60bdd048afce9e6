#include "src/plan/planner.hpp"

#include <algorithm>
#include <cmath>

#include "src/plan/request_parts.hpp"
#include "src/plan/walks.hpp"

namespace tutti {
namespace {

std::string describe(const Shape& s) {
  return cat(s.nRanks, s.nRanks == 1 ? " rank" : " ranks", s.uneven ? ", blocks of different sizes" : "",
             s.commutative ? "" : ", operands in rank order", s.inPlace ? ", in place" : "");
}

/// Why an algorithm is out with every protocol.
std::string exclusion(const PlanRequest& r, const Algorithm& a) {
  const Algorithm* asked = r.overrides.of(r.shape.collective);
  const bool another = (asked != nullptr && asked != &a) || !r.overrides.readyOf(r.shape.collective).empty();
  if (another) return "TUTTI_ALGO asks for another";
  if (!a.supports(r.shape)) return cat("does not support ", describe(r.shape));
  return "";
}

std::string exclusion(const PlanRequest& r, const ReadyPlan& ready) {
  const std::string& asked = r.overrides.readyOf(r.shape.collective);
  const bool another = r.overrides.of(r.shape.collective) != nullptr || (!asked.empty() && !ready.answersTo(asked));
  if (another) return "TUTTI_ALGO asks for another";
  const size_t lanes = ready.outOfPlace->front().lanes.size() * static_cast<size_t>(std::max(1, r.overrides.nChannels));
  if (lanes > static_cast<size_t>(r.mostLanes)) return cat("needs ", lanes, " lanes; there are ", r.mostLanes);
  return "";
}

/// Why a protocol is out with every algorithm.
std::string exclusion(const PlanRequest& r, const Calibration& c, Protocol protocol) {
  // A program that moves its bytes directly still has barriers.
  const bool barrier = r.shape.collective == Collective::Barrier && r.overrides.protocol == Protocol::Direct;
  if (r.overrides.protocol && *r.overrides.protocol != protocol && !barrier) return "TUTTI_PROTO asks for another";
  return whyNot(r, c, mainKind(r), protocol, r.links.intra.has_value());
}

/// Nothing was left to choose from: say what stood in the way, the user's wishes first.
Status impossible(const PlanRequest& r, const Calibration& c) {
  const std::string call =
      cat(collectiveKey(r.shape.collective), " of ", r.shape.bytes, " bytes on ", describe(r.shape));
  const Algorithm* asked = r.overrides.of(r.shape.collective);
  if (asked != nullptr && !asked->supports(r.shape)) {
    return invalidUsage("TUTTI_ALGO: ", asked->name, " does not support ", call, "; unset it or choose one of ",
                        algorithmNames(r.shape.collective));
  }
  if (const std::string& ready = r.overrides.readyOf(r.shape.collective); !ready.empty()) {
    return invalidUsage("TUTTI_ALGO: no plan '", ready, "' of TUTTI_PLAN_DIR serves ", call);
  }
  if (r.overrides.protocol) {
    const std::string why = whyNot(r, c, mainKind(r), *r.overrides.protocol, r.links.intra.has_value());
    if (!why.empty())
      return invalidUsage("TUTTI_PROTO=", protocolName(*r.overrides.protocol), " for ", call, ": ", why);
  }
  return invalidUsage("no algorithm supports ", call);
}

}  // namespace

double ranksPerCore(int ranksOnNode, int cores) {
  return std::max(1.0, static_cast<double>(ranksOnNode) / std::max(1, cores));
}

bool publishes(const PlanRequest& r, const Algorithm& a) {
  const bool asked = !r.overrides.protocol || *r.overrides.protocol == Protocol::Inline;
  const bool fits = r.boardBytes > 0 && messageBytes(r) <= static_cast<double>(r.boardBytes);
  // Everybody maps everybody's board: not for hundreds of ranks.
  constexpr int kMostRanks = 64;
  const bool worthIt = r.shape.nRanks > 2 && r.shape.nRanks <= kMostRanks;
  return a.publishes && asked && fits && worthIt && r.overrides.nChannels <= 1;
}

namespace {

/// Adds to the table, and takes the candidate if it is the cheapest so far.
void consider(Candidate candidate, Choice* best) {
  const bool first = best->algorithm == nullptr && !best->ready;
  if (std::isfinite(candidate.costUs) && (first || candidate.costUs < best->costUs)) {
    best->algorithm = candidate.algorithm;
    best->ready = candidate.ready;
    best->protocol = candidate.protocol;
    best->nChannels = candidate.nChannels;
    best->costUs = candidate.costUs;
    best->parts = candidate.parts;
  }
  best->table.push_back(std::move(candidate));
}

/// Doubling among a number of groups that is no power of two looks different from each of them, so that many ranks
/// cannot be walked; the circulant way does nearly as well and looks alike from all.
bool replaceDoubling(std::vector<LevelPart>* parts) {
  const auto doubling = std::find(parts->begin(), parts->end(), LevelPart::Doubling);
  if (doubling == parts->end()) return false;
  *doubling = LevelPart::Circulant;
  return true;
}

/// Every usable protocol with plans that come with their schedules.  Those have the channels that they have.
void considerReady(const PlanRequest& r, const Calibration& c, Choice* best) {
  const int nChannels = std::max(1, r.overrides.nChannels);
  for (const ReadyPlan& ready : r.ready) {
    if (std::string why = exclusion(r, ready); !why.empty()) {
      best->table.push_back({nullptr, ready, Protocol::Slots, nChannels, 0, 0, 0, false, {}, std::move(why)});
      continue;
    }
    for (const Protocol protocol : kAllProtocols) {
      if (!best->protocolExcluded[static_cast<size_t>(protocol)].empty()) continue;
      const Result<WalkedCost> walked = Walks::cost(r, c, ready, protocol);
      const WalkedCost cost = walked.ok() ? *walked : WalkedCost{HUGE_VAL, 0, 0};
      consider({nullptr, ready, protocol, nChannels, cost.us, cost.workUs, cost.wireUs, true, {}, ""}, best);
    }
  }
}

}  // namespace

Result<Choice> plan(const PlanRequest& r, const Calibration& c, Walks* walks) {
  Walks once;
  if (walks == nullptr) walks = &once;
  if (r.overrides.nChannels > r.mostChannels) {
    return invalidUsage("TUTTI_NCHANNELS=", r.overrides.nChannels, ": at most ", r.mostChannels, " are possible here");
  }
  Choice best;
  const int nChannels = best.nChannels = channelsFor(r, c);
  for (const Protocol protocol : kAllProtocols) {
    best.protocolExcluded[static_cast<size_t>(protocol)] = exclusion(r, c, protocol);
  }
  for (const Algorithm* a : algorithms()) {
    if (a->collective != r.shape.collective) continue;
    if (std::string why = exclusion(r, *a); !why.empty()) {
      best.table.push_back({a, {}, Protocol::Slots, nChannels, 0, 0, 0, false, {}, std::move(why)});
      continue;
    }
    for (const Protocol protocol : kAllProtocols) {
      if (!best.protocolExcluded[static_cast<size_t>(protocol)].empty()) continue;
      CostModel model = costModel(r, c, protocol);
      if (publishes(r, *a)) model.link.workShare = LinearCost().workShare;
      Shape shape = r.shape;
      shape.parts = a->chooseParts != nullptr ? a->chooseParts(shape, model) : std::vector<LevelPart>{};
      Result<WalkedCost> walked = walks->cost(r, c, *a, protocol, shape.parts);
      if (!walked.ok() && replaceDoubling(&shape.parts)) walked = walks->cost(r, c, *a, protocol, shape.parts);
      const WalkedCost cost = walked.ok() ? *walked : WalkedCost{a->costUs(shape, model), 0, 0};
      consider({a, {}, protocol, nChannels, cost.us, cost.workUs, cost.wireUs, walked.ok(), shape.parts, ""}, &best);
    }
  }
  considerReady(r, c, &best);
  if (best.algorithm == nullptr && !best.ready) return impossible(r, c);
  best.interProtocol = r.links.intra && r.links.inter ? interProtocol(r, c) : best.protocol;
  return best;
}

}  // namespace tutti

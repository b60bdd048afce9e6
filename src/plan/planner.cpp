#include "src/plan/planner.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "src/plan/estimates.hpp"
#include "src/plan/fit.hpp"
#include "src/plan/request_parts.hpp"
#include "src/plan/take.hpp"

namespace tutti {
namespace {

/// Why an algorithm is out with every protocol.
std::string exclusion(const PlanRequest& r, const Algorithm& a) {
  const Algorithm* asked = r.overrides.of(r.shape.collective);
  const bool another = (asked != nullptr && asked != &a) || !r.overrides.readyOf(r.shape.collective).empty();
  return another ? "TUTTI_ALGO asks for another" : misfit(r, a);
}

std::string exclusion(const PlanRequest& r, const ReadyPlan& ready) {
  const std::string& asked = r.overrides.readyOf(r.shape.collective);
  const bool another = r.overrides.of(r.shape.collective) != nullptr || (!asked.empty() && !ready.answersTo(asked));
  return another ? "TUTTI_ALGO asks for another" : misfit(r, ready);
}

/// Why a protocol is out with every algorithm.
std::string exclusion(const PlanRequest& r, const Calibration& c, Protocol protocol) {
  // A program that moves its bytes directly still has barriers.
  const bool barrier = r.shape.collective == Collective::Barrier && r.overrides.protocol == Protocol::Direct;
  if (r.overrides.protocol && *r.overrides.protocol != protocol && !barrier) return "TUTTI_PROTO asks for another";
  return misfit(r, c, protocol);
}

}  // namespace

double ranksPerCore(int ranks, int cores) { return std::max(1.0, static_cast<double>(ranks) / std::max(1, cores)); }

bool publishes(const PlanRequest& r, const Algorithm& a) { return publishes(r, a, r.shape.bytes); }

bool publishes(const PlanRequest& r, const Algorithm& a, size_t bytes) {
  if (a.collective == Collective::Barrier) bytes = 0;
  const bool asked = !r.overrides.protocol || *r.overrides.protocol == Protocol::Inline;
  const bool fits = r.boardBytes > 0 && bytes <= r.boardBytes;
  // Everybody maps everybody's board: not for hundreds of ranks.
  constexpr int kMostRanks = 64;
  const bool worthIt = r.shape.nRanks > 2 && r.shape.nRanks <= kMostRanks;
  return a.publishes && asked && fits && worthIt && r.overrides.nChannels <= 1;
}

size_t mostJoinedBytes(const LinkUse& links, size_t slotBytes, const DeviceCosts* device) {
  constexpr size_t kMostInsideHost = 32 * 1024;
  const bool streams = device != nullptr && device->way == DeviceExecutor::Streams;
  return links.inter || streams ? slotBytes : std::min(slotBytes, kMostInsideHost);
}

void narrow(PlanRequest* request, WireFormat format, tuttiDataType_t dtype) {
  if (!isNarrower(format, dtype)) return;
  request->wire = format;
  request->wireShare =
      static_cast<double>(wireBytes(format, kWireBlock)) / static_cast<double>(kWireBlock * dataTypeBytes(dtype));
}

bool mayNarrow(const Algorithm& a) { return a.collective != Collective::AllReduce || a.sumsOnce; }

// Blocks of rounded numbers begin where values do, so that all messages of a value are rounded alike.
bool joins(const PlanRequest& r, const Algorithm& a) {
  if (r.wire != WireFormat::Full) return false;
  const Shape& s = r.shape;
  if (!a.joins || r.joinBytes == 0 || s.bytes == 0 || !s.commutative || publishes(r, a)) return false;
  // No algorithm cuts a vector into more chunks than there are ranks.
  const double chunk = callBytes(s) / s.nRanks;
  return 2 * chunk <= static_cast<double>(r.joinBytes);
}

namespace {

/// Doubling among a number of groups that is no power of two looks different from each of them, so that many ranks
/// cannot be estimated; the circulant way does nearly as well and looks alike from all.
bool replaceDoubling(std::vector<LevelPart>* parts) {
  const auto doubling = std::find(parts->begin(), parts->end(), LevelPart::Doubling);
  if (doubling == parts->end()) return false;
  *doubling = LevelPart::Circulant;
  return true;
}

/// The request for an algorithm that may not round, or a plan of somebody else's.
PlanRequest inFull(PlanRequest r) {
  r.wire = WireFormat::Full;
  r.wireShare = 1;
  return r;
}

/// Every usable protocol with plans that come with their schedules.  Those have the channels that they have.
void considerReady(const PlanRequest& r, const Calibration& c, Choice* best) {
  const int nChannels = std::max(1, r.overrides.nChannels);
  for (const ReadyPlan& ready : r.ready) {
    if (std::string why = exclusion(r, ready); !why.empty()) {
      best->table.push_back({.ready = ready, .nChannels = nChannels, .excluded = std::move(why)});
      continue;
    }
    for (const Protocol protocol : kAllProtocols) {
      if (!best->protocolExcluded[static_cast<size_t>(protocol)].empty()) continue;
      const Result<CostEstimate> estimated = Estimates::cost(r, c, ready, protocol);
      const CostEstimate cost = estimated.ok() ? *estimated : CostEstimate{HUGE_VAL, 0, 0};
      best->table.push_back(
          {nullptr, ready, protocol, std::max(nChannels, cost.lanes), cost.us, cost.workUs, cost.wireUs, true});
    }
  }
}

/// The first ranks of a request by themselves: whole hosts, where there are several.
struct Firsts {
  PlanRequest request;
  std::optional<MachineLevels> levels;
};

Firsts firstsOf(const PlanRequest& r, int nRanks) {
  Firsts first{r, {}};
  const auto cut = [&](std::vector<int>* of) {
    if (!of->empty()) of->resize(static_cast<size_t>(nRanks));
  };
  Shape& shape = first.request.shape;
  shape.nRanks = nRanks;
  cut(&shape.nodeOf);
  cut(&shape.railOf);
  for (std::vector<int>& groups : shape.inner) cut(&groups);
  if (r.levels == nullptr) return first;
  first.levels = *r.levels;
  for (MachineLevel& level : *first.levels) cut(&level.groupOf);
  return first;
}

/// About half as many ranks; 0: there is nothing smaller that is like these.
int fewerRanks(const Shape& s, int nRanks) {
  if (s.nodeOf.empty()) return nRanks / 2;
  const int hosts = (s.nodeOf[static_cast<size_t>(nRanks) - 1] + 1) / 2;
  const auto end = std::find(s.nodeOf.begin(), s.nodeOf.begin() + nRanks, hosts);
  return hosts < 2 ? 0 : static_cast<int>(end - s.nodeOf.begin());
}

/// What estimates say of a request's candidates, in the order in which they are asked.
class Comparison {
 public:
  Comparison(const PlanRequest& r, const Calibration& c, Estimates* estimates, Choice* choice)
      : r_(r), full_(inFull(r)), c_(c), estimates_(estimates), choice_(choice) {}

  /// With a message for each chunk, with messages of several, or both.  Memory is lent chunk by chunk.
  void add(const Algorithm& a, Protocol protocol) {
    const PlanRequest& r = requestFor(a);
    const std::optional<bool>& asked = r.overrides.joined;
    const bool lends = protocol == Protocol::Direct;
    if (lends && asked.value_or(a.mustJoin) && !r.overrides.protocol && joins(r, a)) return;
    const bool can = !lends && joins(r, a);
    if (!can || !asked.value_or(a.mustJoin)) add(a, protocol, false);
    if (can && asked.value_or(true)) add(a, protocol, true);
  }

  void add(const Algorithm& a, Protocol protocol, bool joined) {
    const PlanRequest& r = requestFor(a);
    CostModel model = costModel(r, c_, protocol);
    if (publishes(r, a)) model.link.workShare = LinearCost().workShare;
    Shape shape = r.shape;
    shape.messageBytes = joined ? r.joinBytes : 0;
    shape.parts = partsFor(r, shape, a, model);
    Candidate row{.algorithm = &a, .protocol = protocol, .nChannels = choice_->nChannels, .parts = shape.parts};
    row.joined = joined;
    row.waits = waitsForReaders(protocol);
    Asked asked{choice_->table.size(), &r, estimates_, 1};
    bool found = look(asked, &row) || (replaceDoubling(&row.parts) && look(asked, &row));
    if (!found) row.parts = shape.parts;
    found = found || lookAtSome(model, &asked, &row);
    if (!found) row.costUs = a.costUs(shape, model);
    row.estimated = found;
    if (row.atLeast) open_.push_back(asked);
    choice_->table.push_back(std::move(row));
  }

  /// Without comparing it with others: measurements have done that.
  void addTuned(const Algorithm& a, const TunedWay& way) {
    Candidate row{.algorithm = &a, .protocol = way.protocol, .nChannels = choice_->nChannels, .costUs = way.us};
    const PlanRequest& r = requestFor(a);
    row.joined = way.joined && joins(r, a);
    Shape shape = r.shape;
    shape.messageBytes = row.joined ? r.joinBytes : 0;
    row.parts = partsFor(r, shape, a, costModel(r, c_, way.protocol));
    look({choice_->table.size(), &r, estimates_, 1}, &row);  // for its channels
    row.costUs = way.us;
    row.atLeast = false;
    row.tuned = true;
    choice_->table.push_back(std::move(row));
  }

  /// Estimates those that may be the cheapest, beginning with those that look so.
  Status settle() {
    double best = HUGE_VAL;
    for (const Candidate& row : choice_->table) {
      const bool beside = row.tuned && r_.within > 1;  // asked for what there is beside it
      if (row.excluded.empty() && !row.atLeast && !beside) best = std::min(best, row.comparedUs());
    }
    const auto costOf = [&](const Asked& asked) { return choice_->table[asked.row].comparedUs(); };
    std::stable_sort(open_.begin(), open_.end(), [&](const Asked& a, const Asked& b) { return costOf(a) < costOf(b); });
    for (const Asked& asked : open_) {
      Candidate& row = choice_->table[asked.row];
      if (row.comparedUs() > best * std::max(r_.within, mostOfBetter(r_)) && !r_.wholeTable) break;
      TUTTI_ASSIGN(const CostEstimate cost, asked.estimates->cost(*asked.request, c_, wayOf(row)));
      row.atLeast = false;
      set(&row, cost, asked.scale);
      best = std::min(best, row.comparedUs());
    }
    return {};
  }

 private:
  /// The request that a row is asked of.
  struct Asked {
    size_t row;
    const PlanRequest* request;
    Estimates* estimates;
    double scale;  // of what they say
  };

  const PlanRequest& requestFor(const Algorithm& a) const { return mayNarrow(a) ? r_ : full_; }

  static std::vector<LevelPart> partsFor(const PlanRequest& r, const Shape& shape, const Algorithm& a,
                                         const CostModel& model) {
    if (a.chooseParts == nullptr) return {};
    std::vector<LevelPart> parts = a.chooseParts(shape, model);
    if (r.wire != WireFormat::Full && a.sumsOnce) replaceDoubling(&parts);
    return parts;
  }

  /// Between processes a lent message keeps its sender until the receiver has come to it, which has other messages to
  /// wait for from other hosts: on busy machines that took twice as long as slots, where both were to cost the same.
  bool waitsForReaders(Protocol protocol) const {
    const bool calls = r_.links.intra && r_.links.intra->directReads == DirectReads::SystemCalls;
    return protocol == Protocol::Direct && r_.links.inter && calls && r_.device == nullptr;
  }

  static Variant wayOf(const Candidate& row) { return {*row.algorithm, row.protocol, row.parts, row.joined}; }

  static void set(Candidate* row, const CostEstimate& cost, double scale) {
    row->costUs = cost.us * scale;
    row->workUs = cost.workUs * scale;
    row->wireUs = cost.wireUs * scale;
    if (row->nChannels < cost.lanes) row->nChannels = cost.lanes;
  }

  bool look(const Asked& asked, Candidate* row) {
    bool known = false;
    const auto cost = asked.estimates->atLeast(*asked.request, c_, wayOf(*row), &known);
    if (!cost.ok()) return false;
    row->atLeast = !known;
    set(row, *cost, asked.scale);
    return true;
  }

  /// Of schedules without symmetry and with too many steps: as many of the first ranks as can be estimated, and by the
  /// formula how much more all of them take.
  bool lookAtSome(const CostModel& model, Asked* asked, Candidate* row) {
    const Algorithm& a = *row->algorithm;
    const PlanRequest& all = requestFor(a);
    Shape shape = all.shape;
    shape.parts = row->parts;
    for (int n = fewerRanks(shape, shape.nRanks); n > kFewest; n = fewerRanks(shape, n)) {
      if (n > kMost) continue;
      const std::pair key(n, all.wire);
      if (!firsts_.contains(key)) {
        firsts_[key] = firstsOf(all, n);
        if (firsts_[key].levels) firsts_[key].request.levels = &*firsts_[key].levels;
      }
      const PlanRequest& some = firsts_[key].request;
      Shape someShape = some.shape;
      someShape.parts = row->parts;
      if (!a.supports(someShape)) continue;
      *asked = {asked->row, &some, estimates_->ofFirst(n), a.costUs(shape, model) / a.costUs(someShape, model)};
      if (!std::isfinite(asked->scale) || !look(*asked, row)) continue;
      row->estimatedRanks = n;
      return true;
    }
    return false;
  }

  /// Fewer tell little of many; more take too long to try.
  static constexpr int kFewest = 16, kMost = 256;

  const PlanRequest& r_;
  const PlanRequest full_;
  const Calibration& c_;
  Estimates* estimates_;
  Choice* choice_;
  std::vector<Asked> open_;
  std::map<std::pair<int, WireFormat>, Firsts> firsts_;
};

/// The way that was measured to be the fastest, if it may be taken.
std::optional<TunedWay> usableTuning(const PlanRequest& r, const Choice& choice) {
  if (r.tuning == nullptr || !r.ready.empty()) return std::nullopt;
  std::optional<TunedWay> way = tunedFor(*r.tuning, r);
  if (!way || !choice.protocolExcluded[static_cast<size_t>(way->protocol)].empty()) return std::nullopt;
  const Algorithm* a = findAlgorithm(r.shape.collective, way->algorithm);
  if (a == nullptr || !exclusion(r, *a).empty()) return std::nullopt;
  const bool otherwise = r.overrides.joined && joins(r, *a) && *r.overrides.joined != way->joined;
  return otherwise ? std::nullopt : way;
}

/// Every usable protocol with every algorithm; the way that is in the table already stays as it is.
void considerAlgorithms(const PlanRequest& r, Comparison* comparison, Choice* best) {
  const std::vector<Candidate> there = best->table;
  const auto isThere = [&](const Algorithm* a, Protocol protocol) {
    return std::any_of(there.begin(), there.end(),
                       [&](const Candidate& row) { return row.algorithm == a && row.protocol == protocol; });
  };
  for (const Algorithm* a : algorithms()) {
    if (a->collective != r.shape.collective) continue;
    if (std::string why = exclusion(r, *a); !why.empty()) {
      best->table.push_back({.algorithm = a, .nChannels = best->nChannels, .excluded = std::move(why)});
      continue;
    }
    for (const Protocol protocol : kAllProtocols) {
      const bool usable = best->protocolExcluded[static_cast<size_t>(protocol)].empty();
      if (usable && !isThere(a, protocol)) comparison->add(*a, protocol);
    }
  }
}

Result<Choice> planAnew(const PlanRequest& r, const Calibration& c, Estimates* estimates) {
  Choice best;
  best.nChannels = channelsFor(r, c);
  for (const Protocol protocol : kAllProtocols) {
    best.protocolExcluded[static_cast<size_t>(protocol)] = exclusion(r, c, protocol);
  }
  Comparison comparison(r, c, estimates, &best);
  const std::optional<TunedWay> tuned = usableTuning(r, best);
  if (tuned) comparison.addTuned(*findAlgorithm(r.shape.collective, tuned->algorithm), *tuned);
  if (!tuned || r.wholeTable || r.within > 1) considerAlgorithms(r, &comparison, &best);
  considerReady(inFull(r), c, &best);
  TUTTI_TRY(comparison.settle());
  takeCheapest(r, handOverUs(c), &best);
  if (best.algorithm == nullptr && !best.ready)
    return invalidUsage(ErrorCode::AlgorithmDoesNotFit, "no algorithm serves ", describe(r.shape));
  best.interProtocol = r.links.intra && r.links.inter ? interProtocol(r, c) : best.protocol;
  return best;
}

}  // namespace

Result<Choice> plan(const PlanRequest& r, const Calibration& c, Estimates* estimates) {
  TUTTI_ASSIGN(Honoured honoured, honour(r, c));
  std::optional<PlanRequest> changed;
  if (honoured.overrides != r.overrides) {
    changed = r;
    changed->overrides = honoured.overrides;
  }
  const PlanRequest& request = changed ? *changed : r;
  Estimates once;
  TUTTI_ASSIGN(Choice choice, estimates != nullptr
                                  ? estimates->chosen(request, [&] { return planAnew(request, c, estimates); })
                                  : planAnew(request, c, &once));
  choice.overrides = std::move(honoured.overrides);
  choice.unmet = std::move(honoured.unmet);
  return choice;
}

}  // namespace tutti

#include "src/plan/estimates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/plan/device_prices.hpp"
#include "src/plan/request_parts.hpp"
#include "src/schedule/passes.hpp"
#include "src/schedule/stagger.hpp"
#include "src/sim/memory.hpp"

namespace tutti {
namespace {

/// Schedules of up to so many ranks are all rewritten, as a communicator does it, and all estimated: every rank of a
/// host plans for itself, so that what a estimate takes is taken as many times.
constexpr int kMostRanksRewritten = 16;
/// Schedules of up to so many ranks are all estimated if a call has fewer elements than they have chunks: what is then
/// left of them looks alike on no two ranks, but is little.
constexpr int kMostRanksOfFew = 32;
/// Communicators of more ranks have no direct schedules.
constexpr int kMostRanksDirect = 64;
/// Steps of all lanes at most where some ranks stand for the others.
constexpr uint64_t kMostStepsOfSome = 9'000;
/// Schedules of levels take long to build for every rank: each looks at all others.
constexpr int kMostRanksOfLevels = 128;
constexpr int kPassesOfFew = 3;
/// Where not all wait for all, senders run ahead, and it takes more calls until a row of them is steady.
constexpr int kPassesOfRooted = 8;
/// Schedules that are the same for all sizes are built for this one.
constexpr size_t kUsualBytes = size_t{1} << 20;

/// What a schedule touches inside a host beside the buffers.
FurtherMemory furtherMemory(const sim::Bound& bound, const PlanRequest& r, double chunkBytes) {
  const double share = ranksOfNode(r.shape) / static_cast<double>(bound.roles.programs.size());
  const sim::NearEndpoints& all = bound.nearEndpoints;
  const sim::NearEndpoints near{share * all.answered, share * all.streams, share * all.read};
  return {sim::roomBytes(near, std::min(chunkBytes, static_cast<double>(r.shape.slotBytes))),
          sim::readBytes(near, chunkBytes, footprint(r))};
}

/// As a communicator rewrites them for the protocol.
std::vector<Schedule> rewritten(std::vector<Schedule> all, Protocol protocol) {
  for (Schedule& s : all) s = protocol == Protocol::Direct ? fuseForDirect(s) : fuse(s);
  if (protocol == Protocol::Direct) all = markDirect(all);
  return all;
}

double chunkPerByte(const Schedule& schedule) {
  return sim::chunkBytesOf(schedule, kUsualBytes) / kUsualBytes / schedule.nChannels;
}

/// In a call of so many elements, one for each of the first chunks.
bool hasEmptyChunks(const Schedule& schedule, size_t elements) {
  return schedule.nChannels == 1 && elements < static_cast<size_t>(schedule.nChunks);
}

/// The nearest of the sizes that are estimated, eight an octave: those between cost what lies between.
std::pair<size_t, size_t> sizesAround(size_t bytes) {
  constexpr size_t kSteps = 8;
  if (bytes <= 2 * kSteps) return {bytes, bytes};
  const size_t step = std::bit_floor(bytes) / kSteps;
  const size_t least = bytes / step * step;
  return {least, least == bytes ? least : least + step};
}

/// Shape::messageBytes of schedules for calls of `bytes` that are to have as many chunks in a message as those of the
/// request.  Of many ranks they are built for powers of two of that only, as building them takes long.
size_t messageBytesFor(const PlanRequest& r, size_t bytes) {
  // A step moves at most all blocks to one rank; a vector is one, and its chunks may be rounded up.
  const double most = 2.0 * r.shape.nRanks * r.shape.nRanks;
  double ratio =
      std::min(most, static_cast<double>(r.joinBytes) / static_cast<double>(std::max<size_t>(1, r.shape.bytes)));
  if (r.shape.nRanks > kMostRanksRewritten) ratio = std::exp2(std::floor(std::log2(ratio)));
  return static_cast<size_t>(ratio * static_cast<double>(bytes));
}

double slicesOf(double chunkBytes, size_t slotBytes) {
  return std::max(1.0, std::ceil(chunkBytes / static_cast<double>(std::max<size_t>(1, slotBytes))));
}

bool isFew(const sim::Bound& bound) { return bound.roles.places.size() <= kMostRanksRewritten; }

bool oneLevel(const PlanRequest& r) {
  if (r.levels != nullptr) return r.levels->size() == 1;
  return r.shape.nodeOf.empty();
}

/// About how many steps all ranks have, by the schedules of a few.
uint64_t stepsOfAll(const sim::ProgramSource& source) {
  const int n = source.shape.nRanks;
  uint64_t most = 0, all = 0;
  Shape shape = source.shape;
  const int some[] = {0, 1, n / 3, n / 2, n - 1};
  for (const int rank : some) {
    shape.rank = rank;
    uint64_t ops = 0;
    for (const Lane& lane : source.build(shape).lanes) ops += lane.ops.size();
    most = std::max(most, ops);
    all += ops;
  }
  return most + (all - most) / (std::size(some) - 1) * static_cast<uint64_t>(n);  // one rank may be the root
}

/// More have a rank's core look at more endpoints.
constexpr int kMostHostChannels = 4;

/// How many channels a plan has that start apart, for algorithms with levels between hosts; 1: they do not.
int levelChannels(const PlanRequest& r, const Variant& way, double chunkBytes) {
  const bool levels = r.links.inter && ranksOfNode(r.shape) > 1 && way.algorithm.hasLevels();
  if (!levels || r.device != nullptr || way.joined) return 1;
  const auto chunk = static_cast<size_t>(chunkBytes);
  const int asked = r.overrides.nChannels;
  const int channels = asked > 0 ? asked : channelsApart(chunk, std::min(kMostHostChannels, r.mostChannels));
  return startsApart(chunk, channels, r.shape.slotBytes) ? channels : 1;
}

Status tooMuch(const Algorithm& a) {
  return invalidArgument(ErrorCode::NotSimulated, a.name, " has too many steps to be estimated");
}

/// The same request on hosts that have all as many ranks as the fullest, in order: what stands for uneven hosts where
/// there are too many ranks to estimate them all.
struct Evened {
  Shape shape;
  sim::Levels levels;
};
Evened evened(const PlanRequest& r, const Shape& shape) {
  Evened even{shape, {}};
  const int nodes = *std::max_element(shape.nodeOf.begin(), shape.nodeOf.end()) + 1;
  const int perNode = static_cast<int>(ranksOfNode(shape));
  even.shape.nRanks = nodes * perNode;
  even.shape.nodeOf.clear();
  even.shape.inner.clear();
  std::vector<int> alone;
  for (int rank = 0; rank < even.shape.nRanks; ++rank) {
    even.shape.nodeOf.push_back(rank / perNode);
    alone.push_back(rank);
  }
  // All ranks of a host are then as far from each other as its levels let some be.
  const size_t levels = levelsOf(r).groupOf.size();
  even.levels.groupOf.assign(levels, alone);
  if (levels > 0) even.levels.groupOf.back() = even.shape.nodeOf;
  return even;
}

/// In a row of calls with a root ranks run ahead of each other, which those of programs do less: their data is new in
/// each call, and they meet.
double waitedForIn(const PlanRequest& r) {
  constexpr double kOfRootedInMemory = 0.5;
  const bool inMemory = !r.links.inter && r.links.intra && !r.links.intra->systemCalls;
  return isRooted(r.shape.collective) && inMemory ? kOfRootedInMemory : kWaitedFor;
}

}  // namespace

size_t fewElements(const PlanRequest& r) {
  constexpr size_t kMost = 4 * kMostRanksOfFew;  // no algorithm divides so little into more chunks
  const bool divided = isOneVector(r.shape.collective) && r.elementBytes > 0;
  if (!divided || r.shape.nRanks > kMostRanksOfFew) return kManyElements;
  const size_t elements = std::max<size_t>(1, r.shape.bytes / r.elementBytes);
  return elements < kMost ? elements : kManyElements;
}

Result<CostEstimate> priceOf(const sim::Bound& bound, const sim::Prices& prices, double chunkBytes, const Shape& shape,
                             double waitedFor, int apart) {
  const auto chunk = static_cast<size_t>(chunkBytes);
  const double slices =
      slicesOf(chunkBytes, apart > 1 ? staggeredBytes(chunk, apart, shape.slotBytes) : shape.slotBytes);
  const bool few = isFew(bound);
  const int passes = few ? (isRooted(shape.collective) ? kPassesOfRooted : kPassesOfFew) : slices > 1 ? 2 : 1;
  TUTTI_ASSIGN(const sim::Estimate once, sim::estimate(bound, prices, chunkBytes / slices, passes));
  const double period = std::max({apart > 1 ? 0 : once.nextUs, once.busyUs, once.wireUs});
  const double alone = once.firstUs + (slices - 1) * period;
  // Many ranks seldom go in step.
  const double us = few ? waitedFor * alone + (1 - waitedFor) * slices * period : alone;
  return CostEstimate{us, slices * once.busyUs, slices * once.wireUs};
}

CostEstimate leastPriceOf(const sim::Bound& bound, const sim::Prices& prices, double chunkBytes, size_t slotBytes) {
  const double slices = slicesOf(chunkBytes, slotBytes);
  const sim::Load load = sim::loadOf(bound, prices, chunkBytes / slices);
  const double us = slices * std::max(load.busyUs, load.wireUs);
  constexpr double kRounding = 1e-9;
  return {us * (1 - kRounding), slices * load.busyUs, slices * load.wireUs};
}

Result<std::shared_ptr<const Estimates::Programs>> Estimates::build(const PlanRequest& r, const Algorithm& a,
                                                                    Rewrite rewrite, const Shape& shape,
                                                                    size_t elements) const {
  auto programs = std::make_shared<Programs>();
  programs->bytes = shape.bytes;
  sim::ProgramOptions options{.asTheyAre = false, .sliceBytes = 0};
  // Programs mostly scatter and broadcast in place.
  options.freeHomeCopies = isRooted(shape.collective);
  Shape own = shape;
  own.rank = 0;
  if (shape.nRanks <= kMostRanksRewritten || elements != kManyElements) {
    if (shape.nRanks > kMostRanksRewritten && stepsOfAll({.build = a.build, .shape = shape}) > mostSteps_)
      return invalidArgument(ErrorCode::NotSimulated, "its schedules have too many steps");
    std::vector<Schedule> all;
    for (own.rank = 0; own.rank < shape.nRanks; ++own.rank) all.push_back(a.build(own));
    programs->chunkPerByte = sim::chunkBytesOf(all[0], shape.bytes) / static_cast<double>(shape.bytes);
    programs->nChunks = all[0].nChunks;
    all = rewritten(std::move(all), rewrite == Rewrite::Direct ? Protocol::Direct : Protocol::Slots);
    if (hasEmptyChunks(all[0], elements)) {
      programs->chunkPerByte = 1 / static_cast<double>(elements);
      all = skipEmpty(all, elements);
    }
    if (rewrite == Rewrite::Published) {
      for (Schedule& s : all) s = publish(s);
    }
    options.asTheyAre = true;
    TUTTI_ASSIGN(sim::Roles roles, sim::rolesOf(all, shape, options));
    programs->bound = sim::bind(std::move(roles), levelsOf(r));
    return std::shared_ptr<const Programs>(std::move(programs));
  }
  Evened even{shape, levelsOf(r)};
  const bool alike = oneLevel(r);
  if (!alike && sim::ranksPerNode(shape) == 0) even = evened(r, shape);
  if (!a.supports(even.shape))
    return invalidArgument(ErrorCode::NotSimulated, a.name, " is not for hosts of as many ranks each");
  options.bundled = true;
  options.freeHomeCopies = true;  // most are fused with what follows
  options.allDirect = rewrite == Rewrite::Direct;
  sim::ProgramSource source{
      .name = a.name, .build = a.build, .shape = even.shape, .options = options, .switchesUs = {}};
  source.together = alike ? 1 : 0;
  source.checked = 1;
  source.symmetryOnly = true;
  if (a.grid != nullptr) source.grid = a.grid(even.shape);
  auto roles = sim::classRoles(source);
  if (!roles.ok()) {
    const bool levels = a.chooseParts != nullptr && shape.nRanks > kMostRanksOfLevels;
    if (levels || stepsOfAll(source) > mostSteps_)
      return invalidArgument(ErrorCode::NotSimulated, "its schedules have too many steps");
    roles = sim::allRoles(source);
  }
  TUTTI_TRY(asStatus(roles));
  programs->nChunks = a.build(own).nChunks;
  programs->chunkPerByte = roles->programs.front()->chunkBytes / static_cast<double>(shape.bytes);
  programs->bound = sim::bind(std::move(*roles), even.levels);
  return std::shared_ptr<const Programs>(std::move(programs));
}

Result<std::shared_ptr<const Estimates::Programs>> Estimates::find(const PlanRequest& r, const Variant& way,
                                                                   Rewrite rewrite, size_t elements) {
  const Algorithm& a = way.algorithm;
  Shape shape = r.shape;
  shape.root = 0;
  shape.parts = way.parts;
  shape.bytes = a.sizeMatters ? std::max<size_t>(1, shape.bytes) : kUsualBytes;
  if (way.joined) shape.messageBytes = messageBytesFor(r, shape.bytes);
  const Built key{&a, rewrite, way.parts, shape.commutative, shape.messageBytes, elements};
  if (const auto known = known_.find(key); known != known_.end() && known->second->bytes == shape.bytes)
    return known->second;
  const auto refused = refused_.find(key);
  if (refused != refused_.end() && refused->second == shape.bytes) return tooMuch(a);
  auto built = build(r, a, rewrite, shape, elements);
  if (!built.ok()) {
    refused_[key] = shape.bytes;
    return tooMuch(a);
  }
  return known_[key] = std::move(*built);
}

Estimates::Rewrite Estimates::Asked::rewrite() const {
  if (publishes(request, way.algorithm, bytes)) return Rewrite::Published;
  const bool direct = way.protocol == Protocol::Direct && request.shape.nRanks <= kMostRanksDirect;
  return direct ? Rewrite::Direct : Rewrite::Fused;
}

Estimates::Ready Estimates::priced(const PlanRequest& r, const Calibration& c, Protocol protocol,
                                   std::shared_ptr<const Programs> programs, double chunkBytes) {
  const sim::Bound& bound = programs->bound;
  Ready ready{std::move(programs), {}, chunkBytes, r.shape};
  ready.waitedFor = waitedForIn(r);
  if (onDevices(r)) {
    const DevicePrices on = devicePrices(r, protocol, bound, chunkBytes);
    ready.prices = on.prices;
    ready.shape = on.shape;
    ready.callUs = on.callUs;
    ready.leastUs = on.leastUs;
    ready.lanes = on.lanes;
    ready.waitedFor = on.waitedFor;
    return ready;
  }
  ready.prices = pricesOf(r, c, protocol, furtherMemory(bound, r, chunkBytes));
  if (r.device != nullptr) {
    ready.callUs = r.device->callUs;
    ready.waitedFor = r.device->waitedFor;
  }
  return ready;
}

Result<CostEstimate> Estimates::Ready::cost() const {
  TUTTI_ASSIGN(CostEstimate cost, priceOf(programs->bound, prices, chunkBytes, shape, waitedFor, apart));
  cost.workUs = std::max(cost.workUs, leastUs);
  cost.us = std::max(cost.us, leastUs) + callUs;
  cost.lanes = lanes;
  return cost;
}

CostEstimate Estimates::Ready::atLeast() const {
  CostEstimate cost = leastPriceOf(programs->bound, prices, chunkBytes, shape.slotBytes);
  cost.workUs = std::max(cost.workUs, leastUs);
  cost.us = std::max(cost.us, leastUs) + callUs;
  cost.lanes = lanes;
  return cost;
}

Result<Estimates::Ready> Estimates::readyOf(const Asked& asked) {
  PlanRequest at = asked.request;
  at.shape.bytes = asked.bytes;
  TUTTI_ASSIGN(std::shared_ptr<const Programs> programs, find(at, asked.way, asked.rewrite(), kManyElements));
  const size_t elements = fewElements(asked.request);
  if (elements < static_cast<size_t>(programs->nChunks)) {
    auto left = find(at, asked.way, asked.rewrite(), elements);
    if (left.ok()) programs = std::move(*left);
  }
  const double chunkBytes = programs->chunkPerByte * static_cast<double>(asked.bytes);
  Ready ready = priced(at, asked.calibration, asked.way.protocol, std::move(programs), chunkBytes);
  ready.apart = levelChannels(at, asked.way, chunkBytes);
  ready.lanes = std::max(ready.lanes, ready.apart);
  if (ready.programs->bound.roles.classes && (oneLevel(at) || at.links.nodesShareCores))
    ready.prices.stretch = std::max(1.0, at.links.ranksPerCore);
  return ready;
}

Result<CostEstimate> Estimates::estimateOf(const Asked& asked) {
  const Priced key = asked.key();
  if (const auto known = priced_.find(key); known != priced_.end()) return known->second;
  TUTTI_ASSIGN(const Ready ready, readyOf(asked));
  TUTTI_ASSIGN(const CostEstimate cost, ready.cost());
  priced_[key] = cost;
  return cost;
}

Result<CostEstimate> Estimates::leastOf(const Asked& asked) {
  if (priced_.contains(asked.key())) return estimateOf(asked);
  TUTTI_ASSIGN(const Ready ready, readyOf(asked));
  return ready.atLeast();
}

Result<CostEstimate> Estimates::between(Asked asked, const std::function<Result<CostEstimate>(const Asked&)>& costOf) {
  const size_t bytes = asked.bytes;
  const auto [least, most] = sizesAround(bytes);
  const bool few = asked.request.shape.nRanks <= kMostRanksRewritten;
  asked.bytes = few || bytes - least < most - bytes ? least : most;
  TUTTI_ASSIGN(const CostEstimate lower, costOf(asked));
  if (!few || least == most) return lower;
  asked.bytes = most;
  TUTTI_ASSIGN(const CostEstimate upper, costOf(asked));
  const double part = static_cast<double>(bytes - least) / static_cast<double>(most - least);
  return CostEstimate{std::lerp(lower.us, upper.us, part), std::lerp(lower.workUs, upper.workUs, part),
                      std::lerp(lower.wireUs, upper.wireUs, part), upper.lanes};
}

Result<CostEstimate> Estimates::cost(const PlanRequest& r, const Calibration& c, const Variant& way) {
  const std::lock_guard lock(mutex_);
  return between({r, c, way, r.shape.bytes}, [this](const Asked& asked) { return estimateOf(asked); });
}

Result<CostEstimate> Estimates::atLeast(const PlanRequest& r, const Calibration& c, const Variant& way, bool* known) {
  const std::lock_guard lock(mutex_);
  *known = true;
  return between({r, c, way, r.shape.bytes}, [&](const Asked& asked) {
    *known = *known && priced_.contains(asked.key());
    return leastOf(asked);
  });
}

Estimates* Estimates::ofFirst(int nRanks) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Estimates>& first = firsts_[nRanks];
  if (first == nullptr) first = std::make_unique<Estimates>(kMostStepsOfSome);
  return first.get();
}

Result<CostEstimate> Estimates::cost(const PlanRequest& r, const Calibration& c, const ReadyPlan& ready,
                                     Protocol protocol) {
  std::vector<Schedule> all = rewritten(*ready.outOfPlace, protocol);
  double chunkShare = chunkPerByte(all.front());
  if (const size_t elements = fewElements(r); hasEmptyChunks(all.front(), elements)) {
    chunkShare = 1 / static_cast<double>(elements);
    all = skipEmpty(all, elements);
  }
  TUTTI_ASSIGN(
      sim::Roles roles,
      sim::rolesOf(all, r.shape, {.asTheyAre = true, .sliceBytes = 0, .freeHomeCopies = isRooted(r.shape.collective)}));
  const double chunk = chunkShare * static_cast<double>(r.shape.bytes);
  auto programs = std::make_shared<Programs>();
  programs->bound = sim::bind(std::move(roles), levelsOf(r));
  return priced(r, c, protocol, std::move(programs), chunk).cost();
}

}  // namespace tutti

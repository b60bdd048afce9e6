#include "tools/cluster/simulate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "src/cost/linear_cost.hpp"
#include "src/schedule/stagger.hpp"
#include "src/sim/memory.hpp"
#include "tools/cluster/machine_defaults.hpp"

namespace tutti::sim {
namespace {

Result<Roles> rolesFor(const Network& network, const Task& task, Detail detail) {
  const bool few = network.cluster().nRanks() <= kMostRanksInDetail;
  if (detail == Detail::Ranks || (detail == Detail::Auto && few)) return allRoles(network, task);
  auto roles = classRoles(network, task);
  if (roles.ok() || detail == Detail::Classes) return roles;
  return allRoles(network, task);
}

/// Bytes that ranks read and write of their own memory in a call, counted as often as they do: more than there are
/// where an algorithm sends on what it has received.
double touchedBytes(const Roles& roles, double chunkBytes) {
  double chunks = 0;
  for (size_t m = 0; m < roles.programs.size(); ++m) {
    double own = 0;
    for (const LaneProgram& lane : *roles.programs[m]->lanes) {
      for (const Step& step : lane.steps) {
        own += step.nTo > 0 ? double{step.chunks} * (1 + step.nTo) : 0;  // read here once, written by each receiver
        own += double{step.reduced} + 2 * double{step.copied};
      }
    }
    chunks += own * static_cast<double>(roles.nRanksOf[m]);
  }
  return chunks * chunkBytes;
}

/// How much slower than near memory what is touched is on average, where far memory has `part` of the near rate: it is
/// as far as the whole call's the first time, and again as far as one loop's.
double farPart(double part, double first, double farFirst, double farAgain) {
  return 1 / (first / std::pow(part, farFirst) + (1 - first) / std::pow(part, farAgain));
}

/// Memory that is far from cores slows down what ranks copy and combine themselves.
void slowDown(const Cluster& c, const Roles& roles, const Shape& shape, double loopBytes, Job* job) {
  if (c.farCopy >= 1 && c.farReduce >= 1) return;
  const double hosts = static_cast<double>(roles.firstOf.size() - 1);
  const NearEndpoints all = nearEndpointsOf(roles);
  const double room = roomBytes({all.answered / hosts, all.streams / hosts}, loopBytes);
  const double footprint = footprintOf(shape, c.ranksPerNode);
  const double touched = touchedBytes(roles, job->chunkBytes * job->nChannels) / hosts;
  const double first = std::min(1.0, footprint / std::max(1.0, touched));
  const double far = farness(footprint + room, c.nearBytes, c.farBytes);
  const double ofLoop = footprint * loopBytes / std::max(1e-9, job->chunkBytes);
  const double again = farness(ofLoop + room, c.nearBytes, c.farBytes);
  const double copy = farPart(c.farCopy, first, far, again);
  job->prices.copyUsPerByte /= copy;
  job->prices.reduceUsPerByte /= farPart(c.farReduce, first, far, again);
  for (ProtocolSpec& p : job->near) {
    p.copyGBps *= copy;
    p.gatherGBps *= copy;
  }
}

constexpr int64_t kMostMessages = 2'000'000;  // beyond, a second less matters more than a loop more

int loopsWithin(const Job& job) {
  int64_t perLoop = 1;
  for (const auto& lanes : job.lanes) {
    for (const MemberLane& lane : lanes) perLoop += static_cast<int64_t>(lane.steps().peers.size()) / 2;
  }
  return static_cast<int>(std::clamp<int64_t>(kMostMessages / perLoop, 2, 1 << 20));
}

/// Of an algorithm with levels, channels may start apart, and have a slice more than they would have in step.
struct Channels {
  int number = 1;
  bool staggered = false;
  double sliceBytes = 0;  // at most
};

/// What the way between nodes carries while a message is begun: with smaller slices a lane is busier than the way.
size_t leastApart(const Network& network) {
  const Cluster& c = network.cluster();
  double overheadUs = c.far.front().overheadUs;
  for (const ProtocolSpec& p : c.far) overheadUs = std::min(overheadUs, p.overheadUs);
  const auto way = network.route({0, 0}, {1, 0});
  const double bytes = way.ok() ? std::min(way->mostGBps * overheadUs * 1e3, double{kLeastStaggeredBytes}) : 0;
  constexpr size_t kFewest = 8192;
  return std::clamp(std::bit_ceil(static_cast<size_t>(bytes)), kFewest, kLeastStaggeredBytes);
}

/// Whether channels of a task could start apart, by the size of its chunks.
bool mayStartApart(const Network& network, const Task& task, int asked) {
  if (network.cluster().nodes < 2 || asked == 1) return false;
  if (task.algorithm == nullptr || task.schedules != nullptr || !task.algorithm->hasLevels()) return false;
  const std::vector<Place> places = placesOf(network.cluster(), task);
  if (places.empty() || places.front().node == places.back().node) return false;
  const Shape shape = shapeOf(task, places, task.bytes);
  if (!task.algorithm->supports(shape)) return false;
  const double chunk = chunkBytesOf(task.algorithm->build(shape), task.bytes);
  return asked > 1 || channelsApart(static_cast<size_t>(chunk), kChannelsApart, leastApart(network)) > 1;
}

/// How channels may start apart.  Smaller slices fill and empty the levels sooner, and wait for more messages; so do
/// more channels.  Empty: chunks are too small.
std::vector<Channels> apartOf(const Network& network, const Task& task, const Roles& roles, int asked) {
  const auto chunk = static_cast<size_t>(roles.programs.front()->chunkBytes);
  const auto slot = static_cast<size_t>(task.options.sliceBytes);
  const size_t usual = leastApart(network), small = usual / 2;
  const int ports = channelsFor(roles);
  std::vector<Channels> all;
  const auto add = [&](int number, size_t least) {
    if (!startsApart(chunk, number, slot, least)) return;
    const Channels way{number, true, static_cast<double>(staggeredBytes(chunk, number, slot, least))};
    const auto same = [&](const Channels& c) { return c.number == way.number && c.sliceBytes == way.sliceBytes; };
    if (std::ranges::none_of(all, same)) all.push_back(way);
  };
  for (const int most : {kChannelsApart, 2 * kChannelsApart}) {
    for (const size_t least : {usual, small}) {
      const int number = asked > 0 ? asked : std::max(ports, channelsApart(chunk, most, least));
      add(number, usual);
      add(number, small);
    }
  }
  return all;
}

/// Ways of a call inside a node beside one channel with slices as described; none where chunks are too small.
std::vector<Channels> waysOfMachine(const Network& network, const Roles& roles) {
  const Cluster& c = network.cluster();
  MachineDefaults machine = defaultsOf(c.machine);
  if (c.mostChannels > 0) machine.channels = c.mostChannels;
  const double chunk = roles.programs.front()->chunkBytes;
  const double parts = c.packetBytes > 0 ? std::ceil(chunk / c.packetBytes) : chunk / kLeastOfChannel;
  const int worth = static_cast<int>(std::min(parts, double{1 << 10}));
  std::vector<Channels> ways;
  const auto add = [&](int number, double slice) {
    const Channels way{std::max(1, std::min(number, worth)), false, slice};
    if (way.number == 1 && (slice == c.sliceBytes || chunk <= c.sliceBytes)) return;
    if (slice > c.sliceBytes && chunk / way.number <= c.sliceBytes) return;  // as with the smaller one
    const auto same = [&](const Channels& w) { return w.number == way.number && w.sliceBytes == slice; };
    if (std::ranges::none_of(ways, same)) ways.push_back(way);
  };
  for (const double slice : {c.sliceBytes, c.sliceGiven ? c.sliceBytes : machine.sliceBytes}) {
    for (const int number : {1, machine.channels / 4, machine.channels}) add(number, slice);
  }
  return ways;
}

/// Calls in a row: what one adds once they are under way.
Status runRow(const SimOptions& options, double loopBytes, Outcome* o) {
  TUTTI_ASSIGN(o->run, runFair(o->job, options.calls * o->loopsRun, o->loopsRun, loopBytes, options.record));
  TUTTI_ASSIGN(const Run first, runFair(o->job, o->loopsRun, o->loopsRun, loopBytes, false));
  const double perCall = (o->run.end - first.end) / (options.calls - 1), launchUs = o->job.prices.launchUs;
  o->us = launchUs + (perCall - launchUs) * o->loops / o->loopsRun;
  return {};
}

Result<Outcome> simulateBy(const Network& network, const Task& task, const SimOptions& options, const Roles& roles,
                           const Channels& channels) {
  Outcome outcome;
  outcome.classes = roles.classes;
  outcome.channels = channels.number;
  TUTTI_ASSIGN(outcome.job, bindJob(network, roles, channels.number, channels.staggered));
  outcome.job.protocol = options.protocol;
  outcome.members = outcome.job.nMembers();
  // With a part of the bytes each, channels need fewer loops.
  const double chunkBytes = outcome.job.chunkBytes;
  const int slices = std::max(1, static_cast<int>((chunkBytes - 1e-6) / channels.sliceBytes) + 1);
  const int more = channels.staggered ? 1 : 0;
  outcome.loops = slices + more;
  const double loopBytes = chunkBytes / slices;
  outcome.loopsRun = std::min({slices, std::max(2, options.mostLoops), loopsWithin(outcome.job)}) + more;
  outcome.shareRun = options.calls * static_cast<double>(outcome.loopsRun - more) / slices;
  slowDown(network.cluster(), roles, shapeOf(task, roles.places, task.bytes), loopBytes, &outcome.job);
  if (options.calls > 1) {
    TUTTI_TRY(runRow(options, loopBytes, &outcome));
    return outcome;
  }
  TUTTI_ASSIGN(outcome.run, runFair(outcome.job, outcome.loopsRun, outcome.loopsRun, loopBytes, options.record));
  outcome.us = outcome.run.end;
  if (outcome.loopsRun < outcome.loops) {
    // A pipeline that is full goes on at an even pace.
    const int before = outcome.loopsRun / 2 + more;
    TUTTI_ASSIGN(const Run shorter, runFair(outcome.job, before, before, loopBytes, false));
    const double perLoop = (outcome.run.end - shorter.end) / (outcome.loopsRun - before);
    outcome.us += perLoop * (outcome.loops - outcome.loopsRun);
  }
  return outcome;
}

}  // namespace

double Outcome::load(size_t link) const {
  const double most = job.capacities[link] * 1e3 * us;
  return most > 0 ? run.linkBytes[link] / shareRun / most : 0;
}

Result<Outcome> simulate(const Network& network, const Task& task, const SimOptions& options) {
  std::optional<Outcome> best;
  int64_t messages = 0;
  const auto compare = [&](const Task& as, const Roles& roles, const Channels& channels) -> Status {
    constexpr int64_t kMany = 2'000'000;  // then what there is has to do
    if (best && messages > kMany) return {};
    TUTTI_ASSIGN(Outcome outcome, simulateBy(network, as, options, roles, channels));
    messages += outcome.run.messages;
    if (!best || outcome.us < best->us) best = std::move(outcome);
    return {};
  };
  const double slot = task.options.sliceBytes;
  bool joins = true;
  if (mayStartApart(network, task, options.channels)) {
    // A message of several chunks is not cut, so every chunk goes for itself.  What a step sends to one rank is taken
    // together all the same, for nodes to be alike.
    Task single = task;
    single.joined = false;
    single.options.bundled = true;
    TUTTI_ASSIGN(const Roles roles, rolesFor(network, single, options.detail));
    for (const Channels& channels : apartOf(network, single, roles, options.channels)) {
      TUTTI_TRY(compare(single, roles, channels));
    }
    joins = task.joined && 2 * roles.programs.front()->chunkBytes <= slot;
  }
  if (!best || (options.channels == 0 && joins)) {
    TUTTI_ASSIGN(const Roles roles, rolesFor(network, task, options.detail));
    const int number = options.channels > 0 ? options.channels : channelsFor(roles);
    TUTTI_TRY(compare(task, roles, {number, false, slot}));
    if (!options.asMachine || options.channels > 0 || network.cluster().nodes > 1) return std::move(*best);
    for (const Channels& way : waysOfMachine(network, roles)) {
      Task as = task;
      as.options.sliceBytes = way.sliceBytes;
      TUTTI_ASSIGN(const Roles other, rolesFor(network, as, options.detail));
      TUTTI_TRY(compare(as, other, way));
    }
  }
  return std::move(*best);
}

double busGBps(Collective collective, double bytes, int nRanks, double us) {
  const double n = nRanks;
  if (us <= 0) return 0;
  double share = n - 1;  // of one rank's block
  if (isOneVector(collective)) share = goesBothWays(collective) ? 2 * (n - 1) / n : 1;
  return bytes * share / (us * 1e3);
}

}  // namespace tutti::sim

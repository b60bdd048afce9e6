#include "src/sim/simulate.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

Result<Roles> rolesFor(const Network& network, const Task& task, Detail detail) {
  const bool few = network.cluster().nRanks() <= kMostRanksInDetail;
  if (detail == Detail::Ranks || (detail == Detail::Auto && few)) return allRoles(network, task);
  auto roles = classRoles(network, task);
  if (roles.ok() || detail == Detail::Classes) return roles;
  return allRoles(network, task);
}

constexpr int64_t kMostMessages = 2'000'000;  // beyond, a second less matters more than a loop more

int loopsWithin(const Job& job) {
  int64_t perLoop = 1;
  for (const auto& lanes : job.lanes) {
    for (const JobLane& lane : lanes) perLoop += static_cast<int64_t>(lane.steps().peers.size()) / 2;
  }
  return static_cast<int>(std::clamp<int64_t>(kMostMessages / perLoop, 2, 1 << 20));
}

}  // namespace

double Outcome::load(size_t link) const {
  const double most = job.capacities[link] * 1e3 * toUs(run.end);
  return most > 0 ? run.linkBytes[link] / most : 0;
}

Result<Outcome> simulate(const Network& network, const Task& task, const SimOptions& options) {
  TUTTI_ASSIGN(const Roles roles, rolesFor(network, task, options.detail));
  Outcome outcome;
  outcome.classes = roles.classes;
  outcome.channels = options.channels > 0 ? options.channels : channelsFor(roles);
  TUTTI_ASSIGN(outcome.job, bindJob(network, roles, outcome.channels));
  outcome.job.protocol = options.protocol;
  outcome.members = outcome.job.nMembers();
  // With a part of the bytes each, channels need fewer loops.
  const double chunkBytes = outcome.job.chunkBytes;
  outcome.loops = std::max(1, static_cast<int>((chunkBytes - 1e-6) / task.options.sliceBytes) + 1);
  const double loopBytes = chunkBytes / outcome.loops;
  outcome.loopsRun = std::min({outcome.loops, std::max(2, options.mostLoops), loopsWithin(outcome.job)});
  TUTTI_ASSIGN(outcome.run, Engine(outcome.job).run(outcome.loopsRun, loopBytes, options.record));
  outcome.us = toUs(outcome.run.end);
  if (outcome.loopsRun < outcome.loops) {
    // A pipeline that is full goes on at an even pace.
    const int before = outcome.loopsRun / 2;
    TUTTI_ASSIGN(const Run shorter, Engine(outcome.job).run(before, loopBytes, false));
    const double perLoop = toUs(outcome.run.end - shorter.end) / (outcome.loopsRun - before);
    outcome.us += perLoop * (outcome.loops - outcome.loopsRun);
  }
  return outcome;
}

double busGBps(Collective collective, double bytes, int nRanks, double us) {
  const double n = nRanks;
  if (us <= 0) return 0;
  double moved = bytes;
  switch (collective) {
    case Collective::AllReduce: moved = bytes * 2 * (n - 1) / n; break;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Gather:
    case Collective::Scatter: moved = bytes * (n - 1); break;  // bytes is one rank's block
    default: break;
  }
  return moved / (us * 1e3);
}

}  // namespace tutti::sim

#include "tools/info/plan_view.hpp"

#include <unistd.h>

#include "src/base/text.hpp"
#include "src/plan/planner.hpp"

namespace tutti {
namespace {

Result<LinkUse> linksOf(const PlanQuestion& q, int cores) {
  LinkUse links;
  const int perHost = (q.ranks + q.hosts - 1) / q.hosts;  // on the fullest one
  if (q.transport != "shm" && q.transport != "tcp") {
    return invalidUsage("--transport ", q.transport, ": inside a host there are shm and tcp");
  }
  if (perHost > 1) {
    links.intra = q.transport == "tcp" ? LinkKind::TcpLocal : q.threads ? LinkKind::ShmThreads : LinkKind::ShmProcesses;
  }
  if (q.hosts > 1) links.inter = LinkKind::TcpRemote;
  links.ranksPerCore = ranksPerCore(perHost, cores);
  return links;
}

/// The file's figures, else the built-in ones, and a word on which.
Calibration knownCosts(const MachineIdentity& machine, std::string* origin) {
  const std::string path = calibrationPath(machine);
  if (!path.empty()) {
    if (auto kept = readCalibration(path, machine); kept.ok()) {
      *origin = "costs measured on this machine: " + path;
      return *kept;
    }
  }
  *origin = "built-in costs: no calibration of this machine yet, the first communicator makes one";
  return defaultCalibration(machine);
}

}  // namespace

Result<std::string> explainPlan(const PlanQuestion& q) {
  PlanRequest request;
  Shape& shape = request.shape;
  if (!parseCollective(q.collective, &shape.collective)) {
    std::string names;
    for (int i = 0; i < kNumCollectives; ++i)
      names += cat(i == 0 ? "" : ", ", collectiveKey(static_cast<Collective>(i)));
    return invalidUsage("--plan ", q.collective, ": the collectives are ", names);
  }
  if (!parseBytes(q.bytes, &shape.bytes))
    return invalidUsage("--bytes ", q.bytes, " is not a size such as 8, 64K or 1M");
  if (q.ranks < 1 || q.ranks > 1 << 20) return invalidUsage("--ranks ", q.ranks, ": 1 to 1048576");
  if (q.hosts < 1 || q.hosts > q.ranks) return invalidUsage("--hosts ", q.hosts, ": 1 to the number of ranks");
  if (shape.collective == Collective::Barrier) shape.bytes = 0;
  shape.nRanks = q.ranks;
  if (q.hosts > 1) {
    for (int rank = 0; rank < q.ranks; ++rank) {
      shape.nodeOf.push_back(static_cast<int>(int64_t{rank} * q.hosts / q.ranks));
    }
  }
  const MachineIdentity machine = thisMachine();
  TUTTI_ASSIGN(request.links, linksOf(q, q.cores > 0 ? q.cores : machine.cores));
  request.directPossible = q.direct && q.transport == "shm";
  request.mostChannels = 64;
  TUTTI_ASSIGN(request.overrides, overridesFromEnvironment());
  std::string origin;
  const Calibration calibration = knownCosts(machine, &origin);
  TUTTI_ASSIGN(const Choice choice, plan(request, calibration));
  return cat(explain(request, choice), origin, "\n");
}

}  // namespace tutti

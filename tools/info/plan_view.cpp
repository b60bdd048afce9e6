#include "tools/info/plan_view.hpp"

#include <unistd.h>

#include "src/base/nearest.hpp"
#include "src/base/text.hpp"
#include "src/comm/foreign_plans.hpp"
#include "src/plan/planner.hpp"
#include "tools/info/device_plan.hpp"
#include "tools/json.hpp"
#include "tools/topology/write.hpp"
#include "transport/table.hpp"

namespace tutti {
namespace {

/// A transport's kinds of links inside hosts, or between them; the faster ones first.
std::vector<LinkProfile> linksOf(const TransportEntry& entry, bool betweenHosts) {
  std::vector<LinkProfile> links;
  for (const LinkDescription& kind : entry.links) {
    if (kind.profile.betweenHosts == betweenHosts) links.push_back(kind.profile);
  }
  return links;
}

/// perHost: ranks of the fullest one.  Between hosts the transport that is asked for, if it is a network; else the one
/// that is listed last, which needs the least.
Result<LinkUse> linksOf(const PlanQuestion& q, int hosts, int perHost, int cores) {
  LinkUse links;
  std::vector<LinkProfile> inside;  // of the transport that is asked for
  std::string names;
  std::string_view network;  // whose link is links.inter
  for (const TransportEntry* entry : transports()) {
    const std::vector<LinkProfile> near = linksOf(*entry, false), far = linksOf(*entry, true);
    const bool asked = links.inter && network == q.transport;
    if (hosts > 1 && !far.empty() && !asked) {
      links.inter = far.back();
      network = entry->name;
    }
    if (near.empty()) continue;
    if (entry->name == q.transport || (q.transport.empty() && names.empty())) inside = near;
    names += cat(names.empty() ? "" : ", ", entry->name);
  }
  if (inside.empty()) return invalidUsage("--transport ", q.transport, ": inside a host there are ", names);
  if (perHost > 1) {
    links.process = inside.front();
    links.intra = q.threads ? inside.front() : inside.back();
  }
  links.ranksPerCore = ranksPerCore(perHost, cores);
  return links;
}

/// The file's figures, else the built-in ones, and a word on which.
Calibration knownCosts(const MachineIdentity& machine, std::string* origin) {
  const std::string path = calibrationPath(machine);
  if (!path.empty()) {
    if (auto kept = readCalibration(path, machine); kept.ok()) {
      (void)addMissing(linkKinds(), &*kept);
      *origin = "costs measured on this machine: " + path;
      return *kept;
    }
  }
  *origin = "built-in costs: no calibration of this machine yet, the first communicator makes one";
  return defaultCalibration(machine, linkKinds());
}

/// All ranks of a host alike near, in blocks.
Status placeAlike(const PlanQuestion& q, int cores, PlanRequest* request) {
  if (q.ranks < 1 || q.ranks > 1 << 20) return invalidUsage("--ranks ", q.ranks, ": 1 to 1048576");
  if (q.hosts < 1 || q.hosts > q.ranks) return invalidUsage("--hosts ", q.hosts, ": 1 to the number of ranks");
  request->shape.nRanks = q.ranks;
  for (int rank = 0; q.hosts > 1 && rank < q.ranks; ++rank) {
    request->shape.nodeOf.push_back(static_cast<int>(int64_t{rank} * q.hosts / q.ranks));
  }
  const int perHost = (q.ranks + q.hosts - 1) / q.hosts;
  TUTTI_ASSIGN(request->links, linksOf(q, q.hosts, perHost, q.cores > 0 ? q.cores : cores));
  return {};
}

/// Where the topology has the ranks; a line that says so.  Its ports say how fast hosts reach each other.
Result<std::string> placeOnTopology(const PlanQuestion& q, const DescribedJob& job, PlanRequest* request,
                                    MachineLevels* levels, Calibration* calibration) {
  const int cores = q.cores > 0 ? q.cores : job.cores > 0 ? job.cores : job.ranksPerHost;
  TUTTI_ASSIGN(request->links, linksOf(q, job.nHosts, job.ranksPerHost, cores));
  request->shape.nRanks = job.nRanks;
  if (job.nHosts > 1) request->shape.nodeOf = job.groups[static_cast<size_t>(topology::Level::Host)];
  request->shape.inner = topology::innerLevels(job.groups);
  *levels = machineLevels(job.graph, job.groups, request->links);
  request->levels = levels;
  std::string text = cat(job.nRanks, q.way.empty() ? " ranks on host memory: " : " ranks on GPUs: ", describe(*levels));
  for (const MachineLevel& level : *levels) {
    if (level.portGBps > 0)
      text += cat(", ", level.portGBps, " GB/s ", level.name == "host" ? "out of a socket" : "out of a host");
    if (level.name == "cluster" && level.portGBps > 0) {
      calibration->at(*request->links.inter, Protocol::Slots).cost.bandwidthGBps = level.portGBps;
    }
    if (level.name == "cluster" && level.portGBps == 0 && job.nHosts > 1) {
      text += cat(", ", calibration->at(*request->links.inter, Protocol::Slots).cost.bandwidthGBps,
                  " GB/s out of a host (this machine's: the topology tells no speeds of ports)");
    }
  }
  return text + "\n";
}

std::string jsonCandidate(const Candidate& c) {
  if (!c.excluded.empty()) {
    return cat("{\"algorithm\": ", jsonText(c.name()), ", \"excluded\": ", jsonText(c.excluded), "}");
  }
  return cat("{\"algorithm\": ", jsonText(c.name()), ", \"protocol\": ", jsonText(protocolName(c.protocol)),
             ", \"channels\": ", c.nChannels, ", \"us\": ", jsonNumber(c.costUs),
             ", \"work_us\": ", jsonNumber(c.workUs), ", \"wire_us\": ", jsonNumber(c.wireUs),
             ", \"joined\": ", jsonFlag(c.joined), ", \"tuned\": ", jsonFlag(c.tuned),
             ", \"at_least\": ", jsonFlag(c.atLeast), "}");
}

std::string jsonPlan(const PlanRequest& request, const Choice& choice, const std::string& origin) {
  std::vector<std::string> candidates;
  for (const Candidate& c : choice.table) candidates.push_back(jsonCandidate(c));
  return cat("{\"collective\": ", jsonText(collectiveKey(request.shape.collective)),
             ", \"bytes\": ", request.shape.bytes, ", \"ranks\": ", request.shape.nRanks,
             ", \"algorithm\": ", jsonText(choice.name()), ", \"protocol\": ", jsonText(protocolName(choice.protocol)),
             ", \"channels\": ", choice.nChannels, ", \"joined\": ", jsonFlag(choice.joined),
             ", \"us\": ", jsonNumber(choice.costUs), ", \"costs\": ", jsonText(origin),
             ", \"candidates\": ", jsonList(candidates), "}\n");
}

}  // namespace

Result<std::string> explainPlan(const PlanQuestion& q) {
  PlanRequest request;
  Shape& shape = request.shape;
  if (!parseCollective(q.collective, &shape.collective)) {
    return invalidUsage("--plan ", notACollective(q.collective));
  }
  if (!parseBytes(q.bytes, &shape.bytes))
    return invalidUsage("--bytes ", q.bytes, " is not a size such as 8, 64K or 1M");
  if (shape.collective == Collective::Barrier) shape.bytes = 0;
  const MachineIdentity machine = thisMachine();
  std::string origin;
  Calibration calibration = knownCosts(machine, &origin);
  MachineLevels levels;
  std::string where;
  std::optional<DescribedJob> job;
  if (q.topology.empty()) {
    TUTTI_TRY(placeAlike(q, machine.cores, &request));
  } else {
    TUTTI_ASSIGN(job, describeJob(q));
    TUTTI_ASSIGN(where, placeOnTopology(q, *job, &request, &levels, &calibration));
  }
  request.directPossible = q.direct && request.links.intra && request.links.intra->lends();
  DeviceCosts costs;
  if (!q.way.empty()) {
    TUTTI_ASSIGN(costs, devicesOf(q, job, shape.nRanks));
    planFor(costs, &request, &levels);
    origin = "costs of CUDA devices are published figures: src/cost/device_costs.cpp";
  }
  request.mostChannels = 64;
  request.wholeTable = true;
  const bool joins = request.device == nullptr || request.device->way != DeviceExecutor::Blocks;
  request.joinBytes = joins ? mostJoinedBytes(request.links, shape.slotBytes, request.device) : 0;
  TUTTI_ASSIGN(const ForeignPlans foreign, ForeignPlans::read(shape.nRanks));
  for (const std::string& why : foreign.refused()) where += cat("left out: ", why, "\n");
  TUTTI_ASSIGN(request.overrides, overridesFromEnvironment(foreign.names()));
  foreign.offer(&request);
  TUTTI_ASSIGN(const Choice choice, plan(request, calibration));
  if (q.json) return jsonPlan(request, choice, origin);
  return cat(where, explain(request, choice), origin, "\n", job ? topology::gaps(job->graph) : "");
}

}  // namespace tutti

#include "perf/oracle/cable.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "src/base/text.hpp"
#include "src/comm/handle.hpp"
#include "src/exec/plan.hpp"

namespace tutti::perf {
namespace {

double sentOver(const std::string& interface) {
  const std::string path = cat("/sys/class/net/", interface, "/statistics/tx_bytes");
  double bytes = 0;
  if (std::ifstream(path) >> bytes) return bytes;
  std::fprintf(stderr, "oracle: -i %s: cannot read %s\n", interface.c_str(), path.c_str());
  std::exit(1);
}

std::vector<double> summed(const Ranks& w, std::vector<double> values) {
  check(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat64, tuttiSum, w.comm, nullptr),
        "AllReduce");
  return values;
}

/// What this rank's plan, which the call has used before, sends to ranks of other hosts.
double plannedBytes(const Ranks& w, const Cell& cell, const Way& way, const std::vector<int>& hostOf) {
  Call call;
  call.kind = CallKind::Collective;
  call.collective = cell.collective;
  call.sendbuff = cell.collective == Collective::Broadcast ? cell.out : cell.in;
  call.recvbuff = cell.out;
  call.count = cell.count;
  call.dtype = tuttiFloat32;
  call.op = tuttiSum;
  auto comm = use(way.comm);
  auto entry = comm.ok() ? (*comm)->planner().plan(call) : comm.status();
  if (!entry.ok() || *entry == nullptr || (*entry)->plan == nullptr) return 0;
  double bytes = 0;
  for (const BoundLane& lane : (*entry)->plan->lanes) {
    for (const BoundOp& op : lane.ops) {
      for (const int to : op.toRanks) {
        const bool leaves = hostOf[static_cast<size_t>(to)] != hostOf[static_cast<size_t>(w.rank)];
        bytes += leaves ? static_cast<double>(op.bytes) : 0;
      }
    }
  }
  return bytes;
}

}  // namespace

CableBytes cableBytes(const Ranks& w, const Cell& cell, const Way& way, const std::string& interface) {
  // Barriers and heartbeats are counted as well: they have to be few beside the calls.
  constexpr size_t kEnough = 4 << 20, kMostCalls = 400;
  const size_t bytes = std::max<size_t>(1, cell.count * sizeof(float));
  const auto calls = static_cast<int>(std::clamp<size_t>(kEnough / bytes, 2, kMostCalls));
  auto comm = use(w.comm);
  if (!comm.ok()) std::exit(3);
  std::vector<int> hostOf = (*comm)->layout().nodes;
  if (hostOf.empty()) hostOf.assign(static_cast<size_t>(w.nRanks), 0);
  const auto here = static_cast<size_t>(hostOf[static_cast<size_t>(w.rank)]);
  const auto nHosts = static_cast<size_t>(*std::ranges::max_element(hostOf)) + 1;
  const auto ranksHere = static_cast<double>(std::ranges::count(hostOf, static_cast<int>(here)));

  std::vector<double> counted(nHosts), planned(nHosts);
  check(cell.run(way.comm), "call");  // its plan is there, and memory that is exchanged once
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  const double before = sentOver(interface);
  check(tuttiBarrier(w.comm, nullptr), "Barrier");  // nobody begins before all have looked
  for (int i = 0; i < calls; ++i) check(cell.run(way.comm), "call");
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  counted[here] = (sentOver(interface) - before) / calls / ranksHere;
  planned[here] = plannedBytes(w, cell, way, hostOf);
  return {summed(w, counted), summed(w, planned)};
}

}  // namespace tutti::perf

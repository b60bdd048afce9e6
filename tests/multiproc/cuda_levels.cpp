#include "tests/multiproc/cuda_levels.hpp"

#include <cstdlib>
#include <vector>

#include "src/comm/cuda/executor.hpp"
#include "src/comm/handle.hpp"
#include "src/exec/plan.hpp"

namespace tutti::test {
namespace {

using Traffic = DeviceEndpoints::Traffic;

/// One call, with memory for all ranks' blocks on both sides.
struct Levelled {
  const char* name;
  Collective collective;
  tuttiResult_t (*run)(const DeviceFloats& from, const DeviceFloats& to, size_t count, tuttiComm_t, tuttiStream_t);
  /// Of all ranks together, in blocks (of one vector: in vectors).  n ranks, m hosts of g.
  double (*network)(double n, double m, double g);
  double (*device)(double n, double m, double g);
  bool atLeast;  // what crosses the network depends on the way between hosts, and is no less
};

const Levelled kLevelled[] = {
    {"allgather", Collective::AllGather,
     [](const auto& from, const auto& to, size_t count, auto comm, auto stream) {
       return tuttiAllGather(from.data(), to.data(), count, tuttiFloat, comm, stream);
     },
     [](double n, double m, double) { return n * (m - 1); },
     [](double n, double m, double g) { return n * m * (g - 1); }, false},
    {"reducescatter", Collective::ReduceScatter,
     [](const auto& from, const auto& to, size_t count, auto comm, auto stream) {
       return tuttiReduceScatter(from.data(), to.data(), count, tuttiFloat, tuttiSum, comm, stream);
     },
     [](double n, double m, double) { return n * (m - 1); },
     [](double n, double m, double g) { return n * m * (g - 1); }, false},
    {"alltoall", Collective::AllToAll,
     [](const auto& from, const auto& to, size_t count, auto comm, auto stream) {
       return tuttiAllToAll(from.data(), to.data(), count, tuttiFloat, comm, stream);
     },
     [](double n, double, double g) { return n * (n - g); },
     [](double n, double m, double g) { return n * m * (g - 1); }, false},
    {"broadcast", Collective::Broadcast,
     [](const auto& from, const auto& to, size_t count, auto comm, auto stream) {
       return tuttiBroadcast(from.data(), to.data(), count, tuttiFloat, 0, comm, stream);
     },
     [](double, double m, double) { return m - 1; }, [](double, double m, double g) { return m * (g - 1); }, false},
    {"allreduce", Collective::AllReduce,
     [](const auto& from, const auto& to, size_t count, auto comm, auto stream) {
       return tuttiAllReduce(from.data(), to.data(), count, tuttiFloat, tuttiSum, comm, stream);
     },
     [](double, double m, double) { return 2 * (m - 1); }, [](double, double m, double g) { return 2 * m * (g - 1); },
     true},
};

struct Case {
  const Rank& r;
  const GpuRank& own;
  const Levelled& what;
  size_t count;
  const DeviceFloats &from, &to;
};

std::string run(const Case& c, int times) {
  for (int i = 0; i < times; ++i) RANK_TRY(c.what.run(c.from, c.to, c.count, c.r.comm, c.own.asTutti()));
  return c.own.synchronize();
}

std::vector<Traffic> sent(const Rank& r) {
  std::vector<Traffic> all;
  const auto& executor = static_cast<const CudaExecutor&>(r.comm->comm->executor());
  for (int peer = 0; peer < r.nRanks; ++peer) all.push_back(executor.sentTo(peer));
  return all;
}

/// What this rank's schedule sends to each peer in one call.
std::string planned(const Case& c, std::vector<uint64_t>* bytes) {
  Call call;
  call.kind = CallKind::Collective;
  call.collective = c.what.collective;
  call.sendbuff = c.from.data();
  call.recvbuff = c.to.data();
  call.count = c.count;
  call.dtype = tuttiFloat32;
  call.op = tuttiSum;
  const auto entry = c.r.comm->comm->planner().plan(call);
  RANK_CHECK(entry.ok() && *entry != nullptr && (*entry)->plan != nullptr);
  RANK_CHECK((*entry)->algorithm == "hierarchical");
  bytes->assign(static_cast<size_t>(c.r.nRanks), 0);
  for (const BoundLane& lane : (*entry)->plan->lanes) {
    for (const BoundOp& op : lane.ops)
      for (const int to : op.toRanks) (*bytes)[static_cast<size_t>(to)] += op.bytes;
  }
  return "";
}

/// What has gone from host to host: through host memory, or by adapters.
uint64_t networkOf(const Traffic& traffic) { return traffic.throughHost + traffic.byAdapter; }

/// Bytes of all ranks, which floats hold without loss.
std::string summed(const Rank& r, const GpuRank& own, uint64_t mine, double* all) {
  const DeviceFloats value(own, 1);
  value.fill(static_cast<float>(mine));
  RANK_TRY(tuttiAllReduce(value.data(), value.data(), 1, tuttiFloat, tuttiSum, r.comm, own.asTutti()));
  if (std::string why = own.synchronize(); !why.empty()) return why;
  *all = value.values()[0];
  return "";
}

std::string differs(const char* what, double counted, double expected) {
  return std::string(what) + ": " + std::to_string(counted) + " bytes, not " + std::to_string(expected);
}

/// Every peer's bytes by the right kind of link, as many as the schedule says.
std::string checkPeers(const Case& c, const std::function<bool(int)>& reach, Traffic* all) {
  constexpr int kTimes = 2;
  if (std::string why = run(c, 1); !why.empty()) return why;  // endpoints are there
  const std::vector<Traffic> before = sent(c.r);
  if (std::string why = run(c, kTimes); !why.empty()) return why;
  const std::vector<Traffic> after = sent(c.r);
  std::vector<uint64_t> bytes;
  if (std::string why = planned(c, &bytes); !why.empty()) return why;
  for (int peer = 0; peer < c.r.nRanks; ++peer) {
    const auto i = static_cast<size_t>(peer);
    const uint64_t byDevice = after[i].byDevice - before[i].byDevice;
    const uint64_t byNetwork = networkOf(after[i]) - networkOf(before[i]);
    const uint64_t expected = kTimes * bytes[i], none = 0;
    const std::string to = " to rank " + std::to_string(peer);
    if (byDevice != (reach(peer) ? expected : none))
      return differs(("by device" + to).c_str(), double(byDevice), double(reach(peer) ? expected : none));
    if (byNetwork != (reach(peer) ? none : expected))
      return differs(("over the network" + to).c_str(), double(byNetwork), double(reach(peer) ? none : expected));
    all->byDevice += byDevice / kTimes;
    all->throughHost += (after[i].throughHost - before[i].throughHost) / kTimes;
    all->byAdapter += (after[i].byAdapter - before[i].byAdapter) / kTimes;
  }
  return "";
}

/// All ranks together move what the algorithm's head says.
std::string checkTotals(const Case& c, int nHosts, const Traffic& mine) {
  const double n = c.r.nRanks, m = nHosts, g = n / m, block = static_cast<double>(c.count * sizeof(float));
  double device = 0, network = 0;
  if (std::string why = summed(c.r, c.own, mine.byDevice, &device); !why.empty()) return why;
  if (std::string why = summed(c.r, c.own, networkOf(mine), &network); !why.empty()) return why;
  const double overNetwork = block * c.what.network(n, m, g), overDevices = block * c.what.device(n, m, g);
  if (device != overDevices) return differs("by device links in all", device, overDevices);
  if (c.what.atLeast ? network < overNetwork : network != overNetwork)
    return differs("over the network in all", network, overNetwork);
  if (c.r.rank == 0)
    std::printf("%s of %zu floats, %d hosts: %.0f bytes by device links, %.0f over the network\n", c.what.name, c.count,
                nHosts, device, network);
  return "";
}

}  // namespace

void askForLevels() {
  setenv("TUTTI_ALGO",
         "allreduce:hierarchical,allgather:hierarchical,reducescatter:hierarchical,broadcast:hierarchical,"
         "alltoall:hierarchical",
         1);
  setenv("TUTTI_ALGO_STRICT", "1", 1);
}

std::string checkLevels(const Rank& r, const GpuRank& own, int nHosts, const std::function<bool(int peer)>& reach) {
  for (const size_t count : {size_t{1}, size_t{1001}, size_t{40'003}}) {
    const CheckOptions o = own.options(count, false, 4, 0);
    for (auto* check : {checkAllReduce, checkAllGather, checkReduceScatter, checkAllToAll, checkBroadcast}) {
      if (std::string why = check(r, o); !why.empty()) return why;
    }
    const DeviceFloats from(own, count * static_cast<size_t>(r.nRanks)), to(own, count * static_cast<size_t>(r.nRanks));
    for (const Levelled& what : kLevelled) {
      const Case c{r, own, what, count, from, to};
      Traffic mine;
      std::string why = checkPeers(c, reach, &mine);
      if (why.empty()) why = checkTotals(c, nHosts, mine);
      if (!why.empty()) return std::string(what.name) + " of " + std::to_string(count) + ": " + why;
    }
  }
  return "";
}

}  // namespace tutti::test

// Ranks on CUDA devices of several hosts, joined by a network whose adapters read and write the devices' memory: on the
// driver of the tests.  Hosts are threads with a TUTTI_HOSTID of their own.
#pragma once

#include <atomic>
#include <cctype>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "src/comm/cuda/executor.hpp"
#include "src/comm/handle.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

namespace tutti::test {

using Traffic = DeviceEndpoints::Traffic;

/// Called once by each rank when its host has been read, and by no rank before all have joined.
inline constexpr const char* kHostIsRead = "cuStreamCreateWithPriority";

/// A rank on a device, or (null) on the CPU.
using HostBody = std::function<std::string(const Rank&, GpuRank*)>;

/// Ranks as threads, joined by `network` between hosts: a letter for each, its host; a capital one: it is on the CPU,
/// and behind a rank of that host. Rank r is on device r.  They come to the library one after the other, as a process
/// has one TUTTI_HOSTID at a time.
inline std::string onHosts(const std::string& network, const std::string& hosts, const HostBody& body) {
  const Variable where("TUTTI_DEVICE", "cuda"), transports("TUTTI_TRANSPORTS", "shm," + network),
      calibration("TUTTI_CALIBRATION", "off"), host("TUTTI_HOSTID", "?");
  char* const name = ::getenv("TUTTI_HOSTID");
  std::atomic<int> turn{0};
  const auto nRanks = static_cast<int>(hosts.size());
  return onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) {
    const char letter = hosts[static_cast<size_t>(rank)];
    const bool onCpu = std::isupper(letter) != 0;
    std::unique_ptr<GpuRank> own;
    if (!onCpu) own = std::make_unique<GpuRank>(rank);
    while (turn != rank) cuda::pauseBetweenLooks();
    if (!onCpu) *name = letter;
    const int before = FakeCuda::get().calls(kHostIsRead);
    std::atomic<bool> over{onCpu};
    std::thread next([&] {
      while (!over && FakeCuda::get().calls(kHostIsRead) == before) cuda::pauseBetweenLooks();
      turn = rank + 1;
    });
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = onCpu ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
    config.timeoutMs = 120'000;
    std::string why = asRank(rank, nRanks, id, config, [&](const Rank& r) { return body(r, own.get()); });
    over = true;
    next.join();
    return why;
  });
}

/// All that a rank has sent to others, and what has come from them, by kind of link.
inline Traffic trafficOf(const Rank& r) {
  const auto& executor = static_cast<const CudaExecutor&>(r.comm->comm->executor());
  Traffic all;
  for (int peer = 0; peer < r.nRanks; ++peer) {
    const Traffic sent = executor.sentTo(peer);
    if (peer != r.rank) all.byDevice += sent.byDevice;
    all.throughHost += sent.throughHost;
    all.byAdapter += sent.byAdapter;
    all.receivedThroughHost += sent.receivedThroughHost;
  }
  return all;
}

inline std::string everything(const Rank& r, const GpuRank* own, size_t count) {
  CheckOptions o{.count = count, .shift = 4, .root = r.nRanks - 1};
  if (own != nullptr) o = own->options(count, false, 4, r.nRanks - 1);
  return checkEverything(r, o);
}

/// Calls until endpoints have the memory that they ask for, and then once more, counted.
inline std::string countedCalls(const Rank& r, const GpuRank& own, size_t count, Traffic* counted) {
  for (int warmUp = 0; warmUp < 3; ++warmUp) {
    if (std::string why = everything(r, &own, count); !why.empty()) return why;
  }
  const Traffic before = trafficOf(r);
  if (std::string why = everything(r, &own, count); !why.empty()) return why;
  const Traffic after = trafficOf(r);
  *counted = {after.byDevice - before.byDevice, after.throughHost - before.throughHost,
              after.byAdapter - before.byAdapter, after.receivedThroughHost - before.receivedThroughHost};
  return "";
}

/// An AllReduce of ones by two ranks that is captured, and replayed five times.
inline std::string replayedCalls(const Rank& r, const GpuRank& own, size_t count) {
  const cuda::Driver& d = own.driver();
  const DeviceFloats x(own, count);
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
  RANK_TRY(tuttiAllReduce(x.data(), x.data(), count, tuttiFloat, tuttiSum, r.comm, own.asTutti()));
  RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
  RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
  x.fill(1);
  for (int times = 0; times < 5; ++times) RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
  if (std::string why = own.synchronize(); !why.empty()) return why;
  d.cuGraphExecDestroy(exec);
  d.cuGraphDestroy(graph);
  RANK_CHECK(trafficOf(r).byAdapter > 0);
  return x.check(0, count, 32);
}

/// Sends registered memory to the next rank and receives it from the one before, in a group, three times; rank 0
/// receives into memory that is not registered.
inline std::string goRound(const Rank& r, GpuRank* own) {
  constexpr size_t kCount = 90'001;
  const DeviceFloats x(*own, kCount), y(*own, kCount);
  void* handles[2] = {};
  RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &handles[0]));
  if (r.rank > 0) RANK_TRY(tuttiCommRegister(r.comm, y.data(), y.bytes(), &handles[1]));
  const int next = (r.rank + 1) % r.nRanks, before = (r.rank + r.nRanks - 1) % r.nRanks;
  for (int times = 1; times < 4; ++times) {
    x.fill(static_cast<float>(times * 10 + r.rank));
    RANK_TRY(tuttiGroupStart());
    RANK_TRY(tuttiSend(x.data(), kCount, tuttiFloat, next, r.comm, own->asTutti()));
    RANK_TRY(tuttiRecv(y.data(), kCount, tuttiFloat, before, r.comm, own->asTutti()));
    RANK_TRY(tuttiGroupEnd());
    if (std::string why = own->synchronize(); !why.empty()) return why;
    if (std::string why = y.check(0, kCount, static_cast<float>(times * 10 + before)); !why.empty()) return why;
  }
  RANK_CHECK(trafficOf(r).byAdapter >= 3 * kCount * sizeof(float));
  RANK_TRY(tuttiCommDeregister(r.comm, handles[0]));
  if (r.rank > 0) RANK_TRY(tuttiCommDeregister(r.comm, handles[1]));
  return "";
}

}  // namespace tutti::test

// What messages, lanes and slices cost ranks on CUDA devices.
#include <catch2/catch.hpp>
#include <cmath>

#include "src/exec/cuda/one_pass.hpp"
#include "tests/unit/plan/device_jobs.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("ways of CUDA ranks have names, and unknown devices figures") {
  for (const DeviceExecutor way : {DeviceExecutor::Blocks, DeviceExecutor::Streams, DeviceExecutor::Proxy}) {
    DeviceExecutor parsed{};
    CHECK(parseDeviceExecutor(deviceExecutorName(way), &parsed));
    CHECK(parsed == way);
  }
  DeviceExecutor none{};
  CHECK_FALSE(parseDeviceExecutor("shm-threads", &none));
  CHECK(slower({90, 4800}, {80, 2000}) == DeviceFacts{80, 2000});
  const DeviceCosts h200 = deviceCosts(DeviceExecutor::Blocks, {90, 4800}, sharing(4));
  CHECK(h200.memoryGBps == Approx(4320));
  double last = h200.memoryGBps;
  for (const int computeCapability : {90, 80, 75, 61}) {
    const DeviceCosts untold = deviceCosts(DeviceExecutor::Blocks, {computeCapability, 0}, sharing(4));
    CHECK(untold.memoryGBps > 0);
    CHECK(untold.memoryGBps < last);
    CHECK(untold.blockGBps > 0);
    last = untold.memoryGBps;
  }
}

TEST_CASE("what joins devices is read from the machine") {
  if (!topology::readable(kNvswitch)) return;
  const DeviceLinks eight = gpusOf(kNvswitch, 8);
  CHECK(eight.nDevices() == 8);
  CHECK(eight.mostRanks() == 1);
  CHECK(eight.nvlink);
  CHECK(eight.portGBps == Approx(18 * 20.6));
  CHECK(eight.pairGBps == Approx(18 * 20.6));
  const DeviceLinks pcie = gpusOf(kPcie, 2);
  CHECK_FALSE(pcie.nvlink);
  CHECK(pcie.portGBps > 10);
  CHECK(pcie.portGBps < 100);

  const auto graph = topology::loadTopology(topology::goldenPath(kNvswitch));
  const std::string first = graph->nodes[static_cast<size_t>(graph->all(topology::NodeKind::Gpu)[0])].busId;
  const std::vector<std::string> shared = {first, first, "ffff:00:00.0", first};
  const DeviceLinks unknown = deviceLinks(*graph, shared);
  CHECK(unknown.deviceOf == std::vector<int>{0, 0, 1, 0});
  CHECK(unknown.mostRanks() == 3);
  CHECK(unknown.portGBps == 0);
  CHECK(deviceCosts(DeviceExecutor::Streams, {}, unknown).links.portGBps > 0);
}

TEST_CASE("ranks of one device are near, devices have ports, sockets links") {
  DeviceLinks links;
  links.deviceOf = {0, 0, 1, 1};
  links.socketOf = {0, 0, 1, 1};
  links.portGBps = 24;
  links.socketGBps = 10;
  const MachineLevels levels = deviceLevels(links);
  REQUIRE(levels.size() == 3);
  CHECK(levels[0].groupOf == links.deviceOf);
  CHECK(levels[0].portGBps == 0);
  CHECK(levels[1].portGBps == 24);
  CHECK(levels[2].portGBps == 10);
  CHECK(deviceLevels(sharing(3)).size() == 1);
  CHECK(deviceLevels(gpusOf(kNvswitch, 8)).size() == 1);
}

TEST_CASE("lanes are as many as packets or bandwidth need") {
  const DeviceCosts two = deviceCosts(DeviceExecutor::Blocks, {90, 4800}, sharing(2));
  const DeviceCosts eight = deviceCosts(DeviceExecutor::Blocks, {90, 4800}, sharing(8));
  CHECK(lanesForMessages(two, 8, true, 64) == 1);
  CHECK(lanesForMessages(two, 4096, true, 64) == 1);
  CHECK(lanesForMessages(two, 4097, true, 64) == 2);
  CHECK(lanesForMessages(two, 64.0 * kKi, true, 64) == 16);
  CHECK(lanesForMessages(two, 64.0 * kKi, true, 8) == 8);
  CHECK(lanesForMessages(two, 64.0 * kMi, true, 64) == lanesForBandwidth(two, true));
  CHECK(lanesForBandwidth(two, true) * 2 * two.blockGBps >= two.memoryGBps / 2);
  CHECK(lanesForBandwidth(eight, true) < lanesForBandwidth(two, true));
  CHECK(lanesForBandwidth(eight, false) == lanesForBandwidth(two, false));
  const DeviceCosts nvlink = deviceCosts(DeviceExecutor::Blocks, {90, 4800}, gpusOf(kNvswitch, 8));
  CHECK(lanesForBandwidth(nvlink, true) >= 16);
  CHECK(lanesForBandwidth(nvlink, true) <= 32);  // NCCL has 16 to 32 channels there
  CHECK(lanesForMessages(deviceCosts(DeviceExecutor::Streams, {90, 4800}, sharing(2)), 1e9, true, 30) == 1);

  DeviceJob job(DeviceExecutor::Blocks, sharing(4));
  CHECK(job.choose(Collective::AllReduce, 8).nChannels == 1);
  CHECK(job.choose(Collective::AllReduce, 256 * kMi).nChannels == lanesForBandwidth(job.costs, true));
  PlanRequest asked = job.request(Collective::AllReduce, 256 * kMi);
  asked.mostChannels = 8;
  CHECK(plan(asked, defaultCalibration({"test cpu", 8, "test"}, linkKinds()))->nChannels == 8);
  asked.overrides.nChannels = 3;
  CHECK(plan(asked, defaultCalibration({"test cpu", 8, "test"}, linkKinds()))->nChannels == 3);
}

TEST_CASE("slices are worth what they cost, and slots fit the memory") {
  const auto slice = [](DeviceExecutor way, const DeviceLinks& links) {
    return deviceSliceBytes(deviceCosts(way, {90, 4800}, links), static_cast<int>(links.deviceOf.size()), kSlots);
  };
  CHECK(slice(DeviceExecutor::Blocks, sharing(2)) == 128 * kKi);
  CHECK(slice(DeviceExecutor::Blocks, sharing(4)) == 128 * kKi);
  CHECK(slice(DeviceExecutor::Blocks, sharing(8)) == 64 * kKi);
  CHECK(slice(DeviceExecutor::Blocks, sharing(16)) == 32 * kKi);
  CHECK(slice(DeviceExecutor::Blocks, gpusOf(kNvswitch, 8)) == 256 * kKi);
  CHECK(slice(DeviceExecutor::Blocks, gpusOf(kNvswitch, 2)) == kMi);
  CHECK(slice(DeviceExecutor::Streams, sharing(2)) == 16 * kMi);
  CHECK(slice(DeviceExecutor::Streams, sharing(8)) == 4 * kMi);
  CHECK(slice(DeviceExecutor::Streams, gpusOf(kNvswitch, 8)) == 8 * kMi);
  CHECK(slice(DeviceExecutor::Streams, gpusOf(kPcie, 2)) == 2 * kMi);
  for (const int n : {2, 3, 4, 8, 16, 32}) {
    const DeviceCosts blocks = deviceCosts(DeviceExecutor::Blocks, {90, 4800}, sharing(n));
    const size_t lanes = static_cast<size_t>(lanesForBandwidth(blocks, true) * n);
    const size_t bytes = lanes * kSlots * deviceSliceBytes(blocks, n, kSlots);
    CAPTURE(n);
    CHECK((bytes <= kMostEndBytes / 4 || deviceSliceBytes(blocks, n, kSlots) == 32 * kKi));
    CHECK(slice(DeviceExecutor::Streams, sharing(n)) * static_cast<size_t>(n - 1) * kSlots <= kMostEndBytes);
  }
  // Slower memory needs less on its way.
  const DeviceFacts slow{75, 320};
  CHECK(deviceSliceBytes(deviceCosts(DeviceExecutor::Streams, slow, sharing(2)), 2, kSlots) < 16 * kMi);
}

namespace {

double onePassOf(const DeviceJob& job, const Shape& shape) {
  const auto call = passCall(shape.collective, shape.bytes, shape.root, shape.nRanks);
  return onePassUs(job.costs, static_cast<double>(passTraffic(call, shape.nRanks)));
}

}  // namespace

TEST_CASE("one pass is the least that a device's memory has to do") {
  DeviceJob job(DeviceExecutor::Blocks, sharing(4));
  for (int i = 0; i < kNumCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const PlanRequest large = job.request(collective, 64 * kMi);
    CAPTURE(collectiveKey(collective));
    // Plans of a gather and a scatter count as in place for the root.
    const bool rootsOwn = collective == Collective::Gather || collective == Collective::Scatter;
    CHECK(onePassOf(job, large.shape) <= (rootsOwn ? 1.4 : 1) * job.choose(collective, 64 * kMi).costUs);
    CHECK(onePassOf(job, job.request(collective, 8).shape) == Approx(job.costs.callUs).epsilon(0.01));
  }
  const double us = 8.0 * 64 * kMi / (job.costs.memoryGBps * 1e3);
  CHECK(onePassOf(job, job.request(Collective::AllReduce, 64 * kMi).shape) == Approx(job.costs.callUs + us));
}

TEST_CASE("messages by themselves cost what their way does") {
  const DeviceCosts blocks = deviceCosts(DeviceExecutor::Blocks, {90, 4800}, gpusOf(kNvswitch, 8));
  const DeviceCosts streams = deviceCosts(DeviceExecutor::Streams, {90, 4800}, gpusOf(kNvswitch, 8));
  CHECK(deviceMessageUs(blocks, false, 8, kMi) < deviceMessageUs(blocks, false, 8 * kKi, kMi));
  CHECK(deviceMessageUs(streams, true, kMi, kMi) < deviceMessageUs(streams, false, kMi, kMi));
  CHECK(deviceMessageUs(streams, false, 64 * kMi, kMi) > deviceMessageUs(streams, false, 64 * kMi, 8 * kMi));
  CHECK(std::isfinite(deviceMessageUs(deviceCosts(DeviceExecutor::Proxy, {}, {}), false, kMi, kMi)));
}

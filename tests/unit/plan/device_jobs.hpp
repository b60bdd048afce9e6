// Devices with a planner's requests for them, for tests.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>

#include "src/plan/device_links.hpp"
#include "src/plan/device_prices.hpp"
#include "src/topology/load.hpp"
#include "tests/unit/topology/machines.hpp"
#include "transport/shm/entry.hpp"
#include "transport/table.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti::test {

inline constexpr size_t kKi = 1024, kMi = 1024 * 1024;
inline constexpr uint32_t kSlots = 4;
inline constexpr size_t kSizes[] = {8, 64 * kKi, kMi, 256 * kMi};

/// Devices with a planner's request for them.
struct DeviceJob {
  DeviceCosts costs;
  MachineLevels levels;
  Estimates estimates;

  DeviceJob(DeviceExecutor way, DeviceLinks links, const DeviceFacts& facts = {90, 4800})
      : costs(deviceCosts(way, facts, std::move(links))), levels(deviceLevels(costs.links)) {}

  int nRanks() const { return static_cast<int>(costs.links.deviceOf.size()); }
  /// As a communicator asks: an H200 has room for two such blocks on each of its 132 multiprocessors.
  PlanRequest request(Collective collective, size_t bytes) const {
    PlanRequest r;
    r.shape = {.collective = collective, .nRanks = nRanks(), .bytes = collective == Collective::Barrier ? 0 : bytes};
    r.shape.slotBytes = deviceSliceBytes(costs, nRanks(), kSlots);
    r.links.intra = kShmThreads;
    r.device = &costs;
    r.levels = &levels;
    const bool blocks = costs.way == DeviceExecutor::Blocks;
    r.directPossible = blocks && costs.links.nDevices() == 1;
    r.mostChannels = 64;
    r.mostLanes = blocks ? std::min(64, 264 / costs.links.mostRanks()) : 30;
    r.joinBytes = blocks ? 0 : mostJoinedBytes(r.links, r.shape.slotBytes, r.device);
    r.wholeTable = true;
    return r;
  }
  Choice choose(Collective collective, size_t bytes) {
    const auto choice =
        plan(request(collective, bytes), defaultCalibration({"test cpu", 8, "test"}, linkKinds()), &estimates);
    REQUIRE(choice.status().message() == "");
    return *choice;
  }
};

inline DeviceLinks sharing(int nRanks) {
  DeviceLinks links;
  links.deviceOf.assign(static_cast<size_t>(nRanks), 0);
  return links;
}

inline constexpr const char* kNvswitch = "h200-hgx-8gpu-nvswitch-tcponly.nccl.xml";
inline constexpr const char* kPcie = "pcie6-cx8-8gpu-12nic.nccl.xml";

/// The first GPUs of a machine that tests know, one rank on each; what is in its file where this build cannot read it.
inline DeviceLinks gpusOf(const char* file, size_t nRanks) {
  if (!topology::readable(file)) {
    DeviceLinks links;
    for (size_t i = 0; i < nRanks; ++i) links.deviceOf.push_back(static_cast<int>(i));
    links.nvlink = file == kNvswitch;
    links.portGBps = links.pairGBps = links.nvlink ? 18 * 20.6 : 48;
    return links;
  }
  const auto graph = topology::loadTopology(topology::goldenPath(file));
  REQUIRE(graph.status().message() == "");
  std::vector<std::string> busIds;
  for (const int gpu : graph->all(topology::NodeKind::Gpu)) {
    if (busIds.size() < nRanks) busIds.push_back(graph->nodes[static_cast<size_t>(gpu)].busId);
  }
  return deviceLinks(*graph, busIds);
}

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tutti::test

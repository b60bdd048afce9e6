#include "src/cost/device_costs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>

#include "src/base/text.hpp"
#include "src/topology/rates.hpp"

namespace tutti {
namespace {

constexpr const char* kNames[kNumDeviceExecutors] = {"cuda-blocks", "cuda-streams", "cuda-proxy"};

// ---- What devices are made of.

/// Of what the bus carries: copies on an H200 reach 4.3 of the 4.8 TB/s of its data sheet.
constexpr double kMemoryShare = 0.9;

/// Figures of an architecture.
struct Architecture {
  int computeCapability;  // from this one on
  double memoryGBps;  // of devices that tell nothing: the least of data sheets (B200, H100 PCIe, A2, A30, T4, Titan V)
  /// NCCL plans with so much for each channel of a ring, which is a block (src/graph/tuning.cc: perChMaxRingLL128Bws of
  /// Volta, Ampere, Hopper and Blackwell).
  double blockGBps;
};
constexpr Architecture kArchitectures[] = {{120, 270, 40}, {100, 8000, 40}, {90, 2000, 36.7}, {86, 200, 20},
                                           {80, 930, 20},  {75, 320, 20},   {70, 650, 20},    {0, 190, 20}};

const Architecture& architectureOf(int computeCapability) {
  return *std::ranges::find_if(kArchitectures,
                               [&](const Architecture& a) { return computeCapability >= a.computeCapability; });
}

// ---- What messages cost.  Microseconds.

// Blocks.  A packet is one trip: NCCL plans with 0.6 over NVLink and 1.0 over PCIe (src/graph/tuning.cc: hwLatencies,
// LL), and "Demystifying NCCL" (arXiv 2507.04786) has about 1 for the whole hop.  On one device the trip is through the
// L2 cache: some 0.3 on an H100 (chipsandcheese.com, 2 July 2023).
constexpr DeviceMessage kPacketNear{0.2, 0.3, 0.2}, kPacketNvlink{0.2, 0.6, 0.2}, kPacketPcie{0.2, 1.0, 0.2};
// A slot or a loan takes barriers of the block, a fence and two words: NCCL plans with 3.4 over NVLink and 5.7 over
// PCIe (ring, Simple).  On one device that is five trips through the L2 cache.
constexpr DeviceMessage kSlotNear{0.5, 0.5, 0.5}, kSlotNvlink{0.7, 2.0, 0.7}, kSlotPcie{0.7, 4.3, 0.7};
// Beside its hops NCCL counts 6.6 for a call, for the most part the launch (baseLatencies, ring, LL).
constexpr double kLaunchUs = 6.6;

// Streams.  A copy inside a device takes about 2 however short it is (NVIDIA/nvtrust issue 42, H100), an event that is
// recorded and waited for about 1 (cudarc pull request 335), which is taken for a wait for a word and for its write,
// too, and for several of them enqueued as one.  At either end of a message are two of those and a copy or kernel
// (transport/cuda/stream_endpoint.hpp).
constexpr double kWordUs = 1, kCopyUs = 2;
constexpr double kEndUs = 2 * kWordUs + kCopyUs;
constexpr DeviceMessage kStreamNear{kEndUs, 0.3, kEndUs}, kStreamNvlink{kEndUs, 1, kEndUs},
    kStreamPcie{kEndUs, 2, kEndUs};
// Events that order the call after those before it, on its stream and others.
constexpr double kStreamCallUs = 3;

// Proxy.  Beside what the host's link takes: at either end a copy between the device and pinned memory, and the host
// finding out that it has ended, by looking at an event now and then.  About 10 for both on PCIe (NCCL plans with 14
// for a hop over a network that passes through its proxy, of which the network is 3 to 5: hwLatencies, NET).
constexpr DeviceMessage kProxyEnds{10, 0, 10};
constexpr double kProxyCallUs = 15;

/// A call's kernel begins when that of the call before has ended.  What streams and proxies do for one rank overlaps
/// with what they do for others; but what follows a call on a device is as a rule work that needs its result.
constexpr double kWaitedForOnStreams = 0.5;

/// Lanes beside those that published figures of one block ask for: a block waits while others copy.
constexpr double kSpareLanes = 1.25;

/// A slice should take so many times what it costs beside its bytes.
constexpr double kSliceWorth = 9;

/// Reads and writes of a rank that sends and receives at once, for each byte: of the message's source, of the slot that
/// it goes to, and the same at the other end.
constexpr double kTrafficOfExchange = 4;

DeviceMessage farMessage(DeviceExecutor way, bool nvlink) {
  if (way == DeviceExecutor::Proxy) return kProxyEnds;
  if (way == DeviceExecutor::Streams) return nvlink ? kStreamNvlink : kStreamPcie;
  return nvlink ? kSlotNvlink : kSlotPcie;
}

DeviceMessage nearMessage(DeviceExecutor way) {
  if (way == DeviceExecutor::Proxy) return kProxyEnds;
  return way == DeviceExecutor::Streams ? kStreamNear : kSlotNear;
}

int atLeastOne(double lanes) { return std::max(1, static_cast<int>(std::ceil(lanes - 1e-9))); }

}  // namespace

const char* deviceExecutorName(DeviceExecutor way) { return kNames[static_cast<size_t>(way)]; }

bool parseDeviceExecutor(std::string_view name, DeviceExecutor* out) {
  const auto* found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) return false;
  *out = static_cast<DeviceExecutor>(found - kNames);
  return true;
}

DeviceFacts slower(const DeviceFacts& a, const DeviceFacts& b) {
  return {std::min(a.computeCapability, b.computeCapability), std::min(a.memoryGBps, b.memoryGBps)};
}

int DeviceLinks::nDevices() const {
  return deviceOf.empty() ? 1 : *std::max_element(deviceOf.begin(), deviceOf.end()) + 1;
}

int DeviceLinks::mostRanks() const {
  std::map<int, int> ranks;
  int most = 1;
  for (const int device : deviceOf) most = std::max(most, ++ranks[device]);
  return most;
}

std::string DeviceCosts::describe() const {
  const int devices = links.nDevices(), ranks = links.mostRanks();
  std::string text = deviceExecutorName(way);
  if (insideHost != nullptr) text += cat(", inside hosts ", insideHost->describe());
  if (ranks > 1) text += cat(", ", ranks, " ranks on ", devices == 1 ? "one device" : "a device");
  if (devices > 1) text += cat(", ", devices, " devices");
  if (devices == 1 || links.portGBps <= 0 || way == DeviceExecutor::Proxy) return text;
  char joined[64];
  std::snprintf(joined, sizeof joined, " joined by %s of %.3g GB/s", links.nvlink ? "NVLink" : "PCIe", links.portGBps);
  return text + joined;
}

DeviceCosts deviceCosts(DeviceExecutor way, const DeviceFacts& facts, DeviceLinks links) {
  const Architecture& of = architectureOf(facts.computeCapability);
  DeviceCosts costs;
  costs.way = way;
  if (links.nDevices() > 1 && links.portGBps <= 0) {
    links.portGBps = topology::assumedPcieGBps();
    links.nvlink = false;
  }
  if (links.pairGBps <= 0 || links.pairGBps > links.portGBps) links.pairGBps = links.portGBps;
  costs.links = std::move(links);
  costs.memoryGBps = kMemoryShare * (facts.memoryGBps > 0 ? facts.memoryGBps : of.memoryGBps);
  costs.blockGBps = of.blockGBps;
  costs.callUs = way == DeviceExecutor::Blocks    ? kLaunchUs
                 : way == DeviceExecutor::Streams ? kStreamCallUs
                                                  : kProxyCallUs;
  costs.packet = {kPacketNear, costs.links.nvlink ? kPacketNvlink : kPacketPcie};
  costs.message = {nearMessage(way), farMessage(way, costs.links.nvlink)};
  costs.operationUs = way == DeviceExecutor::Blocks ? 0 : kCopyUs;
  costs.waitedFor = way == DeviceExecutor::Blocks ? 1 : kWaitedForOnStreams;
  costs.pinnedGBps = topology::assumedPcieGBps();
  return costs;
}

int lanesForBandwidth(const DeviceCosts& costs, bool allBusy) {
  if (costs.way != DeviceExecutor::Blocks) return 1;
  const int ranks = allBusy ? costs.links.mostRanks() : 1;
  double wanted = costs.memoryGBps / ranks;  // to read and write
  if (costs.links.nDevices() > 1) wanted = std::min(wanted, kTrafficOfExchange * costs.links.portGBps / ranks);
  return atLeastOne(kSpareLanes * wanted / (2 * costs.blockGBps));
}

int lanesForMessages(const DeviceCosts& costs, double chunkBytes, bool allBusy, int most) {
  if (costs.way != DeviceExecutor::Blocks) return 1;
  most = std::max(1, most);
  const double packets = std::ceil(chunkBytes / static_cast<double>(kMostPacketBytes));
  if (packets <= most) return std::max(1, static_cast<int>(packets));
  return std::min(most, lanesForBandwidth(costs, allBusy));
}

size_t mostBlockEndBytes(bool oneDevice, size_t sharers) {
  constexpr size_t kPartOnOneDevice = 4;
  return std::min(kMostEndBytes, kMostEndBytesOfDevice / sharers) / (oneDevice ? kPartOnOneDevice : 1);
}

size_t deviceSliceBytes(const DeviceCosts& costs, int nRanks, uint32_t slots) {
  const bool apart = costs.links.nDevices() > 1;
  const bool blocks = costs.way == DeviceExecutor::Blocks;
  const size_t least = size_t{blocks && !apart ? 32u : 128u} << 10, most = size_t{16} << 20;
  const DeviceMessage& message = apart ? costs.message.far : costs.message.near;
  const int sharers = costs.links.mostRanks();
  const double shareGBps = (apart ? costs.links.portGBps : costs.memoryGBps / 2) / sharers;
  // What a lane's slice costs is waiting; on a stream it is the work of either end.
  const double rateGBps = blocks ? std::min(costs.blockGBps, shareGBps) : shareGBps;
  const double besideUs = blocks ? message.us() : std::max(message.sendUs, message.receiveUs);
  const double wanted = kSliceWorth * besideUs * rateGBps * 1e3;
  const size_t memory = blocks ? mostBlockEndBytes(!apart, static_cast<size_t>(sharers))
                               : std::min(kMostEndBytes, kMostEndBytesOfDevice / static_cast<size_t>(sharers));
  const size_t ends = static_cast<size_t>(blocks ? lanesForBandwidth(costs, true) * nRanks : std::max(1, nRanks - 1));
  const size_t room = memory / (ends * std::max<size_t>(1, slots));
  const size_t slice = std::bit_ceil(static_cast<size_t>(std::min(wanted, static_cast<double>(most))));
  return std::clamp(std::min(slice, std::bit_floor(room)), least, most);
}

double deviceMessageUs(const DeviceCosts& costs, bool sameDevice, size_t bytes, size_t sliceBytes) {
  const bool packet = costs.way == DeviceExecutor::Blocks && bytes <= kMostPacketBytes;
  const DeviceMessages& messages = packet ? costs.packet : costs.message;
  const DeviceMessage& message = sameDevice ? messages.near : messages.far;
  double gbps = sameDevice ? costs.memoryGBps / 4 : costs.links.pairGBps;  // copied in, and copied out
  if (costs.way == DeviceExecutor::Blocks) gbps = std::min(gbps, costs.blockGBps);
  if (costs.way == DeviceExecutor::Proxy) gbps = costs.pinnedGBps / 2;  // out and in again
  const double size = static_cast<double>(bytes);
  const double slices = std::max(1.0, std::ceil(size / static_cast<double>(std::max<size_t>(1, sliceBytes))));
  return costs.callUs + message.us() + (slices - 1) * std::max(message.sendUs, message.receiveUs) + size / (gbps * 1e3);
}

}  // namespace tutti

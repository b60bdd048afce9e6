#include "src/plan/device_prices.hpp"

#include <algorithm>

#include "src/plan/request_parts.hpp"
#include "src/schedule/passes.hpp"
#include "src/sim/memory.hpp"

namespace tutti {
namespace {

/// GB/s that one rank's lanes read and write.
double rankGBps(const DeviceCosts& costs, int lanes) {
  if (costs.way != DeviceExecutor::Blocks) return costs.memoryGBps;
  return std::min(costs.memoryGBps, 2 * costs.blockGBps * lanes);
}

/// Copies in and out.  perTouch: of a byte that is read or written.
sim::MessagePrice messagePrice(const DeviceMessage& message, double perTouch) {
  sim::MessagePrice price;
  price.sendUs = message.sendUs;
  price.latencyUs = message.wayUs;
  price.receiveUs = message.receiveUs;
  price.sendUsPerByte = price.receiveUsPerByte = 2 * perTouch;
  return price;
}

/// Lanes of all copies of a schedule together.
int lanesOf(const PlanRequest& r, double chunkBytes, size_t lanesOfOne) {
  if (r.overrides.nChannels > 0) return r.overrides.nChannels;
  const int most = r.mostLanes / std::max(1, static_cast<int>(lanesOfOne));
  return lanesForMessages(*r.device, chunkBytes, goesBothWays(r.shape.collective), std::min(most, r.mostChannels));
}

}  // namespace

bool onDevices(const PlanRequest& r) { return r.device != nullptr && r.device->way != DeviceExecutor::Proxy; }

MachineLevels deviceLevels(const DeviceLinks& links) {
  MachineLevels levels;
  const bool apart = links.nDevices() > 1;
  if (links.mostRanks() > 1 || !apart) levels.push_back({"device", links.deviceOf, {}, 0});
  const std::vector<int> all(links.deviceOf.size());
  const bool sockets = apart && !links.socketOf.empty();
  if (sockets) levels.push_back({"socket", links.socketOf, {}, links.portGBps});
  if (apart) levels.push_back({"host", all, {}, sockets ? links.socketGBps : links.portGBps});
  return levels;
}

std::string whyNotOnDevice(const PlanRequest& r, Protocol protocol) {
  const char* name = deviceExecutorName(r.device->way);
  if (r.device->way == DeviceExecutor::Proxy) {
    return protocol == Protocol::Direct ? cat(name, " has all bytes pass through pinned memory of the host") : "";
  }
  if (r.device->way == DeviceExecutor::Streams) {
    if (protocol == Protocol::Slots) return "";
    return cat(name, protocol == Protocol::Inline ? " knows no shorter messages"
                                                  : " lends registered memory, whatever is planned");
  }
  const bool packets = messageBytes(r) <= static_cast<double>(kMostPacketBytes);
  const bool asked = r.overrides.protocol.has_value();
  const bool barrier = r.shape.collective == Collective::Barrier;
  switch (protocol) {
    case Protocol::Inline: return packets ? "" : cat("packets take up to ", kMostPacketBytes, " bytes");
    case Protocol::Direct:
      if (barrier) return "a barrier moves no bytes";
      if (!r.directPossible) return "not every rank's buffers can be read by its peers";
      return packets && !asked ? "short messages are packets" : "";
    case Protocol::Slots:
      if (asked) return "";
      if (packets) return "short messages are packets";
      return r.directPossible ? "ranks of one device read each other's buffers" : "";
  }
  return "";
}

DevicePrices devicePrices(const PlanRequest& r, Protocol protocol, const sim::Bound& bound, double chunkBytes) {
  const DeviceCosts& costs = *r.device;
  const bool blocks = costs.way == DeviceExecutor::Blocks;
  DevicePrices all;
  all.lanes = lanesOf(r, chunkBytes, bound.roles.programs.front()->lanes->size());
  all.shape = r.shape;
  all.shape.slotBytes *= static_cast<size_t>(all.lanes);
  all.callUs = costs.callUs;
  all.waitedFor = costs.waitedFor;
  all.leastUs = sim::trafficOf(bound.roles, costs.links.deviceOf, chunkBytes) * perByte(costs.memoryGBps);

  const double touch = perByte(rankGBps(costs, all.lanes));
  const double operation = chunkBytes > 0 ? costs.operationUs / chunkBytes : 0;  // of a chunk, by its bytes
  const bool packets = blocks && chunkBytes <= static_cast<double>(kMostPacketBytes) * all.lanes;
  const DeviceMessages& messages = packets ? costs.packet : costs.message;
  sim::Prices& prices = all.prices;
  const MachineLevels& levels = *r.levels;
  for (size_t i = 0; i < levels.size() && i < sim::kMostLevels; ++i) {
    const bool far = levels[i].portGBps > 0;
    // A packet is as much flag as payload.
    sim::MessagePrice& copied = prices.copied[i] =
        messagePrice(far ? messages.far : messages.near, packets ? 2 * touch : touch);
    copied.gatherUsPerByte = 2 * touch + operation;
    sim::MessagePrice& direct = prices.direct[i] = messagePrice(far ? costs.message.far : costs.message.near, touch);
    direct.sendUsPerByte = 0;
    if (protocol != Protocol::Direct) direct = copied;
    for (sim::MessagePrice* price : {&copied, &direct}) {
      if (!far) continue;
      price->wireUsPerByte = perByte(levels[i].portGBps) * (packets ? 2 : 1);
      // Links of its own to each of several devices: no message is faster than one of them.
      const bool mesh = costs.links.socketOf.empty() && costs.links.pairGBps < costs.links.portGBps;
      if (mesh) price->sendUsPerByte = std::max(price->sendUsPerByte, perByte(costs.links.pairGBps));
    }
    prices.here[i] = copied;
  }
  // A combination of k messages and an operand of the rank's own touches k + 2 bytes for each byte of the result.  An
  // estimate counts half a byte less for one message, and half a byte more for each further one.
  prices.reduceUsPerByte = touch / 2;
  prices.copyUsPerByte = 2 * touch + operation;
  prices.leastDirectBytes = blocks ? static_cast<double>(kMostPacketBytes) * all.lanes + 1 : kLeastDirectBytes;
  return all;
}

CostModel deviceCostModel(const PlanRequest& r, Protocol protocol) {
  const DeviceCosts& costs = *r.device;
  const bool far = costs.links.nDevices() > 1;
  const int lanes = lanesOf(r, messageBytes(r), 1);
  const bool packets = costs.way == DeviceExecutor::Blocks && messageBytes(r) <= double(kMostPacketBytes) * lanes;
  const DeviceMessages& messages = packets ? costs.packet : costs.message;
  const DeviceMessage& message = far ? messages.far : messages.near;
  // All ranks of a device share its memory, and its port.
  const double share = std::min(rankGBps(costs, lanes), costs.memoryGBps / costs.links.mostRanks());
  const double copied = share / (protocol == Protocol::Direct ? 2 : 4);
  CostModel m;
  m.link.latencyUs = message.us();
  m.link.workShare = (message.sendUs + message.receiveUs) / message.us();
  m.link.bandwidthGBps = far ? std::min(copied, costs.links.portGBps / costs.links.mostRanks()) : copied;
  m.intra = m.inter = m.exchange = m.oneWay = m.link;
  m.reduceGBps = share;
  m.copyGBps = share / 2;
  return m;
}

double onePassUs(const DeviceCosts& costs, double bytes) { return costs.callUs + bytes * perByte(costs.memoryGBps); }

namespace {

/// What joins ranks at this level; null: not known.
const LinkProfile* linkOf(const PlanRequest& r, size_t level) {
  if (r.levels == nullptr || level >= r.levels->size()) return nullptr;
  const std::optional<LinkProfile>& link = (*r.levels)[level].link;
  return link ? &*link : nullptr;
}

/// Whether what joins ranks at this level are links of devices.
bool goesByDevice(const PlanRequest& r, size_t level) {
  const LinkProfile* link = linkOf(r, level);
  return r.device->insideHost != nullptr && link != nullptr && !link->betweenHosts;
}

/// Whether adapters read and write what goes by this level where devices have it.
bool goesByAdapter(const PlanRequest& r, size_t level) {
  const LinkProfile* link = linkOf(r, level);
  return r.device->byAdapters && link != nullptr && link->betweenHosts;
}

/// Copied by the device at both ends, at this rate.
sim::MessagePrice throughSlots(const DeviceCosts& costs, double copyUsPerByte, sim::MessagePrice price) {
  price.sendUs += costs.message.near.sendUs;
  price.receiveUs += costs.message.near.receiveUs;
  price.sendUsPerByte += copyUsPerByte;
  price.receiveUsPerByte += copyUsPerByte;
  return price;
}

sim::MessagePrice devicePrice(const DeviceCosts& costs) {
  const bool apart = costs.links.nDevices() > 1;
  sim::MessagePrice price = messagePrice(apart ? costs.message.far : costs.message.near, perByte(costs.memoryGBps));
  if (apart) price.wireUsPerByte = perByte(costs.links.portGBps);
  return price;
}

}  // namespace

void passThroughPinned(const PlanRequest& r, sim::Prices* prices) {
  const DeviceCosts& costs = *r.device;
  for (auto* levels : {&prices->copied, &prices->direct, &prices->here}) {
    for (size_t level = 0; level < levels->size(); ++level) {
      sim::MessagePrice& price = (*levels)[level];
      const double copied = goesByAdapter(r, level) ? 2 * perByte(costs.memoryGBps) : perByte(costs.pinnedGBps);
      price = goesByDevice(r, level) ? devicePrice(*costs.insideHost) : throughSlots(costs, copied, price);
      price.gatherUsPerByte = 2 * perByte(costs.memoryGBps);
    }
  }
  prices->reduceUsPerByte = perByte(costs.memoryGBps);
  prices->copyUsPerByte = 2 * perByte(costs.memoryGBps);
  prices->leastDirectBytes = 0;
}

}  // namespace tutti

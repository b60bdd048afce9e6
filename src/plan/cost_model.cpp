#include <algorithm>
#include <cmath>

#include "src/plan/device_prices.hpp"
#include "src/plan/request_parts.hpp"
#include "src/sim/memory.hpp"

namespace tutti {

namespace {

/// A channel that moves less than this is not worth its latency.
constexpr double kLeastBytesPerChannel = 1 << 20;
/// Reads and writes of a message that is copied into a slot and out of it.
constexpr double kTouchesOfMessage = 4;

}  // namespace

double messageBytes(const PlanRequest& r) {
  return static_cast<double>(r.shape.collective == Collective::Barrier ? 0 : r.shape.bytes);
}

std::string whyNot(const PlanRequest& r, const LinkCost& link, std::string_view on, Protocol protocol,
                   bool insideNode) {
  if (insideNode && r.device != nullptr) {
    const std::string why = whyNotOnDevice(r, protocol);
    if (!why.empty() || onDevices(r)) return why;
  }
  if (!link.available) return cat(on, " links have no ", protocolName(protocol), " protocol");
  if (protocol == Protocol::Inline && messageBytes(r) > static_cast<double>(link.mostBytes)) {
    return cat("inline takes up to ", link.mostBytes, " bytes");
  }
  if (protocol == Protocol::Direct && r.shape.collective == Collective::Barrier) return "a barrier moves no bytes";
  if (protocol == Protocol::Direct && insideNode && !r.directPossible) {
    return "not every rank's buffers can be read by its peers";
  }
  return "";
}

namespace {

/// The cheapest usable protocol for one message of the request.
MessageCost cheapestMessage(const PlanRequest& r, const Calibration& c, std::string_view on, bool insideNode) {
  MessageCost best{Protocol::Slots, HUGE_VAL};
  const ProtocolCosts* const costs = c.find(on);
  if (costs == nullptr) return best;
  for (const Protocol p : kAllProtocols) {
    const LinkCost& link = (*costs)[p];
    if (!whyNot(r, link, on, p, insideNode).empty()) continue;
    const double bytes = messageBytes(r), farness = c.farness(2 * bytes);
    const std::optional<double> measured = link.aloneUsOf(bytes);
    const double us = (measured ? *measured : link.costIn(bytes, farness, false)(bytes)) +
                      sim::kNewInput * link.freshUsPerByte(farness) * bytes;
    if (us < best.costUs) best = {p, us};
  }
  return best;
}

}  // namespace

Protocol interProtocol(const PlanRequest& r, const Calibration& c) {
  return cheapestMessage(r, c, r.links.inter->key, false).protocol;
}

std::string_view mainLink(const PlanRequest& r, const Calibration& c) {
  if (r.links.intra) return r.links.intra->key;
  if (r.links.inter) return r.links.inter->key;
  return c.links.empty() ? "" : std::string_view(c.links.front().key);  // one rank: any will do
}

int channelsFor(const PlanRequest& r, const Calibration& c) {
  if (r.overrides.nChannels > 0) return r.overrides.nChannels;
  if (!r.links.inter || r.links.inter->channelGBps <= 0) return 1;
  const double wire = c.at(*r.links.inter, Protocol::Slots).cost.bandwidthGBps;
  const double most = std::min({std::ceil(wire / r.links.inter->channelGBps), messageBytes(r) / kLeastBytesPerChannel,
                                static_cast<double>(r.mostChannels)});
  return std::max(1, static_cast<int>(most));
}

double mostInterGBps(const PlanRequest& r, const Calibration& c) {
  const double channel = r.links.inter->channelGBps;
  return channel > 0 ? channel * channelsFor(r, c) : HUGE_VAL;
}

double callBytes(const Shape& s) { return static_cast<double>(s.bytes) * blocksOfCall(s.collective, s.nRanks); }

double ranksOfNode(const Shape& s) {
  if (s.nodeOf.empty()) return s.nRanks;
  std::vector<int> ranks(s.nodeOf.size(), 0);
  for (const int node : s.nodeOf) ++ranks[static_cast<size_t>(node)];
  return *std::max_element(ranks.begin(), ranks.end());
}

double footprint(const PlanRequest& r) { return sim::footprintOf(r.shape, ranksOfNode(r.shape)); }

namespace {

/// Messages inside a node, as part of the request's call.
LinearCost insideNode(const PlanRequest& r, const Calibration& c, Protocol protocol, bool bothWays) {
  LinearCost link = c.at(*r.links.intra, protocol).costIn(callBytes(r.shape), c.farness(footprint(r)), bothWays);
  if (protocol != Protocol::Direct || r.links.intra->directReads != DirectReads::SystemCalls) return link;
  // Memory of another process that is not mapped costs the reader a system call for each message, and is copied whole
  // before it can be an operand: written once more and read once more.
  link.workShare = kSystemCallWorkShare;
  if (reduces(r.shape.collective)) link.bandwidthGBps = 1 / (1 / link.bandwidthGBps + 2 / c.copyGBps);
  return link;
}

LinearCost slower(const LinearCost& a, const LinearCost& b) {
  LinearCost both;
  both.latencyUs = std::max(a.latencyUs, b.latencyUs);
  both.bandwidthGBps = std::min(a.bandwidthGBps, b.bandwidthGBps);
  return both;
}

}  // namespace

MessageCost messageCost(const LinkProfile& link, size_t bytes, bool directPossible, const Calibration& c) {
  PlanRequest r;
  r.shape.bytes = bytes;
  r.directPossible = directPossible;
  return cheapestMessage(r, c, link.key, !link.betweenHosts);
}

namespace {

/// Messages of ranks on devices inside a host, by streams.
LinearCost deviceLink(const DeviceCosts& costs) {
  const bool apart = costs.links.nDevices() > 1;
  LinearCost link;
  link.latencyUs = (apart ? costs.message.far : costs.message.near).us();
  link.bandwidthGBps = costs.memoryGBps / kTouchesOfMessage / costs.links.mostRanks();
  if (apart) link.bandwidthGBps = std::min(link.bandwidthGBps, costs.links.portGBps / costs.links.mostRanks());
  return link;
}

/// As passThroughPinned() of prices.
void passThroughPinned(const DeviceCosts& costs, CostModel* m) {
  for (LinearCost* link : {&m->intra, &m->inter, &m->link, &m->exchange, &m->oneWay}) {
    const bool byAdapter = costs.byAdapters && link != &m->intra;
    link->latencyUs += costs.message.near.us();
    link->bandwidthGBps = 1 / (1 / link->bandwidthGBps + (byAdapter ? 4 / costs.memoryGBps : 2 / costs.pinnedGBps));
  }
  if (costs.insideHost != nullptr) m->intra = deviceLink(*costs.insideHost);
  m->reduceGBps = costs.memoryGBps;
  m->copyGBps = costs.memoryGBps / 2;
}

}  // namespace

CostModel costModel(const PlanRequest& r, const Calibration& c, Protocol protocol) {
  if (onDevices(r)) return deviceCostModel(r, protocol);
  CostModel m;
  m.intra = r.links.intra ? insideNode(r, c, protocol, goesBothWays(r.shape.collective)) : LinearCost{};
  m.exchange = r.links.intra ? insideNode(r, c, protocol, true) : LinearCost{};
  m.oneWay = r.links.intra ? insideNode(r, c, protocol, false) : LinearCost{};
  if (r.links.inter) {
    m.inter = c.at(*r.links.inter, r.links.intra ? interProtocol(r, c) : protocol).cost;
    m.inter.bandwidthGBps = std::min(m.inter.bandwidthGBps, mostInterGBps(r, c)) / r.wireShare;
    m.link = r.links.intra ? slower(m.intra, m.inter) : m.inter;
    m.exchange = r.links.intra ? slower(m.exchange, m.inter) : m.inter;
    m.oneWay = r.links.intra ? slower(m.oneWay, m.inter) : m.inter;
    if (!r.links.intra) m.intra = m.inter;
  } else {
    m.link = m.inter = m.intra;
  }
  m.reduceGBps = r.links.intra ? c.reduceGBpsIn(footprint(r)) : c.reduceGBps;
  m.copyGBps = r.links.intra ? c.copyGBpsIn(footprint(r)) : c.copyGBps;
  const bool systemCalls = r.links.intra && r.links.intra->systemCalls;
  m.ranksPerCore = std::max(1.0, r.links.ranksPerCore);
  const bool shared = m.ranksPerCore > 1 && r.links.intra;
  const bool hostsShare = shared && hostsShareCores(r);
  const auto setWork = [&](LinearCost* link) {
    if (shared) link->waitUs = handOverUs(c);
    if (hostsShare || (shared && !r.links.inter && !systemCalls)) {
      link->workShare = 1;  // nothing is on the way while a core is given from one rank to another
    } else if (systemCalls) {
      link->workShare = kSystemCallWorkShare;
    }
  };
  for (LinearCost* link : {&m.intra, &m.link, &m.exchange, &m.oneWay}) setWork(link);
  if (hostsShare) setWork(&m.inter);
  if (r.device != nullptr) passThroughPinned(*r.device, &m);
  return m;
}

}  // namespace tutti

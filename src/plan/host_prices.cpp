#include "src/plan/host_prices.hpp"

#include <algorithm>
#include <cmath>

#include "src/plan/device_prices.hpp"
#include "src/plan/request_parts.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

/// Copies in and out of an endpoint, from the rates of one stream and of one each way at once: in a row of messages one
/// way the slower end decides; both ways every rank has the work of both ends.
void divideCopies(double oneWayGBps, double bothWaysGBps, sim::MessagePrice* price) {
  const double slower = perByte(oneWayGBps), both = std::max(perByte(bothWaysGBps), slower);
  price->receiveUsPerByte = std::max(slower, both / 2);
  price->sendUsPerByte = std::min(both - slower, both / 2);
}

/// The receiver reads where it lies; memory of another process takes a system call, and operands are copied first.
sim::MessagePrice directPrice(const PlanRequest& r, const Calibration& c, const LinkProfile& on, double readBytes) {
  // Reads follow each other without waiting: as streams do, however few bytes there are.
  const double bytes = std::max<double>(callBytes(r.shape), kNearBytes), far = c.farness(footprint(r) + readBytes);
  const LinkCost& cost = c.at(on, Protocol::Direct);
  const bool systemCalls = on.directReads == DirectReads::SystemCalls;
  const LinearCost link = cost.costIn(bytes, far, goesBothWays(r.shape.collective));
  sim::MessagePrice price;
  const double share = systemCalls ? kSystemCallWorkShare : link.workShare;
  price.receiveUs = link.latencyUs * share;
  price.latencyUs = link.latencyUs - price.receiveUs;
  price.receiveUsPerByte = perByte(link.bandwidthGBps);
  price.freshUsPerByte = cost.freshUsPerByte(far);
  if (systemCalls) {
    const double further = std::clamp(r.links.ranksPerCore - 1, 0.0, kMostFurtherRanks);
    price.receiveUs += further * kColdReadUs;
    price.receiveUsPerByte += further * kColdReadUsPerByte;
  }
  if (systemCalls) price.operandUsPerByte = 2 * perByte(c.copyGBps);
  return price;
}

/// Between hosts: work of both ends, and a wire that messages share.
sim::MessagePrice wirePrice(const PlanRequest& r, const Calibration& c, const LinkProfile& on) {
  const LinearCost link = c.at(on, interProtocol(r, c)).cost;
  sim::MessagePrice price;
  const double nominalUs = 2 * link.latencyUs * link.workShare;
  double workUs = nominalUs;
  if (!on.workOf.empty()) {
    // Nothing is on the way there, so what a message takes is work, half of it at each end.  Between parts of one
    // machine that is all the work: what is taken for granted of links between hosts may be three times as much.
    const LinkCost& here = c.at(on.workOf, Protocol::Slots);
    const double hereUs = here.cost.latencyUs * kSystemCallWorkShare;
    workUs = hostsShareCores(r) ? hereUs : std::max(nominalUs, hereUs);
    price.sendUsPerByte = price.receiveUsPerByte =
        perByte(here.near.oneWay > 0 ? here.near.oneWay : here.cost.bandwidthGBps) / 2;
  }
  workUs = std::min(workUs, link.latencyUs * kMostWorkShare);
  price.sendUs = price.receiveUs = workUs / 2;
  price.latencyUs = link.latencyUs - std::max(workUs, std::min(nominalUs, link.latencyUs));
  price.wireUsPerByte = perByte(std::min(link.bandwidthGBps, mostInterGBps(r, c)));
  if (r.wire != WireFormat::Full) {
    const double packing = perByte(c.copyGBps) * kPackingWork;
    price.wireUsPerByte *= r.wireShare;
    price.sendUsPerByte = price.sendUsPerByte * r.wireShare + packing;
    price.receiveUsPerByte = price.receiveUsPerByte * r.wireShare + packing;
  }
  price.gatherUsPerByte = perByte(c.copyGBps);
  return price;
}

/// An operand in a slot, which is near memory, is read in the pass that combines it: from the other core's caches, or
/// as fast as the operators go.
double furtherUsPerByte(const Calibration& c, const sim::MessagePrice& price) {
  return std::max(sim::kFurtherOperands * price.receiveUsPerByte, perByte(c.reduceGBps));
}

sim::MessagePrice copiedPrice(const PlanRequest& r, const Calibration& c, const LinkProfile& on, Protocol protocol,
                              double roomBytes) {
  if (on.betweenHosts) return wirePrice(r, c, on);
  sim::MessagePrice price;
  const bool shared = r.links.ranksPerCore > 1;
  // What goes one way goes as a stream in a row of calls, however little it is.
  const bool stream = !goesBothWays(r.shape.collective) && !on.systemCalls;
  const double bytes = stream ? std::max<double>(callBytes(r.shape), kNearBytes) : callBytes(r.shape);
  const double far = c.farness(footprint(r) + roomBytes);
  const LinkCost& cost = c.at(on, protocol);
  const LinearCost oneWay = cost.costIn(bytes, far, false), bothWays = cost.costIn(bytes, far, true);
  const double work = oneWay.latencyUs * (on.systemCalls ? kSystemCallWorkShare
                                          : shared       ? kSharedWorkShare
                                                         : oneWay.workShare);
  price.sendUs = on.systemCalls || shared ? work / 2 : work;
  price.receiveUs = work - price.sendUs;
  price.latencyUs = oneWay.latencyUs - work;
  if (on.writesOnce) price.onceFromBytes = kLeastSharedBytes;
  // Sockets take what lies in the user's memory, slots are built piece by piece in any case.
  price.gatherUsPerByte = on.systemCalls ? perByte(c.copyGBps) : 0;
  if (cost.near.oneWay <= 0) {  // one message alone: both ends one after the other
    price.sendUsPerByte = price.receiveUsPerByte = perByte(oneWay.bandwidthGBps) / 2;
  } else {
    divideCopies(oneWay.bandwidthGBps, bothWays.bandwidthGBps, &price);
    // Either end may be the slower one of two sockets, by who is on a core first.
    if (on.systemCalls)
      price.sendUsPerByte = price.receiveUsPerByte = (price.sendUsPerByte + price.receiveUsPerByte) / 2;
  }
  price.furtherUsPerByte = furtherUsPerByte(c, price);
  if (on.systemCalls) price.furtherUsPerByte = price.receiveUsPerByte + perByte(c.reduceGBps);  // copied out first
  return price;
}

/// Between ranks of one core, from what both ends take of it.  Of a message that is as much as else: each end finds its
/// first caches filled by others.
sim::MessagePrice herePrice(const PlanRequest& r, const Calibration& c, const sim::MessagePrice& across,
                            const LinkCost& cost, double roomBytes) {
  if (cost.here.bandwidthGBps <= 0) return across;
  const double slowing = c.copyGBps / c.copyGBpsIn(footprint(r) + roomBytes);
  sim::MessagePrice price = across;
  price.latencyUs = 0;
  price.sendUsPerByte = price.receiveUsPerByte = perByte(cost.here.bandwidthGBps) / 2 * slowing;
  price.furtherUsPerByte = furtherUsPerByte(c, price);
  return price;
}

/// Work takes this many times as long where hosts share cores, else 1.
double coldWork(const PlanRequest& r, bool betweenHosts) {
  if (!r.links.nodesShareCores) return 1;
  const double further = std::clamp(r.links.ranksPerCore - 1, 0.0, kMostFurtherRanks);
  return 1 + further * (betweenHosts ? kColdWireWork : kColdWork);
}

void multiplyWork(double times, sim::MessagePrice* price) {
  for (double* work : {&price->sendUs, &price->receiveUs, &price->sendUsPerByte, &price->receiveUsPerByte,
                       &price->operandUsPerByte, &price->gatherUsPerByte, &price->freshUsPerByte})
    *work *= times;
  if (price->furtherUsPerByte) *price->furtherUsPerByte *= times;
}

}  // namespace

sim::Levels levelsOf(const PlanRequest& r) {
  sim::Levels levels;
  if (r.levels != nullptr) {
    for (size_t i = 0; i + 1 < r.levels->size(); ++i) levels.groupOf.push_back((*r.levels)[i].groupOf);
  } else if (!r.shape.nodeOf.empty()) {
    levels.groupOf.push_back(r.shape.nodeOf);
  }
  return levels;
}

sim::Prices pricesOf(const PlanRequest& r, const Calibration& c, Protocol protocol, const FurtherMemory& further) {
  sim::Prices prices;
  const auto set = [&](size_t level, const std::optional<LinkProfile>& on, double portGBps) {
    if (!on) return;  // of one rank
    const bool direct = protocol == Protocol::Direct && c.at(*on, Protocol::Direct).available;
    const bool has = protocol != Protocol::Direct && c.at(*on, protocol).available;
    sim::MessagePrice& copied = prices.copied[level] =
        copiedPrice(r, c, *on, has ? protocol : Protocol::Slots, further.roomBytes);
    sim::MessagePrice& read = prices.direct[level] = direct ? directPrice(r, c, *on, further.readBytes) : copied;
    prices.here[level] = herePrice(r, c, copied, c.at(*on, has ? protocol : Protocol::Slots), further.roomBytes);
    for (sim::MessagePrice* price : {&copied, &read, &prices.here[level]})
      multiplyWork(coldWork(r, on->betweenHosts), price);
    if (on->betweenHosts && hostsShareCores(r)) copied.lookUs = kColdLook * copied.receiveUs;
    if (portGBps <= 0) return;
    const double portUs = perByte(portGBps) * (on->betweenHosts ? r.wireShare : 1);
    copied.wireUsPerByte = read.wireUsPerByte = std::max(copied.wireUsPerByte, portUs);
  };
  if (r.levels != nullptr) {
    for (size_t i = 0; i < r.levels->size(); ++i) set(i, (*r.levels)[i].link, (*r.levels)[i].portGBps);
  } else {
    set(0, r.links.intra, 0);
    set(r.shape.nodeOf.empty() ? 0 : 1, r.links.inter, 0);
  }
  const double all = footprint(r) + (protocol == Protocol::Direct ? further.readBytes : further.roomBytes);
  prices.reduceUsPerByte = perByte(r.links.intra ? c.reduceGBpsIn(all) : c.reduceGBps);
  prices.copyUsPerByte = perByte(r.links.intra ? c.copyGBpsIn(all) : c.copyGBps);
  for (double* work : {&prices.reduceUsPerByte, &prices.copyUsPerByte}) *work *= coldWork(r, false);
  prices.leastDirectBytes = kLeastDirectBytes;
  if (r.device != nullptr) passThroughPinned(r, &prices);
  if (r.links.ranksPerCore > 1) {
    prices.nodesShareCores = r.links.nodesShareCores;
    const double together = prices.nodesShareCores ? r.shape.nRanks : ranksOfNode(r.shape);
    prices.cores = std::max(1, static_cast<int>(std::lround(together / r.links.ranksPerCore)));
    prices.turnUs = prices.passUs = handOverUs(c);
  }
  return prices;
}

}  // namespace tutti

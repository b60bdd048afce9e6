// Requests of CUDA ranks (PlanRequest::device) in the terms of estimates and of algorithms' formulas.
#pragma once

#include "src/plan/estimates.hpp"
#include "src/plan/planner.hpp"

namespace tutti {

/// Whether the device does the work: then cores, caches and links of the host have no part in what a call costs.
bool onDevices(const PlanRequest& request);

/// The levels that tell ranks apart where devices do the work: those of one device, of one socket, and all.
MachineLevels deviceLevels(const DeviceLinks& links);

/// Why the protocol cannot serve such a request; empty: it can.  Of the three that ways of CUDA ranks have each only
/// one at a time, since the executor decides by itself what is a packet, what is lent and what passes through slots.
std::string whyNotOnDevice(const PlanRequest& request, Protocol protocol);

/// A estimate's prices and what stands beside it.
struct DevicePrices {
  sim::Prices prices;
  int lanes = 1;         // that each of the schedule's lanes becomes
  Shape shape;           // whose slice is that of all of them
  double callUs = 0;     // to be added
  double leastUs = 0;    // what the memory of the busiest device takes
  double waitedFor = 1;  // as of DeviceCosts
};
DevicePrices devicePrices(const PlanRequest& request, Protocol protocol, const sim::Bound& bound, double chunkBytes);

/// What the formulas go by where onDevices().
CostModel deviceCostModel(const PlanRequest& request, Protocol protocol);

/// A call that one kernel serves by passing over the buffers of all ranks of a device.  bytes: that it reads and
/// writes.
double onePassUs(const DeviceCosts& costs, double bytes);

/// Prices of the host's links as ranks on devices have them by Proxy: bytes pass through pinned memory on the way to
/// them, but for links inside a host that are of devices.
void passThroughPinned(const PlanRequest& request, sim::Prices* prices);

}  // namespace tutti

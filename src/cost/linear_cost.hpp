// What the planner compares: linear costs per class of link; and how far memory is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti {

/// Microseconds of a byte.
inline double perByte(double gbps) { return 1 / (gbps * 1e3); }

/// latency + bytes / bandwidth, for one message over one link.  A value.
struct LinearCost {
  double latencyUs = 0;
  double bandwidthGBps = 1;  // 1e9 bytes a second
  /// Waiting for a message, on top: where ranks share cores, the wait ends when the core has been handed on and back.
  double waitUs = 0;
  /// The part of the latency that is a rank's own work, done for one message after the other; the rest is the way,
  /// which messages to different peers travel at the same time.
  double workShare = 0.25;
  double operator()(double bytes) const { return latencyUs + waitUs + bytes / (bandwidthGBps * 1e3); }
};

/// The costs an algorithm may ask for.  `intra` joins ranks of one node, `inter` ranks of different nodes; `link` is
/// the slower of those that occur in this communicator, for algorithms that do not know nodes.  They are for what most
/// of the collective does: all ranks sending and receiving at once, or for rooted ones bytes that go one way.
struct CostModel {
  LinearCost intra;
  LinearCost inter;
  LinearCost link;
  /// As `link`, for a phase of a rooted collective in which every rank sends and receives at once.
  LinearCost exchange;
  /// As `link`, for a phase in which bytes go one way.
  LinearCost oneWay;
  /// Reading one more operand in a reduction, microseconds per byte = 1 / (reduceGBps * 1e3); latency unused.
  double reduceGBps = 10;
  /// Local copy.
  double copyGBps = 10;
  /// Ranks that share one core's time (>= 1): messages of different ranks do not overlap beyond this.
  double ranksPerCore = 1;

  double reduceUs(double bytes) const { return bytes / (reduceGBps * 1e3); }
  double copyUs(double bytes) const { return bytes / (copyGBps * 1e3); }
};

/// How far memory of `footprint` bytes is: 0 up to nearBytes, 1 from farBytes on, in between by the logarithm.
inline double farness(double footprint, double nearBytes, double farBytes) {
  const double part = std::log(std::max(footprint, 1.0) / nearBytes) / std::log(farBytes / nearBytes);
  return std::clamp(part, 0.0, 1.0);
}

}  // namespace tutti

// What is known of a request and its links, for the files of the planner.
#pragma once

#include "src/plan/planner.hpp"

namespace tutti {

/// Where it was not measured: microseconds from sched_yield() of one rank until the next on its core has looked for its
/// messages.  0.5 us between threads and 0.7 us between processes for the switch alone, on a virtual Emerald Rapids
/// Xeon.
inline constexpr double kHandOverUs = 0.8;
/// How many times what it takes between two threads it takes between ranks, which are processes, and meet a core that
/// up to three others have had: that Xeon, and 2.2 us beside 2.2 (two processes) and 3.4 (four) on a virtual Skylake
/// one whose kernel changes page tables on every way in.
inline constexpr double kRanksHandOver = 1.6;
inline double handOverUs(const Calibration& c) {
  return c.handOverUs > 0 ? kRanksHandOver * c.handOverUs : kHandOverUs;
}
/// The part of a message's latency that is work where ranks take turns on a core; for the other half it is on its way:
/// who looks for it at once has to wait, and hands the core on.
inline constexpr double kSharedWorkShare = 0.5;
/// Extra cost of reading another process's memory, per read and per byte, for every further rank of the core.  Ranks
/// that take turns evict each other's caches and page tables, which the kernel needs for such a read.  Measured with
/// allgather and alltoall of 16 to 512 KiB blocks on 4 and 8 ranks of 2 cores of the same machine.
inline constexpr double kColdReadUs = 0.3, kColdReadUsPerByte = 2.5e-5;
/// More further ranks than this make no difference.
inline constexpr double kMostFurtherRanks = 3;
/// Prices where ranks of several hosts share cores, as containers of one machine do.  Fitted to all ways of four
/// collectives, 8 bytes to 512 KiB, among 4 containers of 2 ranks on 2 cores of that Skylake Xeon, over wires of 1 and
/// 10 Gbit/s; on an EPYC, whose messages take 0.4 of the time, 8 bytes and 8 KiB are expected at 0.5 to 1.2 of what
/// they take (perf/results/hosts-2core-epyc.txt).  Ranks that have a core each add nothing.
/// Work inside a host takes so much longer for every further rank of the core, as caches are cold.
inline constexpr double kColdWork = 0.2;
/// Work of messages between hosts takes so much longer, as the kernel's tables are cold, too.
inline constexpr double kColdWireWork = 0.9;
/// A look for a message between hosts that has not come takes this part of receiving one.
inline constexpr double kColdLook = 0.5;
/// The part of a message's latency that is work where all of it but the wake-up is system calls.
inline constexpr double kSystemCallWorkShare = 0.9;

/// How many times what copying a byte takes it takes to pack it for the wire, or to unpack it.
inline constexpr double kPackingWork = 1;

/// The part of a message between hosts that is work of its ends at most.
inline constexpr double kMostWorkShare = 0.8;

/// Whether hosts are parts of one machine that has not a core for each rank.
inline bool hostsShareCores(const PlanRequest& r) {
  return r.links.inter && r.links.nodesShareCores && r.links.ranksPerCore > 1;
}

/// The largest message of any algorithm: ops move chunks, and no chunk is larger than the shape's vector or block.
double messageBytes(const PlanRequest& r);
/// Bytes that the call is about, all blocks together.
double callBytes(const Shape& s);
/// Ranks of the fullest node.
double ranksOfNode(const Shape& s);
/// sim::footprintOf() of the fullest node.
double footprint(const PlanRequest& r);

/// Why the protocol, which costs `cost` on this kind of link, cannot serve this request there; empty: it can.
std::string whyNot(const PlanRequest& r, const LinkCost& cost, std::string_view link, Protocol protocol,
                   bool insideNode);
/// The cheapest protocol between nodes.
Protocol interProtocol(const PlanRequest& r, const Calibration& c);
/// publishes() of planner.hpp, for a call of so many bytes.
bool publishes(const PlanRequest& r, const Algorithm& a, size_t bytes);
/// The kind of link that `protocol` of a candidate is about: its key.
std::string_view mainLink(const PlanRequest& r, const Calibration& c);
int channelsFor(const PlanRequest& r, const Calibration& c);
/// What the channels of the request carry between nodes, GB/s, where they are slower than the wire.
double mostInterGBps(const PlanRequest& r, const Calibration& c);

}  // namespace tutti

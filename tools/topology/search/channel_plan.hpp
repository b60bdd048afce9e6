// Which ways data goes round a set of devices: rings and trees per channel, found on the machine graph so that together
// they use its links as fully as they can, each link's bandwidth spent once.  Values; hold no reference to the graph.
//
// A ring passes every device of every host once: host after host, entering by one network port and leaving by one.  A
// tree is a chain inside each host, whose first device talks to the hosts above and below in one of two binary trees.
#pragma once

#include <string>
#include <vector>

#include "src/topology/graph.hpp"
#include "src/topology/paths.hpp"

namespace tutti::topology {

/// The part of a ring or tree that lies in one host.
struct Stretch {
  int host = -1;             // node of the graph
  int entry = -1;            // port by which data comes in; -1: from no other host
  int exit = -1;             // port by which it leaves; of a tree the same as entry
  std::vector<int> devices;  // in order; of a tree the first is the one that talks to other hosts
  int parent = -1;           // of a tree: index of the stretch above; -1 at the root.  Unused in rings
  bool operator==(const Stretch&) const = default;
};

struct Channel {
  std::vector<Stretch> stretches;  // a ring: in ring order
  bool operator==(const Channel&) const = default;
};

/// Links that are full where the plan cannot be widened: several alike are one entry.
struct Limit {
  int link = -1;  // of the graph, the first of them
  int count = 0;
  double gbps = 0;  // of each; links from one GPU to several NVSwitches are one
  bool operator==(const Limit&) const = default;
};

enum class Pattern { Ring, Tree };
const char* patternName(Pattern pattern);  // "ring", "tree"

/// All rings, or all trees.
struct ChannelSet {
  Pattern pattern = Pattern::Ring;
  std::vector<Channel> channels;
  /// GB/s of each channel.  A ring carries it on every edge; a tree upwards and downwards at the same time.
  double gbps = 0;
  /// No set of rings (trees) over these paths carries more, GB/s; 0 where that was not proven.
  double boundGBps = 0;
  PathClass intra = PathClass::Loc;  // the farthest hop between devices of a host
  PathClass inter = PathClass::Loc;  // the farthest hop between device and port; Loc with one host
  bool crossNic = false;             // hosts are entered and left by different ports
  std::vector<Limit> limits;

  double totalGBps() const { return gbps * static_cast<double>(channels.size()); }
  bool operator==(const ChannelSet&) const = default;
};

struct ChannelPlan {
  ChannelSet rings, trees;
  bool operator==(const ChannelPlan&) const = default;
};

enum class CrossNic { Never, Always, Auto };  // Auto: where it adds a twentieth or more

struct ChannelQuestion {
  /// GPUs or NUMA nodes, each once; hosts take part in the order of their first device, devices of a host may be given
  /// in any order.  Empty: all GPUs of the graph; all NUMA nodes if there are none.
  std::vector<int> devices;
  CrossNic crossNic = CrossNic::Auto;
  int mostChannels = 64;
};

/// The same graph and question give the same plan on every rank: no clock, no chance, ties go to the lower index. Hosts
/// that are alike are searched once.
/// Errors: InvalidArgument for a device that is given twice or is neither GPU nor NUMA node, for mostChannels < 1, and
/// where a device cannot be reached: it is named.
Result<ChannelPlan> planChannels(const Graph& graph, const ChannelQuestion& question);

/// The devices that the question means, in order, checked.
Result<std::vector<int>> devicesOf(const Graph& graph, const ChannelQuestion& question);

/// Every channel visits all devices once, stretches are within their hosts, parents make one tree, ports are of the
/// stretch's host.  "" or the first complaint.
std::string check(const Graph& graph, const std::vector<int>& devices, const ChannelSet& set);

/// What crosses each link, GB/s in its busier direction, when all channels run: [link of the graph].
/// Errors: as planChannels.
Result<std::vector<double>> linkLoads(const Graph& graph, const ChannelSet& set);

/// Lines for people: totals, classes, limits, every channel's order.
std::string toText(const Graph& graph, const ChannelPlan& plan);

}  // namespace tutti::topology

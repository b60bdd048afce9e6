// Machines that the search tests are made on, and what no ring through them can exceed.
#pragma once

#include <algorithm>
#include <vector>

#include "src/topology/complete.hpp"
#include "src/topology/graph.hpp"
#include "src/topology/merge.hpp"
#include "tools/topology/search/channel_plan.hpp"

namespace tutti::topology {

struct Lanes {
  int a, b, count;
};

/// Two sockets (10 GB/s between), GPUs spread evenly over them behind 12 GB/s of PCIe each, `each` GB/s per lane.
inline Graph twoSockets(int nGpus, const std::vector<Lanes>& lanes, double each, int sm = 70) {
  Graph g;
  const int host = g.add({.kind = NodeKind::Host, .name = "box"});
  std::vector<int> numas, gpus;
  for (int i = 0; i < 2; ++i) numas.push_back(g.add({.kind = NodeKind::Numa, .parent = host, .index = i}));
  g.connect({.a = numas[0], .b = numas[1], .kind = LinkKind::Socket, .gbps = 10});
  for (int i = 0; i < nGpus; ++i) {
    const int numa = numas[static_cast<size_t>(i / ((nGpus + 1) / 2))];
    Node gpu{.kind = NodeKind::Gpu, .parent = numa, .index = i};
    gpu.busId = cat("0000:0", i, ":00.0");
    gpu.gpu.sm = sm;
    gpus.push_back(g.add(gpu));
    g.connect({.a = numa, .b = gpus.back(), .kind = LinkKind::Pci, .gbps = 12});
  }
  for (const Lanes& l : lanes) {
    g.connect({.a = gpus[static_cast<size_t>(l.a)],
               .b = gpus[static_cast<size_t>(l.b)],
               .kind = LinkKind::NvLink,
               .count = l.count,
               .gbps = each * l.count});
  }
  TUTTI_ASSERT(complete(g).ok());
  return g;
}

/// DGX-1 with V100: the hybrid cube mesh, six NVLinks per GPU.
inline Graph dgx1() {
  return twoSockets(8,
                    {{0, 3, 2},
                     {0, 4, 2},
                     {1, 2, 2},
                     {1, 5, 2},
                     {2, 3, 2},
                     {4, 7, 2},
                     {5, 6, 2},
                     {6, 7, 2},
                     {0, 1, 1},
                     {0, 2, 1},
                     {1, 3, 1},
                     {2, 6, 1},
                     {3, 7, 1},
                     {4, 5, 1},
                     {4, 6, 1},
                     {5, 7, 1}},
                    20);
}

/// The least that NVLinks carry out of any set of the devices: every ring leaves the set at least once.
inline double leastCut(const Graph& g, const std::vector<int>& devices) {
  double least = 1e300;
  for (size_t set = 1; set + 1 < size_t{1} << devices.size(); ++set) {
    const auto side = [&](int node) {
      const auto at = std::find(devices.begin(), devices.end(), node);
      return at == devices.end() ? -1 : static_cast<int>(set >> (at - devices.begin()) & 1);
    };
    double out = 0;
    for (const Link& l : g.links) {
      const bool lane = l.kind == LinkKind::NvLink || l.kind == LinkKind::Xgmi;
      if (lane && side(l.a) >= 0 && side(l.b) >= 0 && side(l.a) != side(l.b)) out += l.gbps;
    }
    least = std::min(least, out);
  }
  return least;
}

/// `n` hosts like the one of the graph.
inline Graph hostsLike(const Graph& one, int n) {
  std::vector<Graph> copies(static_cast<size_t>(n), one);
  for (int h = 0; h < n; ++h) {
    Node& host = copies[static_cast<size_t>(h)].nodes.front();
    host.hostHash = static_cast<uint64_t>(h) + 1;
    host.name = cat("host ", h);
  }
  auto merged = merge(copies);
  TUTTI_ASSERT(merged.ok());
  return *merged;
}

/// "" if the plan is sound: every channel passes all devices once and no link carries more than it can.
inline std::string complaintAbout(const Graph& g, const std::vector<int>& devices, const ChannelPlan& plan) {
  for (const ChannelSet* set : {&plan.rings, &plan.trees}) {
    if (const std::string complaint = check(g, devices, *set); !complaint.empty()) return complaint;
    const auto loads = linkLoads(g, *set);
    if (!loads.ok()) return loads.status().message();
    for (size_t i = 0; i < loads->size(); ++i) {
      if ((*loads)[i] > g.links[i].gbps * (1 + 1e-5)) {
        return cat(patternName(set->pattern), "s: ", describe(g, g.links[i].a), " - ", describe(g, g.links[i].b),
                   " carries ", (*loads)[i], " of ", g.links[i].gbps, " GB/s");
      }
    }
    if (set->boundGBps > 0 && set->totalGBps() > set->boundGBps * (1 + 1e-5)) {
      return cat(patternName(set->pattern), "s: ", set->totalGBps(), " GB/s is above the bound ", set->boundGBps);
    }
  }
  return {};
}

}  // namespace tutti::topology

#include "tools/cluster/machine_defaults.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <set>

namespace tutti::sim {
namespace {

using topology::Graph;
using topology::LinkKind;

/// Figures of a generation of GPUs.
struct GpuFigures {
  int sm;             // from this compute capability (x 10) on
  double memoryGBps;  // of copies
  double blockGBps;   // that one block moves
};

// Memory: copies measured on A100 and H100 (Azure AI benchmarking guide, 2024), what matrix products of XLA's tables
// (2025) reach on B200, else four fifths of the data sheet (V100 900, T4 320, RTX 5090 1792).  Blocks: what NCCL plans
// with for one channel of a ring (src/graph/tuning.cc, perChMaxRingLL128Bws).
constexpr GpuFigures kFigures[] = {{120, 1430, 40}, {100, 6500, 40}, {90, 2900, 36.7},
                                   {80, 1610, 20},  {75, 256, 20},   {0, 720, 20}};
// MI300X: four fifths of 5300; blocks as A100's, for want of a published figure.
constexpr GpuFigures kAmd = {0, 4240, 20};

/// Combining reads two operands and writes one.
constexpr double kTrafficOfReduction = 3;
/// Channels beside those that copies alone need: a channel idles while its message is under way.
constexpr double kSpare = 1.25;
constexpr double kMostChannels = 32;  // of NCCL before Blackwell
/// A hop of the slowest protocol (defaultNear), and the part of a slice's time that it may take.
constexpr double kHopUs = 3.4, kHopShare = 0.03;
constexpr double kLeastSlice = 2 << 20, kMostSlice = 16 << 20;

const GpuFigures& figuresOf(const topology::GpuInfo& gpu) {
  if (!gpu.gcn.empty()) return kAmd;
  return *std::ranges::find_if(kFigures, [&](const GpuFigures& f) { return gpu.sm >= f.sm; });
}

/// GPUs that a GPU has links of its own to.
int directPeers(const Graph& machine, int gpu) {
  std::set<int> peers;
  for (const topology::Link& link : machine.links) {
    const bool lane = link.kind == LinkKind::NvLink || link.kind == LinkKind::Xgmi;
    const int peer = link.a == gpu ? link.b : link.b == gpu ? link.a : -1;
    if (lane && peer >= 0 && machine.nodes[static_cast<size_t>(peer)].kind == topology::NodeKind::Gpu)
      peers.insert(peer);
  }
  return static_cast<int>(peers.size());
}

MachineDefaults defaultsOfGpu(const Graph& machine, int gpu) {
  const GpuFigures& figures = figuresOf(machine.nodes[static_cast<size_t>(gpu)].gpu);
  const double port = portGBps(machine, gpu);
  const double channels = std::clamp(std::ceil(kSpare * port / figures.blockGBps - 1e-9), 1.0, kMostChannels);
  const double slice = std::clamp(kHopUs * port * 1e3 / (kHopShare * channels), kLeastSlice, kMostSlice);
  return {figures.memoryGBps / kTrafficOfReduction, static_cast<int>(channels),
          static_cast<double>(std::bit_ceil(static_cast<size_t>(slice))), std::max(1, directPeers(machine, gpu))};
}

}  // namespace

double portGBps(const Graph& machine, int gpu) {
  double lanes = 0, pcie = 0;
  for (const topology::Link& link : machine.links) {
    if (link.a != gpu && link.b != gpu) continue;
    if (link.kind == LinkKind::NvLink || link.kind == LinkKind::Xgmi) lanes += link.gbps;
    if (link.kind == LinkKind::Pci) pcie = std::max(pcie, link.gbps);
  }
  return lanes > 0 ? lanes : pcie;
}

MachineDefaults defaultsOf(const Graph& machine) {
  MachineDefaults least;
  for (const int gpu : machine.all(topology::NodeKind::Gpu)) {
    const MachineDefaults own = defaultsOfGpu(machine, gpu);
    if (least.reduceGBps == 0 || own.reduceGBps < least.reduceGBps) least = own;
  }
  return least;
}

}  // namespace tutti::sim

// What NCCL's parts cost: protocols, hops, blocks of a GPU generation.  One constant, one source; docs/simulation.md
// has the table.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "src/topology/graph.hpp"

namespace tutti::nccl_model {

/// How data and the news that they are there cross a link.
enum class Protocol {
  LL,      // 4 bytes of flag with every 4 of data: no fence, half the wire
  LL128,   // 8 bytes of flag with every 120 of data, in lines that NVLink keeps whole
  Simple,  // slices, a fence, then a flag of its own
};
inline constexpr std::array kProtocols = {Protocol::LL, Protocol::LL128, Protocol::Simple};
std::string_view nameOf(Protocol protocol);

/// NCCL's algorithms.
enum class Way { Ring, Tree, Nvls, NvlsTree, NvlsSharp, Pairs };
inline constexpr std::array kWays = {Way::Ring, Way::Tree, Way::Nvls, Way::NvlsTree, Way::NvlsSharp, Way::Pairs};
std::string_view nameOf(Way way);

enum class Hop { NvLink, Pci, Net };

/// By number of nodes: one, two, more.
using ByNodes = std::array<double, 3>;

/// A generation of GPUs.  Rates in GB/s; those of one channel are what its block of threads keeps up with.
struct GpuPart {
  std::string_view name;
  int sm;                        // from this compute capability (x 10) on
  double llGBps;                 // LL: all channels of a node together
  ByNodes ringLl128, treeLl128;  // a channel
  ByNodes tree, nvlsTree;        // a channel; 0: has none
  double nvlsShare;              // of its links' rate that reductions in the switch reach; 0: has none
  int nvlsChannels, nvlsChannelsAcross;
  std::span<const double> inside, across;  // rates that the search tries for a channel
};

/// nullptr for GPUs that do not run NCCL.
const GpuPart* partOf(const topology::GpuInfo& gpu);

/// Before the first hop.
double baseUs(Way way, Protocol protocol);
/// From one GPU to the next.
double hopUs(Way way, Protocol protocol, Hop hop);
/// LL between nodes, all channels together.
double llAcrossGBps(bool amdCpu, int nodes);
/// Share of a tree's rate that calls of this size reach.
double treeShare(Protocol protocol, double bytes);
/// Of a network request, by the processor.
double postUs(bool amdCpu);

/// A block's thread groups meet for so long in every loop of a reduction in the switch: a fence and a flag.
double loopSyncUs();
/// The rate at which one block of a tree by Simple passes data up, with a sum.
double blockReducesGBps();
/// The rate at which it passes data down, unchanged.
double blockCopiesGBps();
/// LL: what one block sends.
double llBlockGBps(const GpuPart& gpu);
/// The time to launch one GPU's kernel, for a thread that launches several.
double kernelLaunchUs();
/// What Simple rings take between nodes, times their hops' sum.
double plateauOfRing(const GpuPart& gpu);

inline constexpr double kLineShare = 0.92;  // of the wire that LL128 and trees carry as data
inline constexpr double kMostHeads = 32;    // GPUs that have a part reduced by the switch
inline constexpr int kLlThreads = 512, kLl128Threads = 640, kSimpleThreads = 512;

}  // namespace tutti::nccl_model

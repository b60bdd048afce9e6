#include "tools/nccl_model/parts.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tutti::nccl_model {
namespace {

// NCCL 2.30.7, src/graph/search.cc: rates tried for a channel.
constexpr double kInside80[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kInside90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kInside100[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double kAcross80[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12};
constexpr double kAcross90[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};
constexpr double kAcross100[] = {96, 86,   80, 48, 45.1, 42, 40,  30,  24,   22,
                                 20, 17.5, 15, 12, 6,    3,  2.4, 1.2, 0.24, 0.12};

// NCCL 2.30.7, src/graph/tuning.cc (llMaxBws, perChMax*, nvlsEfficiency) and src/transport/nvls.cc (channels).
constexpr GpuPart kParts[] = {
    {"Blackwell",
     100,
     282,
     {40, 40, 40},
     {55.6, 31.67, 20},
     {70, 42.8, 24},
     {0, 96, 80},
     0.74,
     24,
     32,
     kInside100,
     kAcross100},
    {"Hopper",
     90,
     141,
     {36.7, 36.7, 36.7},
     {36.7, 36.7, 29},
     {38.7, 41.4, 36},
     {0, 57.7, 45.5},
     0.85,
     16,
     16,
     kInside90,
     kAcross90},
    {"Ampere", 80, 87.7, {20, 20, 20}, {20, 20, 20}, {24, 23.6, 17.8}, {}, 0, 0, 0, kInside80, kAcross80},
    {"Volta", 0, 39, {20, 20, 20}, {20, 20, 20}, {26.5, 18.5, 10}, {}, 0, 0, 0, kInside80, kAcross80},
};

using ByProtocol = std::array<double, 3>;

// NCCL 2.30.7, src/graph/tuning.cc: baseLatencies, hwLatencies.  Its base of reductions in the switch is part of the
// hop there; what its mechanism takes here is the base of a ring by Simple.
constexpr ByProtocol kRingBase = {6.6, 14, 8.4}, kTreeBase = {6.8, 14, 8.4};
constexpr ByProtocol kRingHops[] = {{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14}};
constexpr ByProtocol kTreeHops[] = {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14}};
constexpr double kNvlsHops[] = {25, 25, 18}, kNvlsTreeHops[] = {25, 25, 20.9};

// NCCL 2.30.7, src/graph/tuning.cc: treeCorrectionFactor, by powers of two from 64 bytes on.
constexpr int kShares = 24;
constexpr double kTreeShare[3][kShares] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

constexpr size_t at(Protocol protocol) { return static_cast<size_t>(protocol); }
constexpr size_t at(Hop hop) { return static_cast<size_t>(hop); }

}  // namespace

std::string_view nameOf(Protocol protocol) {
  switch (protocol) {
    case Protocol::LL: return "LL";
    case Protocol::LL128: return "LL128";
    case Protocol::Simple: return "Simple";
  }
  return "?";
}

std::string_view nameOf(Way way) {
  switch (way) {
    case Way::Ring: return "ring";
    case Way::Tree: return "tree";
    case Way::Nvls: return "nvls";
    case Way::NvlsTree: return "nvlstree";
    case Way::NvlsSharp: return "nvls+sharp";
    case Way::Pairs: return "pairs";
  }
  return "?";
}

const GpuPart* partOf(const topology::GpuInfo& gpu) {
  if (!gpu.gcn.empty()) return nullptr;
  return std::ranges::find_if(kParts, [&](const GpuPart& part) { return gpu.sm >= part.sm; });
}

double baseUs(Way way, Protocol protocol) { return (way == Way::Tree ? kTreeBase : kRingBase)[at(protocol)]; }

double hopUs(Way way, Protocol protocol, Hop hop) {
  switch (way) {
    case Way::Tree: return kTreeHops[at(hop)][at(protocol)];
    case Way::Nvls:
    case Way::NvlsSharp: return kNvlsHops[at(hop)];
    case Way::NvlsTree: return kNvlsTreeHops[at(hop)];
    case Way::Ring:
    case Way::Pairs: break;
  }
  return kRingHops[at(hop)][at(protocol)];
}

double llAcrossGBps(bool amdCpu, int nodes) {
  if (nodes == 2) return amdCpu ? 22.5 : 39;
  return amdCpu ? 19 : 20.4;
}

double loopSyncUs() {
  // ATLAHS, NPKit on GH200: receive, reduce, send by Simple takes 2.1 us for 4 KiB and 1.8 for 32 KiB.
  return 2;
}

// ATLAHS, NPKit on GH200: 1 MiB received, reduced and sent by Simple in 28.1 us, received, copied and sent in 38.2.
double blockReducesGBps() { return 37.3; }
double blockCopiesGBps() { return 27.4; }

double llBlockGBps(const GpuPart& gpu) {
  // ATLAHS, NPKit on GH200: 32 KiB in 3.3 us.  Other generations in proportion to what NCCL takes a channel for by
  // LL128: its figures for all channels together go by the links.
  constexpr double kHopperBlock = 9.9, kHopper = 36.7;
  return kHopperBlock * gpu.ringLl128[0] / kHopper;
}

double treeShare(Protocol protocol, double bytes) {
  if (bytes < 64) return 1;
  const int power = static_cast<int>(std::log2(bytes / 64));
  return power < kShares - 1 ? kTreeShare[at(protocol)][power] : 1;
}

double kernelLaunchUs() {
  // NVIDIA/nccl-tests#123: 33.7 us for the eight GPUs of a process, of which no kernel takes as long.
  return 4.2;
}

double postUs(bool amdCpu) { return amdCpu ? 2 : 1; }

double plateauOfRing(const GpuPart& gpu) { return gpu.sm < 80 ? 1.9 : 1.4; }

}  // namespace tutti::nccl_model

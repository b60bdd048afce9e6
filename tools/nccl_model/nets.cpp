#include "tools/nccl_model/nets.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::nccl_model {
namespace {

// aws-ofi-nccl, src/tuner/nccl_ofi_regions.cpp: where its regions of allreduces end.
constexpr RegionEnd kP5Trees[] = {{16, 31457280},    {32, 37748736},    {64, 117440512},
                                  {128, 301989888},  {256, 301989888},  {512, 335544320},
                                  {1024, 536870912}, {2048, 402653184}, {4096, 402653184}};
constexpr Region kP5[] = {{Way::Tree, Protocol::LL128, kP5Trees}, {Way::NvlsTree, Protocol::Simple, {}, 2}};

constexpr RegionEnd kP6TreesLl[] = {{16, 393216}, {1024, 393216}};
constexpr RegionEnd kP6Trees[] = {{16, 4718592},   {32, 18350080},   {64, 40370176},   {128, 57147392},
                                  {256, 72876032}, {1024, 96993280}, {2048, 106430464}};
constexpr RegionEnd kP6SwitchFirst[] = {{16, 4718592}, {32, 18350080}, {64, 50855936}, {128, 90701824}};
constexpr RegionEnd kP6Rings[] = {{16, 4718592}, {32, 133693440}, {64, 120061952}, {128, 90701824}};
constexpr RegionEnd kP6Switch[] = {
    {16, 1e15}, {32, 435159040}, {64, 1072693248}, {512, 10737418240.0}, {1500, 34359738368.0}};
constexpr Region kP6[] = {{Way::Tree, Protocol::LL, kP6TreesLl},
                          {Way::Tree, Protocol::LL128, kP6Trees},
                          {Way::NvlsTree, Protocol::Simple, kP6SwitchFirst},
                          {Way::Ring, Protocol::LL128, kP6Rings},
                          {Way::NvlsTree, Protocol::Simple, kP6Switch},
                          {Way::Ring, Protocol::Simple, {}}};

/// Beyond the table its last figure counts, before it there is none.
double endAt(std::span<const RegionEnd> ends, double ranks) {
  if (ranks < ends.front().ranks) return 0;
  for (size_t i = 1; i < ends.size(); ++i) {
    const RegionEnd &a = ends[i - 1], &b = ends[i];
    if (ranks > b.ranks) continue;
    const double part = std::log2(ranks / a.ranks) / std::log2(b.ranks / a.ranks);
    return a.bytes * std::pow(b.bytes / a.bytes, part);
  }
  return ends.back().bytes;
}

// Sources, aws-ofi-nccl (2026-08):
// - src/platform-aws.cpp: the latencies, buffers and chunks that it tells NCCL; P4 sends, the others write.
// - src/tuner/nccl_ofi_model.cpp: the time of a hop (20 us: 15 of the adapter, 5 of NCCL), 3 us more by Simple.
// - include/nccl_ofi_param.h: a message of more than 8 KiB waits for the receiver's word.
// libfabric, prov/efa: the receiver reads a GPU's message of more than one packet, which takes a way there and back
// more.
constexpr NetPart kNets[] = {
    {.name = "EFA of P4",
     .vendor = 0x1d0f,
     .device = 0xefa0,
     .toldUs = 75,
     .keepsLines = false,
     .packetBytes = 8 << 10,
     .asksEach = 2,
     .bufferBytes = 8 << 20},
    {.name = "EFA of P5",
     .vendor = 0x1d0f,
     .device = 0xefa1,
     .toldUs = 75,
     .packetBytes = 8 << 10,
     .asksFirst = 1,
     .bufferBytes = 8 << 20,
     .switchChunk = 512 << 10,
     .tuner = kP5},
    {.name = "EFA of P5en",
     .vendor = 0x1d0f,
     .device = 0xefa2,
     .toldUs = 35,
     .packetBytes = 8 << 10,
     .asksFirst = 1,
     .bufferBytes = 8 << 20,
     .switchChunk = 512 << 10},
    {.name = "EFA of P6",
     .vendor = 0x1d0f,
     .device = 0xefa3,
     .toldUs = 35,
     .packetBytes = 8 << 10,
     .asksFirst = 1,
     .bufferBytes = 8 << 20,
     .switchChunk = 512 << 10,
     .tuner = kP6},
    {.name = "InfiniBand"},
};

}  // namespace

const NetPart& netPartOf(const topology::PciInfo& pci) {
  return *std::ranges::find_if(kNets, [&](const NetPart& part) {
    return part.vendor < 0 || (part.vendor == pci.vendor && part.device == pci.device);
  });
}

const Region* regionOf(const NetPart& net, int nodes, double bytes) {
  constexpr int kPerNode = 8;
  for (const Region& region : net.tuner) {
    if (nodes < 2 || nodes > region.mostNodes) continue;
    if (region.ends.empty() || bytes <= endAt(region.ends, nodes * kPerNode)) return &region;
  }
  return nullptr;
}

}  // namespace tutti::nccl_model

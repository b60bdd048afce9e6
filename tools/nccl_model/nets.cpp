#include "tools/nccl_model/nets.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::nccl_model {
namespace {

// aws-ofi-nccl, src/tuner/nccl_ofi_regions.cpp: where its regions of trees by LL128 end on P5.
constexpr TreesUntil kP5[] = {{16, 31457280},    {32, 37748736},    {64, 117440512},
                              {128, 301989888},  {256, 301989888},  {512, 335544320},
                              {1024, 536870912}, {2048, 402653184}, {4096, 402653184}};

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
    {.name = "InfiniBand"},
};

}  // namespace

const NetPart& netPartOf(const topology::PciInfo& pci) {
  return *std::ranges::find_if(kNets, [&](const NetPart& part) {
    return part.vendor < 0 || (part.vendor == pci.vendor && part.device == pci.device);
  });
}

double treesUntil(const NetPart& net, int ranks) {
  if (net.tuner.empty() || ranks < net.tuner.front().ranks) return 0;
  for (size_t i = 1; i < net.tuner.size(); ++i) {
    const TreesUntil &a = net.tuner[i - 1], &b = net.tuner[i];
    if (ranks > b.ranks) continue;
    // Straight lines in both logarithms, as the plugin has them.
    const double part = std::log2(ranks / a.ranks) / std::log2(b.ranks / a.ranks);
    return a.bytes * std::pow(b.bytes / a.bytes, part);
  }
  return net.tuner.back().bytes;
}

}  // namespace tutti::nccl_model

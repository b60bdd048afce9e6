// Bandwidths that descriptions of machines leave to the reader: what a PCIe link, an NVLink or a socket link carries.
// GB/s in one direction, as usable by data rather than raw.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// A PCIe link: 8 GT/s x16 gives 12 GB/s.  0 for unknown speed or width.
/// Encoding costs a fifth below 8 GT/s and 1.5% above; headers and credits leave about three quarters of the rest.
double pcieGBps(double gtPerSecond, int width);
/// What is taken where neither is known: 8 GT/s x16.
double assumedPcieGBps();
/// Speed and width whose data rate (as hwloc gives it, 15.75 for 8 GT/s x16) is nearest; widest first.  A rate of 0
/// gives 0 and 0.
void pcieFromRate(double rateGBps, double* gtPerSecond, int* width);

/// "16.0 GT/s PCIe", "8 GT/s", "2.5 GT/s" -> 16, 8, 2.5, whatever follows (AWS has written "32 GT/s PCIe/s").  0 for ""
/// and "Unknown".  Negative for anything else.
double parseLinkSpeed(std::string_view text);

/// One NVLink of a GPU with this compute capability (x10).
double nvlinkGBps(int sm);
/// One NVLink of this generation (1 to 5), for GPUs that tell no compute capability.
double nvlinkGBpsOfGeneration(int generation);
/// Whether GPUs of this compute capability (x10) come with NVLinks: not below 6.0, not 8.9 and 12.x, not on a chip.
bool mayHaveNvlinks(int sm);
/// Whether GPUs of this architecture come with xGMI links: those for servers, from gfx906 on.
bool mayHaveXgmi(std::string_view gcn);
/// One xGMI link between GPUs of this architecture (gfx942, or 942 as older files write it).
double xgmiGBps(std::string_view gcn);
/// Between two NUMA nodes of a host.
double socketGBps(const CpuInfo& cpu);
/// What is taken for a port without speed: 10 Gb/s.
int assumedNetMbps();

/// 48 -> "48", 11.25 -> "11.2", 0.125 -> "0.125": GB/s for people.
std::string formatGBps(double gbps);

}  // namespace tutti::topology

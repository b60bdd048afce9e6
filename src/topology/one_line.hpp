// Machines in one line of text, for simulations and tests:
//
//   node:4 gpu:8 nvlink:18x25 nic:8x50
//
// Words in any order, each at most once, numbers per host unless said otherwise:
//   node:N         hosts, all alike (1)
//   package:N      CPU sockets (2 where there are two GPUs or NICs, else 1)
//   numa:N         NUMA nodes per package (1)
//   l3:N           last-level caches per NUMA node (1)
//   core:N         cores per L3 (8)
//   socket:B       GB/s between NUMA nodes (22)
//   gpu:N          GPUs (0), spread evenly over the NUMA nodes
//   sm:N           their compute capability x 10 (90)
//   gcn:NAME       their architecture where they are AMD's: gfx942
//   switch:N       PCIe switches (as many as GPUs or NICs, the smaller number; none if one of them is 0)
//   pcie:GxW       GT/s and lanes of every PCIe link (32x16)
//   nvlink:LxB     L NVLinks of B GB/s from every GPU to the NVSwitches
//   nvswitch:N     NVSwitches (1); 0: the L links of a GPU go evenly to all other GPUs
//   xgmi:LxB       L xGMI links of B GB/s from every GPU, evenly to all others; with gcn
//   nic:NxB        N adapters of one port each with B GB/s; adapter i is on rail i
//   nic-latency:T  microseconds that a message takes more than over InfiniBand, as an adapter's plugin tells NCCL (0)
//   nic-pci:V:D    the adapters' PCI vendor and device, four hexadecimal digits each, which say what kind they are
//
// A name of named_machines.hpp may come first; words behind it replace its own: "hgx-h100 nic:4x48".
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Errors: InvalidArgument that quotes the word and says what it should be.
Result<Graph> parseOneLine(std::string_view text);

}  // namespace tutti::topology

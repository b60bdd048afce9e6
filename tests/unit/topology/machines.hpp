// The recorded machines of tests/golden/topologies.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "src/topology/load.hpp"

namespace tutti::topology {

inline std::string goldenPath(const std::string& name) { return std::string(TUTTI_GOLDEN) + "/topologies/" + name; }

inline std::string readFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline constexpr const char* kMachines[] = {
    "a100-aws-p4d-8gpu-4nic.nccl.xml",  "a100-azure-ndv4-8gpu-8nic.nccl.xml", "a100-perlmutter-4gpu-4nic.nccl.xml",
    "amd-16gpu-8nic.nccl.xml",          "b200-aws-p6-8gpu-8efa.hwloc.xml",    "b200-vm-8gpu-13nic.nccl.xml",
    "h100-aws-p5-8gpu-32efa.hwloc.xml", "h100-azure-ndv5-8gpu-8nic.nccl.xml", "h200-hgx-8gpu-nvswitch-tcponly.nccl.xml",
    "mi300x-8gpu-8nic.nccl.xml",        "pcie6-cx8-8gpu-12nic.nccl.xml",      "power9-summit-6gpu-4nic.hwloc.xml",
    "qemu-2numa-2switch-4nic.hwloc.xml"};

/// Whether this build reads the file: XML needs pugixml, hwloc's form hwloc.
inline bool readable(const std::string& name) {
  const bool hwloc = name.find(".hwloc.") != std::string::npos;
  return hwloc ? TUTTI_HAVE_HWLOC : TUTTI_HAVE_PUGIXML;
}

}  // namespace tutti::topology

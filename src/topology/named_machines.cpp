#include "src/topology/named_machines.hpp"

#include <algorithm>
#include <iterator>

namespace tutti::topology {
namespace {

// Rates are those that data get, by the rules of NCCL's planner (src/graph/topo.h): NVLink 3 carries 20 GB/s, NVLink 4
// 20.6, NVLink 5 40.1, an adapter 12 for every 100 Gbit/s; by RCCL's an xGMI link of MI300 48.  Numbers of parts are
// the makers'.  Several adapters of one GPU are one port, since a rank sends by one.  A hop by EFA takes 20 us on
// P5 and 18 on P5en by aws-ofi-nccl's own tuner (src/tuner/nccl_ofi_model.cpp), of which NCCL takes 5; its adapters are
// told apart by their PCI ids (topology/ there).  A hop between Azure's machines takes 10 us on ND H100 v5 and 12 on ND
// A100 v4, of which NCCL takes 5: MSCCL++'s allreduce of 8 KB, which crosses once by a proxy, takes 15.1 and 18.4 us on
// two nodes (its test/deploy/perf_ndmv5.jsonl and perf_ndmv4.jsonl), 5.2 and 6.5 on one.
#define TUTTI_A100 "sm:80 gpu:8 nvlink:12x20 nvswitch:6 pcie:16x16"
#define TUTTI_H100 "sm:90 gpu:8 nvlink:18x20.6 nvswitch:4 pcie:32x16"
#define TUTTI_B200 "sm:100 gpu:8 nvlink:18x40.1 nvswitch:2 pcie:32x16"
#define TUTTI_MI300 "gcn:gfx942 gpu:8 xgmi:7x48 pcie:32x16"
#define TUTTI_NVL72 "gpu:72 nvlink:18x40.1 nvswitch:18 pcie:32x16 package:36"

constexpr NamedMachine kMachines[] = {
    {"dgx-2", "sm:70 gpu:16 nvlink:6x20 nvswitch:6 pcie:8x16 nic:8x12", "16 V100, 8 x 100 Gbit/s",
     "NVIDIA, DGX-2 user guide"},
    {"dgx-a100", TUTTI_A100 " nic:8x24", "8 A100, 8 x 200 Gbit/s", "NVIDIA, DGX A100 user guide"},
    {"p4d.24xlarge", TUTTI_A100 " nic:4x12 nic-latency:15 nic-pci:1d0f:efa0", "8 A100, 4 x 100 Gbit/s",
     "AWS, EC2 P4 instances"},
    {"nd-a100-v4", TUTTI_A100 " nic:8x24 nic-latency:7", "8 A100, 8 x 200 Gbit/s", "Microsoft, NDasrA100_v4 series"},
    {"hgx-h100", TUTTI_H100 " nic:8x48", "8 H100, 8 x 400 Gbit/s", "NVIDIA, DGX H100/H200 user guide"},
    {"dgx-h100", TUTTI_H100 " nic:8x48", "8 H100, 8 x 400 Gbit/s", "NVIDIA, DGX H100/H200 user guide"},
    {"hgx-h200", TUTTI_H100 " nic:8x48", "8 H200, 8 x 400 Gbit/s", "NVIDIA, DGX H100/H200 user guide"},
    {"p5.48xlarge", TUTTI_H100 " nic:8x48 nic-latency:15 nic-pci:1d0f:efa1", "8 H100, 32 x 100 Gbit/s",
     "AWS, EC2 P5 instances"},
    {"p5en.48xlarge", TUTTI_H100 " nic:8x48 nic-latency:13 nic-pci:1d0f:efa2", "8 H200, 16 x 200 Gbit/s",
     "AWS, EC2 P5 instances"},
    {"nd-h100-v5", TUTTI_H100 " nic:8x48 nic-latency:5", "8 H100, 8 x 400 Gbit/s", "Microsoft, ND H100 v5 series"},
    {"nd-h200-v5", TUTTI_H100 " nic:8x48 nic-latency:5", "8 H200, 8 x 400 Gbit/s", "Microsoft, ND H200 v5 series"},
    {"a3-megagpu-8g", TUTTI_H100 " nic:8x24", "8 H100, 8 x 200 Gbit/s", "Google Cloud, GPU machine types"},
    {"a3-ultragpu-8g", TUTTI_H100 " nic:8x48", "8 H200, 8 x 400 Gbit/s", "Google Cloud, GPU machine types"},
    {"hgx-b200", TUTTI_B200 " nic:8x48", "8 B200, 8 x 400 Gbit/s", "NVIDIA, DGX B200 user guide"},
    {"dgx-b200", TUTTI_B200 " nic:8x48", "8 B200, 8 x 400 Gbit/s", "NVIDIA, DGX B200 user guide"},
    {"p6-b200.48xlarge", TUTTI_B200 " nic:8x48 nic-latency:15 nic-pci:1d0f:efa3", "8 B200, 8 x 400 Gbit/s",
     "AWS, EC2 P6 instances"},
    {"a4-highgpu-8g", TUTTI_B200 " nic:8x48", "8 B200, 8 x 400 Gbit/s", "Google Cloud, GPU machine types"},
    {"gb200-nvl72", "sm:100 " TUTTI_NVL72 " nic:72x48", "72 GPUs of one NVLink domain, 72 x 400 Gbit/s",
     "NVIDIA, GB200 NVL72"},
    {"gb300-nvl72", "sm:103 " TUTTI_NVL72 " nic:72x96", "72 GPUs of one NVLink domain, 72 x 800 Gbit/s",
     "NVIDIA, GB300 NVL72"},
    {"mi300x", TUTTI_MI300 " nic:8x48", "8 MI300X, 8 x 400 Gbit/s", "AMD, Instinct MI300X platform data sheet"},
    {"nd-mi300x-v5", TUTTI_MI300 " nic:8x48", "8 MI300X, 8 x 400 Gbit/s", "Microsoft, ND MI300X v5 series"},
};

}  // namespace

std::span<const NamedMachine> namedMachines() { return kMachines; }

const NamedMachine* findNamedMachine(std::string_view name) {
  const auto* found = std::ranges::find(kMachines, name, &NamedMachine::name);
  return found == std::end(kMachines) ? nullptr : found;
}

std::string namesOfMachines() {
  std::string names;
  for (const NamedMachine& m : kMachines) names += (names.empty() ? "" : ", ") + std::string(m.name);
  return names;
}

}  // namespace tutti::topology

// NCCL's topology XML: what NCCL_TOPO_FILE reads and NCCL_TOPO_DUMP_FILE writes, with RCCL's additions (`xgmi`, `gcn`).
//
//   <system version="1"> <cpu numaid affinity arch vendor familyid modelid host_hash>
//     <pci busid class vendor device subsystem_vendor subsystem_device link_speed link_width>   nested: a switch
//       <gpu dev sm rank gdr> <nvlink target count tclass/> <c2c bw count/> </gpu>
//       <nic> <net name dev speed port latency guid maxconn gdr rail plane/> </nic>
//       <pcilink target/>
//
// One attribute is Tutti's own: `gbps` on pci, nvlink, xgmi, c2c and net, written only where the bandwidth is not what
// the standard attributes give (NCCL ignores it).  Files without <gpu> and <net> are read by PCI class.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// `origin` stands for the text in messages (a file name).  Unknown tags and attributes are kept or noted, as NCCL
/// ignores them; link targets that the file does not have are noted.
/// Errors: InvalidArgument "origin:line: <tag>: ..." ; InvalidUsage if Tutti was built without pugixml.
Result<Graph> readNcclXml(std::string_view text, const std::string& origin);

/// What readNcclXml reads back as the same devices and links.  Packages, L3s and cores have no place in this form.
std::string writeNcclXml(const Graph& graph);

}  // namespace tutti::topology

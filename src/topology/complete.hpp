// What every reader of descriptions does at the end: names for people, links between NUMA nodes, the check.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Give names to nodes without one and join the NUMA nodes of every host by socket links.
/// Errors: InvalidArgument with graph.check()'s complaint.
Status complete(Graph& graph);

/// The children of every node, in order; for walks over whole graphs.
std::vector<std::vector<int>> childLists(const Graph& graph);

/// The class of a PCI function, as far as a description without drivers tells: Gpu, Nic, NvSwitch, PciSwitch or
/// PciDevice.  A display that cannot compute (of a server's management chip or a virtual machine) is a PciDevice.
NodeKind kindOfPciClass(const PciInfo& pci);

}  // namespace tutti::topology

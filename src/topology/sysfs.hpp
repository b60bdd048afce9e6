// What Linux tells under /sys and /proc about the machine.  Every function takes the root that these lie in, "" for the
// running system, so that tests can make machines of their own.  Files that are missing are no error: containers hide
// and virtual machines lack many of them.
#pragma once

#include <string>
#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology::sysfs {

/// The first line of a file without the newline; "" if it cannot be read.
std::string line(const std::string& path);
/// The names in a folder, sorted; none if it cannot be read.
std::vector<std::string> names(const std::string& path);

/// Host, packages, NUMA nodes, caches (that lie within a NUMA node) and cores, for where hwloc is not asked.  Always at
/// least one NUMA node.
Graph processors(const std::string& root);

/// Adds GPUs, adapters, storage and the switches above them to the first host, where the kernel's numa_node puts them.
void addPciDevices(Graph& graph, const std::string& root);

/// Completes what hwloc or addPciDevices found: host name and hash (of boot and TUTTI_HOSTID), speed and width of PCIe
/// links, speeds of InfiniBand ports and network interfaces, interfaces that have no place on PCI.  Notes what is
/// hidden: locality, speeds, container and virtual machine.
void enrich(Graph& graph, const std::string& root);

}  // namespace tutti::topology::sysfs

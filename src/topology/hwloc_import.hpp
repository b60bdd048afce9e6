// hwloc's descriptions: its XML (`lstopo --of xml`), its synthetic strings ("package:2 numa:1 core:8 pu:2"), and what
// it discovers on this machine.  The library is loaded when it is first asked for.
//
// The bridges that hwloc lists are ports.  A root port is the way into the processor and is left out; of a switch's
// ports, the one upward becomes the PciSwitch, those downward belong to it.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Errors: InvalidArgument with "origin:line: <tag>: ..." for what is not XML or no hwloc topology, or what hwloc says;
/// InvalidUsage if this build has no hwloc, or the system.
Result<Graph> readHwlocXml(std::string_view text, const std::string& origin);

/// Errors: InvalidArgument if hwloc refuses the text; InvalidUsage without hwloc.
Result<Graph> parseHwlocSynthetic(const std::string& text);

/// What hwloc sees here: processors, caches, memory, PCI devices and their drivers' names.
/// Errors: SystemError if discovery fails; InvalidUsage without hwloc.
Result<Graph> discoverByHwloc();

}  // namespace tutti::topology

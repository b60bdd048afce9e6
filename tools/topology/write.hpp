// A graph for people: as text, for Graphviz, as a picture.
#pragma once

#include <string>
#include <vector>

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// A tree of each host's parts, its links beside the tree, then what of a description was left out, what it does not
/// tell, and notes.
std::string toText(const Graph& graph);

/// Graphviz: clusters for hosts, packages and NUMA nodes; `dot -Tsvg`.
std::string toDot(const Graph& graph);

struct ChannelPlan;

/// A picture that stands alone: nested boxes, PCIe tree, NVLink with widths by bandwidth, legend.  Below it the rings
/// of a plan, as far as they lie in the first host.
std::string toSvg(const Graph& graph, const ChannelPlan* plan = nullptr);

/// A few lines of counts and bandwidths, the same for the same machine whatever order its file is in.
std::string summary(const Graph& graph);

/// What of a description the graph does not hold, and what the description does not tell: sections, "" if there is
/// neither.  For answers that rest on a description and do not print it.
std::string gaps(const Graph& graph);

/// `head` on a line, and below it a line for each sentence; "" if there are none.
std::string section(const char* head, const std::vector<std::string>& sentences);

/// "PCIe 5.0 x16" from speed and width, "" where unknown.
std::string pcieName(const PciInfo& pci);

/// "GenuineIntel family 6 model 207", "" where unknown.
std::string cpuName(const CpuInfo& cpu);

}  // namespace tutti::topology

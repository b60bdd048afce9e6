// NCCL's graph XML: what NCCL_GRAPH_FILE reads and NCCL_GRAPH_DUMP_FILE writes, the channels of one host:
//
//   <graphs version="1">
//     <graph id pattern crossnic nchannels speedintra speedinter latencyinter typeintra typeinter samechannels>
//       <channel> <net dev/> <gpu dev/> ... <net dev/> </channel>      net only where there are several hosts
//
// id 0 is rings, 1 trees; others (CollNet, NVLS) are passed over.  Pattern 4 is a ring, 1 to 3 are trees.  `dev` is the
// number of the device in its host; where the machine's description has none, its place there.  A NUMA node in the
// place of a GPU is <numa dev/>, which NCCL does not know.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/topology/search/channel_plan.hpp"

namespace tutti::topology {

/// One <channel>.
struct GraphFileChannel {
  int line = 0;
  int entry = -1, exit = -1;  // dev of a net; -1: none
  std::vector<int> devices;   // dev of a GPU or NUMA node
};

/// One <graph>.
struct GraphFileSet {
  int line = 0;
  Pattern pattern = Pattern::Ring;
  double speedIntra = 0, speedInter = 0;  // GB/s per channel
  bool numas = false;                     // devices are NUMA nodes, not GPUs
  std::vector<GraphFileChannel> channels;
};

struct GraphFile {
  std::string origin;
  std::vector<GraphFileSet> sets;  // rings, trees or both; those without channels are left out
};

/// Errors: InvalidArgument "origin:line: <tag>: ..."; InvalidUsage if Tutti was built without pugixml.
Result<GraphFile> readGraphXml(std::string_view text, const std::string& origin);

/// The part of the plan that lies in one host (a node of the graph).  Trees lose who is above whom: that follows from
/// the number of hosts.
std::string writeGraphXml(const Graph& graph, const ChannelPlan& plan, int host);

/// The plan that the file gives: every host of the question has the same channels; odd hosts go through a channel that
/// is entered and left by different ports backwards, so that it stays on its rails.  What the file leaves out (trees,
/// rings) is searched.  Speeds are the file's, whatever the links carry; `limits` are the links that are loaded most.
/// Errors: InvalidArgument with origin and line that names the GPU or port that the machine does not have, that is left
/// out, passed twice or not asked for; what planChannels finds wrong.
Result<ChannelPlan> imposeGraph(const Graph& graph, const ChannelQuestion& question, const GraphFile& file);

/// planChannels, or what TUTTI_GRAPH_FILE gives; the part of the first host is written to TUTTI_GRAPH_DUMP_FILE.
/// Errors: also InvalidUsage for files that cannot be read or written.
Result<ChannelPlan> currentChannels(const Graph& graph, const ChannelQuestion& question);

}  // namespace tutti::topology

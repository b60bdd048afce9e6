#include <algorithm>
#include <cstdio>

#include "tools/topology/search/dev_numbers.hpp"
#include "tools/topology/search/graph_xml.hpp"

namespace tutti::topology {
namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string setXml(const Graph& graph, const ChannelSet& set, int host) {
  const DevNumbers numbers(graph, host);
  std::string channels;
  bool same = true;
  std::vector<int> first;
  for (const Channel& channel : set.channels) {
    channels += "    <channel>\n";
    for (const Stretch& s : channel.stretches) {
      if (s.host != host) continue;
      if (first.empty()) first = s.devices;
      same = same && first == s.devices;
      if (s.entry >= 0) channels += cat("      <net dev=\"", numbers.of(s.entry), "\"/>\n");
      for (const int device : s.devices) {
        const bool gpu = graph.nodes[static_cast<size_t>(device)].kind == NodeKind::Gpu;
        channels += cat("      <", gpu ? "gpu" : "numa", " dev=\"", numbers.of(device), "\"/>\n");
      }
      if (s.exit >= 0) channels += cat("      <net dev=\"", numbers.of(s.exit), "\"/>\n");
    }
    channels += "    </channel>\n";
  }
  const bool ring = set.pattern == Pattern::Ring;
  const std::string speed = number(set.gbps);
  return cat("  <graph id=\"", ring ? 0 : 1, "\" pattern=\"", ring ? 4 : 3, "\" crossnic=\"", set.crossNic ? 1 : 0,
             "\" nchannels=\"", set.channels.size(), "\" speedintra=\"", speed, "\" speedinter=\"", speed,
             "\" latencyinter=\"0\" typeintra=\"", className(set.intra), "\" typeinter=\"",
             className(set.inter == PathClass::Loc ? PathClass::Pix : set.inter), "\" samechannels=\"", same ? 1 : 0,
             "\">\n", channels, "  </graph>\n");
}

}  // namespace

std::string writeGraphXml(const Graph& graph, const ChannelPlan& plan, int host) {
  std::string sets;
  for (const ChannelSet* set : {&plan.rings, &plan.trees}) {
    if (set->gbps > 0) sets += setXml(graph, *set, host);
  }
  return "<graphs version=\"1\">\n" + sets + "</graphs>\n";
}

}  // namespace tutti::topology

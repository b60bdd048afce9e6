#include <algorithm>

#include "src/topology/rates.hpp"
#include "src/topology/untold.hpp"
#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

std::string nameOf(const Graph& graph, int node) {
  return node < 0 ? std::string("-") : graph.nodes[static_cast<size_t>(node)].name;
}

std::string limitText(const Graph& graph, const Limit& limit) {
  const Link& link = graph.links[static_cast<size_t>(limit.link)];
  const std::string between = cat(nameOf(graph, link.a), " - ", nameOf(graph, link.b));
  return cat(kindName(link.kind), " ", formatGBps(limit.gbps), " GB/s ", link.assumed ? "(assumed) " : "",
             limit.count == 1 ? cat("(", between, ")") : cat("x", limit.count, " (", between, ", ...)"));
}

/// "mlx5_0 > GPU 0 > GPU 1 > mlx5_0"
std::string stretchText(const Graph& graph, const Stretch& stretch) {
  std::string text;
  if (stretch.entry >= 0) text = nameOf(graph, stretch.entry) + " > ";
  for (size_t i = 0; i < stretch.devices.size(); ++i) {
    text += cat(i == 0 ? "" : " > ", nameOf(graph, stretch.devices[i]));
  }
  if (stretch.exit >= 0) text += " > " + nameOf(graph, stretch.exit);
  return text;
}

/// Hosts with the same names in the same order are one line.
std::string channelText(const Graph& graph, const Channel& channel, Pattern pattern) {
  std::string text;
  for (size_t from = 0, to = 0; from < channel.stretches.size(); from = to) {
    const std::string line = stretchText(graph, channel.stretches[from]);
    while (to < channel.stretches.size() && stretchText(graph, channel.stretches[to]) == line) ++to;
    if (channel.stretches.size() > 1) {
      text += nameOf(graph, channel.stretches[from].host);
      if (to - from > 1) text += cat(" .. ", nameOf(graph, channel.stretches[to - 1].host), " (", to - from, " hosts)");
      text += ": ";
    }
    text += line + "\n";
  }
  if (pattern == Pattern::Ring || channel.stretches.size() < 2) return text;
  text += "above each host:";
  for (size_t h = 0; h < channel.stretches.size(); ++h) {
    if (h == 16) return text + " ...\n";
    const int parent = channel.stretches[h].parent;
    text += parent < 0 ? " -" : cat(" ", parent);
  }
  return text + "\n";
}

/// What the rings (trees) pass: links that carry something, their devices, the adapters by which they leave.
UsedPart usedBy(const Graph& graph, const ChannelSet& set) {
  UsedPart used{std::vector<bool>(graph.nodes.size()), std::vector<bool>(graph.links.size())};
  const auto loads = linkLoads(graph, set);
  for (size_t i = 0; loads.ok() && i < loads->size(); ++i) used.links[i] = (*loads)[i] > 0;
  for (const Channel& channel : set.channels) {
    for (const Stretch& stretch : channel.stretches) {
      for (const int port : {stretch.entry, stretch.exit}) {
        if (port >= 0) used.nodes[static_cast<size_t>(port)] = true;
      }
      for (const int device : stretch.devices) used.nodes[static_cast<size_t>(device)] = true;
    }
  }
  return used;
}

/// `rests`: on something that nobody told.
std::string setText(const Graph& graph, const ChannelSet& set, bool rests) {
  const size_t n = set.channels.size();
  std::string text = cat(patternName(set.pattern), "s: ", n, n == 1 ? " channel" : " channels", " x ",
                         formatGBps(set.gbps), " = ", formatGBps(set.totalGBps()), " GB/s; ", className(set.intra));
  if (set.inter != PathClass::Loc) text += cat(" inside, ", className(set.inter), " to the network");
  if (set.crossNic) text += ", entered and left by different ports";
  if (set.boundGBps > 0) {
    const bool all = set.totalGBps() >= set.boundGBps * (1 - 1e-4);
    text += all ? "; the most that is possible" : cat("; no more than ", formatGBps(set.boundGBps), " is possible");
    if (rests) text += " with what is told and assumed";
  }
  text += "\n";
  for (size_t i = 0; i < set.limits.size(); ++i) {
    if (i == 4) {
      text += cat("  and ", set.limits.size() - i, " more\n");
      break;
    }
    text += cat(i == 0 ? "  limited by " : "         and ", limitText(graph, set.limits[i]), "\n");
  }
  for (size_t from = 0, to = 0; from < n; from = to) {
    const std::string lines = channelText(graph, set.channels[from], set.pattern);
    while (to < n && channelText(graph, set.channels[to], set.pattern) == lines) ++to;
    text += to - from == 1 ? cat("  channel ", from, ":") : cat("  channels ", from, " to ", to - 1, ":");
    const bool single = std::count(lines.begin(), lines.end(), '\n') == 1;
    if (single) {
      text += " " + lines;
      continue;
    }
    text += "\n";
    for (size_t at = 0; at < lines.size();) {
      const size_t end = lines.find('\n', at);
      text += "    " + lines.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  return text;
}

}  // namespace

std::string toText(const Graph& graph, const ChannelPlan& plan) {
  std::string text;
  UsedPart used{std::vector<bool>(graph.nodes.size()), std::vector<bool>(graph.links.size())};
  for (const ChannelSet* set : {&plan.rings, &plan.trees}) {
    const UsedPart own = usedBy(graph, *set);
    text += setText(graph, *set, !untold(graph, own).empty());
    for (size_t i = 0; i < own.nodes.size(); ++i) used.nodes[i] = used.nodes[i] || own.nodes[i];
    for (size_t i = 0; i < own.links.size(); ++i) used.links[i] = used.links[i] || own.links[i];
  }
  return text + section("not told", untold(graph, used));
}

}  // namespace tutti::topology

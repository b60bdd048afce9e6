#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "src/base/config.hpp"
#include "tools/topology/search/dev_numbers.hpp"
#include "tools/topology/search/double_tree.hpp"
#include "tools/topology/search/graph_xml.hpp"
#include "tools/topology/search/machine.hpp"

namespace tutti::topology {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

class Imposer {
 public:
  Imposer(const Graph& graph, const std::vector<int>& devices, const std::string& origin)
      : graph_(graph), devices_(devices), machine_(machineOf(graph, devices)), origin_(origin) {
    for (const HostPart& part : machine_.hosts) numbers_.emplace_back(graph, part.nodes.front());
  }

  Result<ChannelSet> impose(const GraphFileSet& from) {
    ChannelSet set;
    set.pattern = from.pattern;
    set.gbps = machine_.hosts.size() > 1 ? std::min(from.speedIntra, from.speedInter) : from.speedIntra;
    for (size_t c = 0; c < from.channels.size(); ++c) {
      Channel channel;
      for (size_t h = 0; h < machine_.hosts.size(); ++h) {
        TUTTI_ASSIGN(Stretch stretch, stretchOf(from, from.channels[c], h));
        if (stretch.entry != stretch.exit) set.crossNic = true;
        if (from.pattern == Pattern::Tree) {
          stretch.parent =
              treeParent(static_cast<int>(h), static_cast<int>(machine_.hosts.size()), static_cast<int>(c % 2));
        }
        channel.stretches.push_back(std::move(stretch));
      }
      set.channels.push_back(std::move(channel));
      // Judge every channel where its line is known.
      const ChannelSet one{set.pattern, {set.channels.back()}, 1, 0, {}, {}, false, {}};
      if (std::string complaint = check(graph_, devices_, one); !complaint.empty()) {
        complaint.erase(0, complaint.find(": ") + 2);  // "ring 0: "
        return error(from.channels[c].line, complaint);
      }
      TUTTI_TRY(noteClasses(from.channels[c].line, set.channels.back(), &set));
    }
    TUTTI_TRY(noteLimits(&set));
    return set;
  }

 private:
  template <class... Args>
  Status error(int line, const Args&... args) const {
    return invalidArgument(origin_, ":", line, ": <channel>: ", args...);
  }

  Result<Stretch> stretchOf(const GraphFileSet& set, const GraphFileChannel& channel, size_t h) const {
    const int host = machine_.hosts[h].nodes.front();
    const DevNumbers& numbers = numbers_[h];
    Stretch stretch;
    stretch.host = host;
    for (const int dev : channel.devices) {
      const int node = set.numas ? numbers.numa(dev) : numbers.gpu(dev);
      if (node < 0)
        return error(channel.line, describe(graph_, host), " has no ", set.numas ? "NUMA node " : "GPU ", dev);
      stretch.devices.push_back(node);
    }
    if (machine_.hosts.size() < 2) return stretch;  // nets of a file for several hosts are not needed on one
    if (channel.entry < 0) return error(channel.line, "it has no net to reach the other hosts by");
    stretch.entry = numbers.port(channel.entry);
    stretch.exit = numbers.port(channel.exit);
    for (const auto& [port, dev] : {std::pair(stretch.entry, channel.entry), {stretch.exit, channel.exit}}) {
      if (port < 0) return error(channel.line, describe(graph_, host), " has no net ", dev);
    }
    if (set.pattern == Pattern::Tree && stretch.entry != stretch.exit)
      return error(channel.line, "a tree enters and leaves a host by the same net");
    if (h % 2 == 1 && stretch.entry != stretch.exit) {
      std::swap(stretch.entry, stretch.exit);
      std::reverse(stretch.devices.begin(), stretch.devices.end());
    }
    return stretch;
  }

  Status noteClasses(int line, const Channel& channel, ChannelSet* set) {
    const bool tree = set->pattern == Pattern::Tree;
    const auto hop = [&](size_t h, int a, int b, PathClass* farthest) -> Status {
      const auto between = pathsOf(h).between(placeIn(h, a), placeIn(h, b));
      if (!between.ok() || between->type == PathClass::Dis)
        return error(line, "no way leads from ", describe(graph_, a), " to ", describe(graph_, b));
      *farthest = std::max(*farthest, between->type);
      return {};
    };
    for (size_t h = 0; h < channel.stretches.size(); ++h) {
      const Stretch& s = channel.stretches[h];
      for (size_t i = 0; i + 1 < s.devices.size(); ++i) TUTTI_TRY(hop(h, s.devices[i], s.devices[i + 1], &set->intra));
      if (s.entry >= 0) {
        TUTTI_TRY(hop(h, s.entry, s.devices.front(), &set->inter));
        TUTTI_TRY(hop(h, tree ? s.devices.front() : s.devices.back(), s.exit, &set->inter));
      } else if (!tree && s.devices.size() > 1) {
        TUTTI_TRY(hop(h, s.devices.back(), s.devices.front(), &set->intra));
      }
    }
    return {};
  }

  /// Hosts that are alike share one.
  const Paths& pathsOf(size_t h) {
    const size_t kind = machine_.modelOf[h];
    auto at = paths_.find(kind);
    if (at == paths_.end()) at = paths_.emplace(kind, Paths(machine_.hosts[machine_.firstOf[kind]].graph)).first;
    return at->second;
  }

  int placeIn(size_t h, int node) const {
    const std::vector<int>& nodes = machine_.hosts[h].nodes;  // ascending
    return static_cast<int>(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin());
  }

  Status noteLimits(ChannelSet* set) const {
    TUTTI_ASSIGN(const std::vector<double> loads, linkLoads(graph_, *set));
    double most = 0;
    for (size_t i = 0; i < loads.size(); ++i) most = std::max(most, loads[i] / graph_.links[i].gbps);
    for (size_t i = 0; i < loads.size() && most > 0; ++i) {
      const Link& link = graph_.links[i];
      if (loads[i] / link.gbps < most * (1 - 1e-6)) continue;
      const auto alike = std::find_if(set->limits.begin(), set->limits.end(), [&](const Limit& l) {
        return graph_.links[static_cast<size_t>(l.link)].kind == link.kind && l.gbps == link.gbps;
      });
      if (alike == set->limits.end())
        set->limits.push_back({static_cast<int>(i), 1, link.gbps});
      else
        ++alike->count;
    }
    return {};
  }

  const Graph& graph_;
  const std::vector<int>& devices_;
  Machine machine_;
  std::string origin_;
  std::vector<DevNumbers> numbers_;  // [host]
  std::map<size_t, Paths> paths_;
};

Result<std::string> textOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalidUsage("cannot read the graph file ", path, ": ", std::strerror(errno));
  std::string text;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
    if (text.size() > kMostBytes) return invalidArgument(path, ": larger than ", kMostBytes, " bytes");
  }
  return text;
}

}  // namespace

Result<ChannelPlan> imposeGraph(const Graph& graph, const ChannelQuestion& q, const GraphFile& file) {
  TUTTI_ASSIGN(const std::vector<int> devices, devicesOf(graph, q));
  if (file.sets.empty()) return invalidArgument(file.origin, ": it has neither rings nor trees");
  ChannelPlan plan;
  if (file.sets.size() < 2) {
    TUTTI_ASSIGN(plan, planChannels(graph, q));
  }
  Imposer imposer(graph, devices, file.origin);
  for (const GraphFileSet& set : file.sets) {
    TUTTI_ASSIGN((set.pattern == Pattern::Ring ? plan.rings : plan.trees), imposer.impose(set));
  }
  return plan;
}

Result<ChannelPlan> currentChannels(const Graph& graph, const ChannelQuestion& q) {
  ChannelPlan plan;
  if (const std::string path = configText("TUTTI_GRAPH_FILE"); path.empty()) {
    TUTTI_ASSIGN(plan, planChannels(graph, q));
  } else {
    TUTTI_ASSIGN(const std::string text, textOf(path));
    TUTTI_ASSIGN(const GraphFile file, readGraphXml(text, path));
    TUTTI_ASSIGN(plan, imposeGraph(graph, q, file));
  }
  const std::string dump = configText("TUTTI_GRAPH_DUMP_FILE");
  if (dump.empty()) return plan;
  std::ofstream out(dump, std::ios::binary);
  out << writeGraphXml(graph, plan, plan.rings.channels.front().stretches.front().host) << std::flush;
  if (!out) return invalidUsage("cannot write the graph file ", dump, ": ", std::strerror(errno));
  return plan;
}

}  // namespace tutti::topology

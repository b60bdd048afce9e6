#include "src/topology/merge.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "src/topology/complete.hpp"

namespace tutti::topology {
namespace {

/// What a part is known by among its parent's; a bus id is unique within the host, so the parent does not count.
std::string identity(const Node& n, int host, int parent, int copy) {
  if (!n.busId.empty()) return cat(host, " ", n.busId);
  if (n.kind == NodeKind::Numa || n.kind == NodeKind::Package) return cat(host, " ", kindName(n.kind), " ", n.index);
  const std::string what = n.index >= 0 && n.kind != NodeKind::Net ? cat(n.index) : cat(n.name, "/", n.net.port);
  return cat(parent, " ", kindName(n.kind), " ", what, " ", copy);
}

void fillIn(Node* known, const Node& more) {
  const auto fill = [](int* value, int other, int unknown) {
    if (*value == unknown) *value = other;
  };
  fill(&known->index, more.index, -1);
  fill(&known->gpu.sm, more.gpu.sm, 0);
  fill(&known->gpu.rank, more.gpu.rank, -1);
  fill(&known->gpu.multiprocessors, more.gpu.multiprocessors, 0);
  fill(&known->gpu.nvlinkGeneration, more.gpu.nvlinkGeneration, 0);
  fill(&known->gpu.migParts, more.gpu.migParts, -1);
  if (known->gpu.uuid.empty()) known->gpu.uuid = more.gpu.uuid;
  known->gpu.linksTold = known->gpu.linksTold || more.gpu.linksTold;
  fill(&known->net.speedMbps, more.net.speedMbps, 0);
  fill(&known->net.rail, more.net.rail, -1);
  fill(&known->net.plane, more.net.plane, -1);
  if (known->memoryBytes == 0) known->memoryBytes = more.memoryBytes;
  if (known->net.guid == 0) known->net.guid = more.net.guid;
  known->cpus.add(more.cpus);
}

class Merger {
 public:
  Status add(const Graph& other) {
    std::vector<int> image(other.nodes.size(), -1);
    std::map<std::string, int> copies;  // parts of one parent that cannot be told apart
    for (size_t i = 0; i < other.nodes.size(); ++i) {
      Node n = other.nodes[i];
      if (n.kind == NodeKind::Host) {
        image[i] = host(n);
        continue;
      }
      n.parent = image[static_cast<size_t>(n.parent)];
      const int home = g_.hostOf(n.parent);
      const int copy = copies[identity(n, home, n.parent, 0)]++;
      const auto [known, isNew] = parts_.insert({identity(n, home, n.parent, copy), static_cast<int>(g_.nodes.size())});
      image[i] = known->second;
      if (isNew) {
        g_.add(std::move(n));
        continue;
      }
      Node& old = g_.nodes[static_cast<size_t>(known->second)];
      if (old.kind != n.kind) {
        return invalidArgument(ErrorCode::TopologyFile, "device ", n.busId, " is a ", kindName(old.kind), " and a ",
                               kindName(n.kind));
      }
      fillIn(&old, n);
    }
    for (Link l : other.links) {
      l.a = image[static_cast<size_t>(l.a)];
      l.b = image[static_cast<size_t>(l.b)];
      if (l.a > l.b) std::swap(l.a, l.b);
      const auto [known, isNew] = links_.insert({{l.a, l.b, l.kind}, static_cast<int>(g_.links.size())});
      if (isNew) {
        g_.connect(l);
      } else if (Link& old = g_.links[static_cast<size_t>(known->second)]; old.assumed && !l.assumed) {
        old = l;
      }
    }
    for (const std::string& note : other.notes) g_.note(note);
    for (const std::string& sentence : other.leftOut) {
      if (std::find(g_.leftOut.begin(), g_.leftOut.end(), sentence) == g_.leftOut.end()) g_.leftOut.push_back(sentence);
    }
    return {};
  }

  Result<Graph> finish() {
    TUTTI_TRY(complete(g_));
    return std::move(g_);
  }

 private:
  int host(Node n) {
    if (n.hostHash != 0) {
      if (const auto known = hosts_.find(n.hostHash); known != hosts_.end()) return known->second;
    }
    const size_t number = g_.all(NodeKind::Host).size();
    if (n.name.starts_with("host ")) n.name = cat("host ", number);
    const uint64_t hash = n.hostHash;
    const int node = g_.add(std::move(n));
    if (hash != 0) hosts_[hash] = node;
    return node;
  }

  Graph g_;
  std::map<uint64_t, int> hosts_;
  std::map<std::string, int> parts_;
  std::map<std::tuple<int, int, LinkKind>, int> links_;
};

}  // namespace

Result<Graph> merge(const std::vector<Graph>& graphs) {
  Merger merger;
  for (const Graph& graph : graphs) TUTTI_TRY(merger.add(graph));
  return merger.finish();
}

}  // namespace tutti::topology

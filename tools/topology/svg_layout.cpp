#include "tools/topology/svg_layout.hpp"

#include <algorithm>
#include <cmath>

#include "src/topology/complete.hpp"

namespace tutti::topology {
namespace {

constexpr double kPad = 12, kGap = 10;
constexpr double kTitle = 34, kHead = 36, kPackageHead = 24;
constexpr double kBar = 24, kBarGap = 20;
constexpr double kRootGap = 18;  // from the processor's PCIe root to what it holds
constexpr double kDeviceWidth = 88, kSmallWidth = 66, kDeviceHeight = 62;
constexpr double kSocketGap = 64;  // between packages: room for the link's bandwidth
constexpr size_t kCoresInRow = 8;

struct Branch {            // of what hangs below a NUMA node on PCIe
  std::vector<int> nodes;  // one, or several alike in one cell
  bool isSwitch = false;
  double width = 0;
  int depth = 0;  // levels of switches, this one included
  std::vector<Branch> below;
};

class Layouter {
 public:
  Layouter(const Graph& graph, int host) : g_(graph), children_(childLists(graph)) { out_.node = host; }

  HostLayout run(double x, double y) {
    collect();
    out_.box = {x, y, 0, 0};
    placeNumas(x + kPad, y + kTitle);
    placeTrees();
    placeLanes();
    return std::move(out_);
  }

 private:
  const Node& at(int node) const { return g_.nodes[static_cast<size_t>(node)]; }
  const std::vector<int>& below(int node) const { return children_[static_cast<size_t>(node)]; }

  void collect() {
    for (const int numa : g_.all(NodeKind::Numa, out_.node)) {
      NumaBox box;
      box.node = numa;
      collectCaches(numa, -1, &box);
      out_.numas.push_back(box);
      trees_.push_back(treesBelow(numa, out_.numas.size() == 1));
    }
    // Descriptions list processors in any order; people look for 0 on the left.  Those of a package stay together.
    std::vector<size_t> order(out_.numas.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto key = [&](size_t i) {
        const int node = out_.numas[i].node, package = g_.enclosing(node, NodeKind::Package);
        return std::pair(package < 0 ? 0 : at(package).index, at(node).index);
      };
      return key(a) < key(b);
    });
    std::vector<NumaBox> numas;
    std::vector<std::vector<Branch>> trees;
    for (const size_t i : order) {
      numas.push_back(out_.numas[i]);
      trees.push_back(trees_[i]);
    }
    out_.numas = numas;
    trees_ = trees;
    for (const auto& list : trees_) {
      for (const Branch& tree : list) levels_ = std::max(levels_, tree.depth);
    }
  }

  void collectCaches(int node, int l3, NumaBox* out) {
    for (const int child : below(node)) {
      if (at(child).kind == NodeKind::L3) {
        out->caches.push_back({child, {}, {}});
        collectCaches(child, child, out);
      } else if (at(child).kind == NodeKind::Core) {
        if (out->caches.empty() || out->caches.back().node != l3) out->caches.push_back({l3, {}, {}});
        out->caches.back().cores.push_back(child);
      } else if (at(child).kind == NodeKind::Package) {
        collectCaches(child, l3, out);
      }
    }
  }

  /// Adapters and lesser devices that differ in number alone share a cell; a GPU has its own.
  std::string likeness(int node) const {
    const Node& n = at(node);
    if (n.kind == NodeKind::Gpu || n.kind == NodeKind::PciSwitch) return cat("only ", node);
    if (n.kind == NodeKind::PciDevice) return cat("device ", n.pci.classCode >> 16);
    const std::string letters = n.name.substr(0, n.name.find_first_of("0123456789"));
    return cat("nic ", letters, " ", n.pci.linkGTps, " ", n.pci.linkWidth, " ", below(node).size());
  }

  std::vector<Branch> treesBelow(int node, bool isFirstNuma) {
    std::vector<int> roots = below(node);
    if (isFirstNuma) {  // devices whose place is not known are drawn with the first NUMA node
      for (int up = at(node).parent; up >= 0; up = at(up).parent) {
        roots.insert(roots.end(), below(up).begin(), below(up).end());
      }
    }
    return treesOf(roots);
  }

  std::vector<Branch> treesOf(const std::vector<int>& nodes) {
    std::vector<Branch> trees;
    std::map<std::string, std::vector<int>> alike;
    for (const int node : nodes) alike[likeness(node)].push_back(node);
    for (const int node : nodes) {
      const NodeKind kind = at(node).kind;
      if (kind == NodeKind::PciSwitch) {
        Branch tree{{node}, true, 0, 1, treesOf(below(node))};
        for (const Branch& t : tree.below) {
          tree.width += t.width + (tree.width > 0 ? kGap : 0);
          tree.depth = std::max(tree.depth, t.depth + 1);
        }
        tree.width = std::max(tree.width, kDeviceWidth);
        trees.push_back(tree);
      } else if (kind == NodeKind::Gpu || kind == NodeKind::Nic || kind == NodeKind::PciDevice) {
        const std::vector<int>& group = alike[likeness(node)];
        const bool small = kind == NodeKind::PciDevice;
        const double width = small ? kSmallWidth : kDeviceWidth;
        if (group.size() < (small ? 2 : 3)) {
          trees.push_back({{node}, false, width, 0, {}});
        } else if (group.front() == node) {
          trees.push_back({group, false, width + 6, 0, {}});
        }
      }
    }
    return trees;
  }

  double treesWidth(size_t numa) const {
    double width = 0;
    for (const Branch& tree : trees_[numa]) width += tree.width + (width > 0 ? kGap : 0);
    return width;
  }

  /// Caches from left to right, in rows; returns the height.
  static double placeCaches(NumaBox* numa, double x, double y, double width) {
    double left = x, top = y, rowHeight = 0;
    for (CacheBox& cache : numa->caches) {
      const size_t inRow = std::min(kCoresInRow, std::max<size_t>(1, cache.cores.size()));
      const size_t rows = (std::max<size_t>(1, cache.cores.size()) + kCoresInRow - 1) / kCoresInRow;
      const Box box{0, 0, static_cast<double>(inRow) * kCoreSide + 6, static_cast<double>(rows) * kCoreSide + 6};
      if (left > x && left + box.width > x + width) {
        left = x;
        top += rowHeight + 4;
        rowHeight = 0;
      }
      cache.box = {left, top, box.width, box.height};
      left += box.width + 4;
      rowHeight = std::max(rowHeight, box.height);
    }
    return numa->caches.empty() ? 0 : top + rowHeight - y;
  }

  void placeNumas(double x, double y) {
    const bool packages = !g_.all(NodeKind::Package, out_.node).empty();
    numaTop_ = y + (packages ? kPackageHead : 0);
    double caches = 0, left = x;
    int before = -2;
    for (size_t i = 0; i < out_.numas.size(); ++i) {
      NumaBox& numa = out_.numas[i];
      const int package = g_.enclosing(numa.node, NodeKind::Package);
      const bool isNew = package != before || package < 0;
      if (i > 0) left += isNew ? kSocketGap : kGap;
      if (isNew && package >= 0) {
        out_.packages.push_back({package, {left, y, 0, 0}});
        left += kPad;
      }
      const double width = std::max(200.0, treesWidth(i)) + 2 * kPad;
      numa.box = {left, numaTop_, width, 0};
      numa.head = {left, numaTop_, width, kHead};
      caches = std::max(caches, placeCaches(&numa, left + kPad, numaTop_ + kHead + 4, width - 2 * kPad));
      left += width;
      const bool last = i + 1 == out_.numas.size() ||
                        g_.enclosing(out_.numas[i + 1].node, NodeKind::Package) != package || package < 0;
      if (last && package >= 0) {
        left += kPad;
        out_.packages.back().box.width = left - out_.packages.back().box.x;
      }
      before = package;
    }
    out_.box.width = left + kPad - out_.box.x;
    treeTop_ = numaTop_ + kHead + caches + (caches > 0 ? 10 : 4) + kRootGap;
  }

  void placeTrees() {
    deviceTop_ = treeTop_ + levels_ * (kBar + kBarGap);
    bool any = false;
    for (size_t i = 0; i < out_.numas.size(); ++i) {
      NumaBox& numa = out_.numas[i];
      double left = numa.box.x + (numa.box.width - treesWidth(i)) / 2;
      for (const Branch& tree : trees_[i]) {
        place(tree, numa.node, left, 0);
        left += tree.width + kGap;
      }
      any = any || !trees_[i].empty();
    }
    const double bottom = any ? deviceTop_ + kDeviceHeight + kPad : treeTop_;
    for (NumaBox& numa : out_.numas) numa.box.height = bottom - numa.box.y;
    out_.rootY = treeTop_ - kRootGap;
    for (PackageBox& package : out_.packages) package.box.height = bottom + kPad - package.box.y;
    out_.lanesTop = deviceTop_ + kDeviceHeight;
    bottom_ = bottom + (out_.packages.empty() ? 0 : kPad);
  }

  void place(const Branch& tree, int parent, double left, int level) {
    if (!tree.isSwitch) {
      const double width = tree.nodes.size() > 1 ? tree.width - 6 : tree.width;
      out_.cells.push_back({tree.nodes, parent, {left, deviceTop_, width, kDeviceHeight}});
      return;
    }
    const int node = tree.nodes.front();
    out_.switches.push_back({node, parent, {left, treeTop_ + level * (kBar + kBarGap), tree.width, kBar}});
    double total = 0;
    for (const Branch& t : tree.below) total += t.width + (total > 0 ? kGap : 0);
    left += (tree.width - total) / 2;
    for (const Branch& t : tree.below) {
      place(t, node, left, level + 1);
      left += t.width + kGap;
    }
  }

  void placeLanes() {
    double widest = 0;  // between GPUs that are linked directly
    const auto middle = [&](int node) {
      for (const Cell& cell : out_.cells) {
        if (cell.nodes.front() == node) return cell.box.middle();
      }
      return -1.0;
    };
    for (const Link& l : g_.links) {
      const bool gpus = at(l.a).kind == NodeKind::Gpu && at(l.b).kind == NodeKind::Gpu;
      if (gpus && g_.hostOf(l.a) == out_.node) widest = std::max(widest, std::abs(middle(l.a) - middle(l.b)));
    }
    const std::vector<int> switches = g_.all(NodeKind::NvSwitch, out_.node);
    if (widest > 0) out_.lanesHeight = 0.75 * arcDepth(widest) + 10;
    if (!switches.empty()) out_.lanesHeight = std::max(out_.lanesHeight, 96.0);
    bottom_ = std::max(bottom_, out_.lanesTop + out_.lanesHeight);
    if (!switches.empty()) {
      const double width = 120, gap = 40;
      const double total = static_cast<double>(switches.size()) * (width + gap) - gap;
      out_.box.width = std::max(out_.box.width, total + 2 * kPad);
      double left = out_.box.x + (out_.box.width - total) / 2;
      for (const int node : switches) {
        out_.nvSwitches[node] = {left, bottom_, width, 36};
        left += width + gap;
      }
      bottom_ += 36 + kPad;
    }
    out_.box.height = bottom_ + kPad - out_.box.y;
  }

  const Graph& g_;
  std::vector<std::vector<int>> children_;
  HostLayout out_;
  std::vector<std::vector<Branch>> trees_;  // of each NUMA node
  int levels_ = 0;
  double numaTop_ = 0, treeTop_ = 0, deviceTop_ = 0, bottom_ = 0;
};

}  // namespace

double arcDepth(double distance) { return 40 + distance * 0.2; }

HostLayout layoutHost(const Graph& graph, int host, double x, double y) { return Layouter(graph, host).run(x, y); }

}  // namespace tutti::topology

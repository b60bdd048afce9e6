#include <algorithm>
#include <cmath>
#include <set>

#include "src/topology/complete.hpp"
#include "src/topology/rates.hpp"
#include "src/topology/untold.hpp"
#include "tools/topology/svg_layout.hpp"
#include "tools/topology/svg_rings.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

constexpr const char *kPcie = "#4f81bd", *kLane = "#5b9a1f", *kSocket = "#7a5aa6", *kC2c = "#2f9e8f", *kNet = "#d9822b";
constexpr size_t kMostHosts = 8;  // drawn; the others are counted

const Ink kHostInk{"#fafbfc", "#aab2bf", 1.5, 1, false};
const Ink kPackageInk{"#eef2f7", "#c3ccd8", 1, 1, false};
const Ink kNumaInk{"#ffffff", "#9fb0c6", 1, 1, false};
const Ink kCacheInk{"#e3e9f2", "#b4c0d0", 0.8, 1, false};
const Ink kCoreInk{"#8fa3bf", "none", 1, 1, false};
const Ink kSwitchInk{"#d9e6f5", kPcie, 1.2, 1, false};
const Ink kGpuInk{"#e4f2cf", kLane, 1.5, 1, false};
const Ink kNicInk{"#fde8d0", kNet, 1.5, 1, false};
const Ink kDeviceInk{"#eceef1", "#a5acb8", 1, 1, false};
const Ink kNvSwitchInk{"#cfe8ae", kLane, 1.5, 1, false};

/// Wider by a constant step for every doubling, so that 12 GB/s and 900 GB/s are both seen.
double strokeOf(double gbps) { return std::clamp(0.8 + 0.95 * std::log2(1 + gbps / 12), 1.0, 9.0); }

Ink stroke(const char* color, const Link& link, double opacity = 1) {
  return {"none", color, strokeOf(link.gbps), opacity, link.assumed};
}

std::string shortBus(const std::string& busId) { return busId.starts_with("0000:") ? busId.substr(5) : busId; }

class Picture {
 public:
  explicit Picture(const Graph& graph) : g_(graph), children_(childLists(graph)), linksOf_(graph.nodes.size()) {
    for (size_t i = 0; i < g_.links.size(); ++i) {
      linksOf_[static_cast<size_t>(g_.links[i].a)].push_back(static_cast<int>(i));
      linksOf_[static_cast<size_t>(g_.links[i].b)].push_back(static_cast<int>(i));
    }
  }

  std::string draw(const ChannelPlan* plan) {
    const std::vector<int> hosts = g_.all(NodeKind::Host);
    const size_t drawn = std::min(hosts.size(), kMostHosts);
    const double margin = 20, left = margin + (hosts.size() > 1 ? 26 : 0);
    double y = margin, width = 0;
    std::vector<Box> boxes;
    for (size_t i = 0; i < drawn; ++i) {
      const HostLayout layout = layoutHost(g_, hosts[i], left, y);
      drawHost(layout);
      boxes.push_back(layout.box);
      y = layout.box.bottom() + margin;
      width = std::max(width, layout.box.width);
    }
    if (hosts.size() > drawn) {
      canvas_.text(left, y + 4, cat("and ", hosts.size() - drawn, " more hosts"), {13, kQuiet, true, "start"});
      y += 20;
    }
    if (hosts.size() > 1) y = drawNetwork(boxes, margin, left, y, width);
    y = drawLegend(left, y + 4);
    y = drawNotes(left, y, width);
    if (plan != nullptr) y = drawRings(canvas_, g_, *plan, {left, y + 14, std::max(width, kLeastRingsWidth), 0});
    if (plan != nullptr) width = std::max(width, kLeastRingsWidth);
    return canvas_.finish(left + std::max({width, legendWidth_, notesWidth_}) + margin, y + margin / 2);
  }

 private:
  const Node& at(int node) const { return g_.nodes[static_cast<size_t>(node)]; }

  const Link* link(int a, int b, LinkKind kind) const {
    for (const int index : linksOf_[static_cast<size_t>(a)]) {
      const Link& l = g_.links[static_cast<size_t>(index)];
      if (l.kind == kind && (l.a == b || l.b == b)) return &l;
    }
    return nullptr;
  }

  std::string tooltip(const Link& l) const {
    return cat(at(l.a).name, " - ", at(l.b).name, ": ", kindName(l.kind), l.count > 1 ? cat(" x", l.count) : "", ", ",
               formatGBps(l.gbps), " GB/s", l.assumed ? " (assumed)" : "");
  }

  void drawHost(const HostLayout& layout) {
    canvas_.rect(layout.box, kHostInk, 8);
    const Node& host = at(layout.node);
    const size_t gpus = g_.all(NodeKind::Gpu, layout.node).size(), nics = g_.all(NodeKind::Nic, layout.node).size();
    std::string counts = host.name;
    if (gpus > 0) counts += cat(": ", gpus, gpus == 1 ? " GPU" : " GPUs");
    if (nics > 0) counts += cat(gpus > 0 ? ", " : ": ", nics, nics == 1 ? " adapter" : " adapters");
    canvas_.fitted(layout.box.x + 12, layout.box.y + 23, layout.box.width - 24, {counts, host.name},
                   {15, kDark, true, "start"});
    for (const PackageBox& package : layout.packages) {
      canvas_.rect(package.box, kPackageInk, 6);
      const std::string cpu = cpuName(at(package.node).cpu);
      canvas_.fitted(package.box.x + 12, package.box.y + 17, package.box.width - 24,
                     {cat(at(package.node).name, cpu.empty() ? "" : ", ", cpu), at(package.node).name},
                     {12, kDark, true, "start"});
    }
    for (const NumaBox& numa : layout.numas) drawNuma(numa, layout.packages.empty());
    drawSockets(layout);
    drawPcie(layout);
    drawLanes(layout);
    for (const SwitchBar& bar : layout.switches) drawSwitch(bar);
    for (const Cell& cell : layout.cells) drawCell(cell);
    for (const auto& [node, box] : layout.nvSwitches) {
      canvas_.rect(box, kNvSwitchInk, 5, describe(g_, node));
      canvas_.text(box.middle(), box.y + 15, at(node).name, {12, kDark, true, "middle"});
      canvas_.fitted(box.middle(), box.y + 29, box.width - 6, {shortBus(at(node).busId)},
                     {10, kQuiet, false, "middle"});
    }
  }

  void drawNuma(const NumaBox& numa, bool withCpu) {
    const Node& n = at(numa.node);
    canvas_.rect(numa.box, kNumaInk, 5);
    const double x = numa.head.x + 12, width = numa.head.width - 24;
    std::string memory;
    if (n.memoryBytes > 0) memory = cat(", ", std::lround(static_cast<double>(n.memoryBytes) / (1 << 30)), " GiB");
    canvas_.text(x, numa.head.y + 16, n.name, {12, kDark, true, "start"});
    const std::string count = n.cpus.empty() ? std::string("no CPUs listed") : cat(n.cpus.count(), " CPUs");
    const std::string cpu = withCpu ? cpuName(n.cpu) : "";
    const std::string rest = cpu.empty() ? "" : cat(", ", cpu);
    canvas_.fitted(x, numa.head.y + 31, width,
                   {cat(count, " ", n.cpus.list(), memory, rest), cat(count, memory, rest), cat(count, memory), count},
                   {10.5, kQuiet, false, "start"});
    for (const CacheBox& cache : numa.caches) {
      const std::string name = cache.node >= 0 ? at(cache.node).name : "cores";
      canvas_.rect(cache.box, kCacheInk, 2.5, name);
      for (size_t i = 0; i < cache.cores.size(); ++i) {
        const double cx = cache.box.x + 3.5 + static_cast<double>(i % 8) * kCoreSide;
        const double cy = cache.box.y + 3.5 + static_cast<double>(i / 8) * kCoreSide;
        canvas_.rect({cx, cy, kCoreSide - 1, kCoreSide - 1}, kCoreInk, 1.2);
      }
    }
  }

  /// Neighbours only; that all pairs are joined is for the text.
  void drawSockets(const HostLayout& layout) {
    for (size_t i = 0; i + 1 < layout.numas.size(); ++i) {
      const NumaBox &a = layout.numas[i], &b = layout.numas[i + 1];
      const Link* l = link(a.node, b.node, LinkKind::Socket);
      if (l == nullptr) continue;
      const double y = a.head.y + a.head.height / 2, middle = (a.box.right() + b.box.x) / 2;
      canvas_.line(a.box.right(), y, b.box.x, y, stroke(kSocket, *l), tooltip(*l));
      if (b.box.x - a.box.right() < 40) continue;
      canvas_.text(middle, y - 8, cat(formatGBps(l->gbps), " GB/s"), {9.5, kSocket, false, "middle"});
    }
  }

  void drawPcie(const HostLayout& layout) {
    const auto topOf = [&](int parent) {
      for (const SwitchBar& bar : layout.switches) {
        if (bar.node == parent) return bar.box.bottom();
      }
      return layout.rootY;
    };
    for (const NumaBox& numa : layout.numas) drawRoot(layout, numa);
    const auto connect = [&](int node, int parent, const Box& box) {
      const Link* l = link(node, parent, LinkKind::Pci);
      if (l == nullptr) l = link(node, at(node).parent, LinkKind::Pci);
      if (l != nullptr) canvas_.line(box.middle(), topOf(parent), box.middle(), box.y, stroke(kPcie, *l), tooltip(*l));
    };
    for (const SwitchBar& bar : layout.switches) connect(bar.node, bar.parent, bar.box);
    for (const Cell& cell : layout.cells) connect(cell.nodes.front(), cell.parent, cell.box);
  }

  /// The processor's end of PCIe: a bar over all that hangs on it.
  void drawRoot(const HostLayout& layout, const NumaBox& numa) {
    double left = numa.box.right(), right = numa.box.x;
    const auto include = [&](int parent, const Box& box) {
      if (parent != numa.node) return;
      left = std::min(left, box.middle());
      right = std::max(right, box.middle());
    };
    for (const SwitchBar& bar : layout.switches) include(bar.parent, bar.box);
    for (const Cell& cell : layout.cells) include(cell.parent, cell.box);
    if (left <= right)
      canvas_.rect({left - 8, layout.rootY - 3, right - left + 16, 4}, {kPcie, "none", 1, 1, false}, 2);
  }

  /// NVLink, xGMI and C2C, under the boxes that they join.
  void drawLanes(const HostLayout& layout) {
    std::map<int, Box> boxes = layout.nvSwitches;
    for (const Cell& cell : layout.cells) boxes[cell.nodes.front()] = cell.box;
    for (const NumaBox& numa : layout.numas) boxes[numa.node] = numa.head;
    std::map<int, std::vector<int>> lanes;  // of a switch, to fan out over its width
    for (size_t i = 0; i < g_.links.size(); ++i) {
      const Link& l = g_.links[i];
      if (l.kind != LinkKind::NvLink && l.kind != LinkKind::Xgmi && l.kind != LinkKind::C2C) continue;
      if (boxes.count(l.a) == 0 || boxes.count(l.b) == 0) continue;
      const int target = at(l.a).kind == NodeKind::NvSwitch ? l.a : at(l.b).kind == NodeKind::NvSwitch ? l.b : -1;
      if (target >= 0) {
        lanes[target].push_back(static_cast<int>(i));
      } else if (at(l.a).kind == NodeKind::Numa || at(l.b).kind == NodeKind::Numa) {
        const bool numaFirst = at(l.a).kind == NodeKind::Numa;
        const Box &numa = boxes[numaFirst ? l.a : l.b], &gpu = boxes[numaFirst ? l.b : l.a];
        const char* color = l.kind == LinkKind::C2C ? kC2c : kLane;
        canvas_.line(gpu.x + 10, numa.bottom(), gpu.x + 10, gpu.y, stroke(color, l), tooltip(l));
      } else {
        const double x1 = boxes[l.a].middle(), x2 = boxes[l.b].middle();
        const double depth = arcDepth(std::abs(x1 - x2));
        canvas_.curve(x1, boxes[l.a].bottom(), x2, boxes[l.b].bottom(), depth, stroke(kLane, l, 0.7), tooltip(l));
      }
    }
    drawFans(boxes, lanes);
  }

  void drawFans(std::map<int, Box>& boxes, const std::map<int, std::vector<int>>& lanes) {
    size_t place = 0;
    for (const auto& [target, links] : lanes) {
      for (size_t i = 0; i < links.size(); ++i) {
        const Link& l = g_.links[static_cast<size_t>(links[i])];
        const Box &gpu = boxes[l.a == target ? l.b : l.a], &nvSwitch = boxes[target];
        const double from =
            gpu.x + gpu.width * (static_cast<double>(place) + 1) / (static_cast<double>(lanes.size()) + 1);
        const double to =
            nvSwitch.x + nvSwitch.width * (static_cast<double>(i) + 0.5) / static_cast<double>(links.size());
        Ink ink = stroke(kLane, l, 0.7);
        ink.width = lanes.size() > 1 ? ink.width * 0.6 : ink.width;
        canvas_.curve(from, gpu.bottom(), to, nvSwitch.y, (nvSwitch.y - gpu.bottom()) * 0.55, ink, tooltip(l));
      }
      ++place;
    }
  }

  void drawSwitch(const SwitchBar& bar) {
    const Node& n = at(bar.node);
    canvas_.rect(bar.box, kSwitchInk, 4, describe(g_, bar.node));
    const std::string bus = shortBus(n.busId), pcie = pcieName(n.pci);
    const Link* up = link(bar.node, n.parent, LinkKind::Pci);
    const std::string speed = up == nullptr ? "" : cat(", ", formatGBps(up->gbps), " GB/s");
    canvas_.fitted(bar.box.middle(), bar.box.y + 16, bar.box.width - 8,
                   {cat("PCIe switch ", bus, pcie.empty() ? "" : ", ", pcie, speed), cat("PCIe switch ", bus),
                    cat("switch ", bus), "PCIe switch", "switch"},
                   {10.5, kDark, false, "middle"});
  }

  void drawCell(const Cell& cell) {
    const Node& n = at(cell.nodes.front());
    const Ink& ink = n.kind == NodeKind::Gpu ? kGpuInk : n.kind == NodeKind::Nic ? kNicInk : kDeviceInk;
    if (cell.nodes.size() > 1) {
      canvas_.rect({cell.box.x + 6, cell.box.y + 6, cell.box.width, cell.box.height - 6}, ink, 5);
      canvas_.rect({cell.box.x + 3, cell.box.y + 3, cell.box.width, cell.box.height - 6}, ink, 5);
    }
    Box front = cell.box;
    if (cell.nodes.size() > 1) front.height -= 6;
    canvas_.rect(front, ink, 5, describe(g_, cell.nodes.front()));
    const std::vector<std::vector<std::string>> lines = cellLines(cell);
    const double step = 13.5, top = front.y + (front.height - step * static_cast<double>(lines.size())) / 2 + 10.5;
    for (size_t i = 0; i < lines.size(); ++i) {
      canvas_.fitted(front.middle(), top + static_cast<double>(i) * step, front.width - 4, lines[i],
                     {i == 0 ? 11.5 : 9.5, i == 0 ? kDark : kQuiet, i == 0, "middle"});
    }
  }

  /// Each line in forms of falling length.
  std::vector<std::vector<std::string>> cellLines(const Cell& cell) const {
    const Node& n = at(cell.nodes.front());
    std::vector<std::vector<std::string>> lines;
    const size_t copies = cell.nodes.size();
    std::string name = n.name;
    if (n.kind == NodeKind::PciDevice) name = n.pci.classCode >> 16 == 0x03 ? "display" : "storage";
    const std::string times = copies > 1 ? cat(copies, " x ") : "";
    lines.push_back(
        {cat(times, name), cat(times, name.substr(0, name.find_first_of("0123456789"))), name.substr(0, 10)});
    if (n.kind == NodeKind::PciDevice) return lines;
    if (n.kind == NodeKind::Gpu && !n.gpu.gcn.empty()) lines.push_back({n.gpu.gcn});
    if (n.kind == NodeKind::Gpu && n.gpu.gcn.empty() && n.gpu.sm > 0) lines.push_back({cat("sm ", n.gpu.sm)});
    if (n.kind == NodeKind::Nic) lines.push_back({portsText(cell.nodes.front())});
    if (!n.busId.empty()) lines.push_back({copies > 1 ? cat("from ", shortBus(n.busId)) : shortBus(n.busId)});
    if (!pcieName(n.pci).empty()) lines.push_back({pcieName(n.pci)});
    std::erase_if(lines, [](const auto& forms) { return forms.front().empty(); });
    return lines;
  }

  /// "400 Gb/s", "5 ports, 600 Gb/s".
  std::string portsText(int nic) const {
    const std::vector<int>& ports = children_[static_cast<size_t>(nic)];
    double gbits = 0;
    for (const int port : ports) gbits += at(port).net.speedMbps / 1000.0;
    const std::string speed = gbits > 0 ? cat(gbits, " Gb/s") : "";
    if (ports.size() < 2) return speed;
    return cat(ports.size(), " ports", gbits > 0 ? ", " : "", gbits > 0 ? cat(gbits, "G") : "");
  }

  /// A trunk from every host to a bar below them.
  double drawNetwork(const std::vector<Box>& hosts, double margin, double left, double y, double width) {
    const Box bar{margin, y, left - margin + width, 30};
    const Ink wire{"none", kNet, 4, 0.9, false};
    const double trunk = margin + 6;
    canvas_.line(trunk, hosts.front().y + 18, trunk, bar.y, wire);
    for (const Box& host : hosts) canvas_.line(trunk, host.y + 18, host.x, host.y + 18, wire);
    canvas_.rect(bar, kNicInk, 5);
    std::set<int> rails;
    double gbps = 0;
    size_t ports = 0;
    for (const Link& l : g_.links) {
      if (l.kind != LinkKind::Port) continue;
      ++ports;
      gbps += l.gbps;
    }
    for (const int net : g_.all(NodeKind::Net)) {
      if (at(net).net.rail >= 0) rails.insert(at(net).net.rail);
    }
    canvas_.text(bar.middle(), bar.y + 20,
                 cat("network: ", ports, " ports", rails.empty() ? "" : cat(", ", rails.size(), " rails"), ", ",
                     formatGBps(gbps), " GB/s in all"),
                 {13, kDark, true, "middle"});
    return bar.bottom() + 14;
  }

  double drawLegend(double x, double y) {
    struct Row {
      LinkKind kind;
      const char* color;
    };
    const Row rows[] = {{LinkKind::Pci, kPcie},
                        {LinkKind::NvLink, kLane},
                        {LinkKind::Xgmi, kLane},
                        {LinkKind::C2C, kC2c},
                        {LinkKind::Socket, kSocket}};
    const double start = x, line = y + 8;
    bool assumed = false;
    for (const Row& row : rows) {
      std::set<double> speeds;
      for (const Link& l : g_.links) {
        if (l.kind != row.kind) continue;
        speeds.insert(l.gbps);
        assumed = assumed || l.assumed;
      }
      if (speeds.empty()) continue;
      canvas_.text(x, line + 4, kindName(row.kind), {11, kDark, true, "start"});
      x += Canvas::widthOf(kindName(row.kind), {11, kDark, true, "start"}) + 8;
      for (const double gbps : some(speeds)) {
        canvas_.line(x, line, x + 26, line, {"none", row.color, strokeOf(gbps), 1, false});
        canvas_.text(x + 31, line + 4, formatGBps(gbps), {10.5, kQuiet, false, "start"});
        x += 37 + Canvas::widthOf(formatGBps(gbps), {10.5, kQuiet, false, "start"});
      }
      x += 16;
    }
    const std::string unit = assumed ? "GB/s each way; dashed: not given, assumed" : "GB/s each way";
    canvas_.text(x, line + 4, unit, {10.5, kQuiet, false, "start"});
    legendWidth_ = x + Canvas::widthOf(unit, {10.5, kQuiet, false, "start"}) - start;
    return line + 20;
  }

  /// At most three of the speeds: the slowest, the fastest, one between.
  static std::vector<double> some(const std::set<double>& speeds) {
    const std::vector<double> all(speeds.begin(), speeds.end());
    if (all.size() <= 3) return all;
    return {all.front(), all[all.size() / 2], all.back()};
  }

  /// What is left out and what is not told, then notes; a few.
  double drawNotes(double x, double y, double width) {
    std::vector<std::string> lines = g_.leftOut;
    for (const std::string& gap : untold(g_)) lines.push_back(cat("not told: ", gap));
    lines.insert(lines.end(), g_.notes.begin(), g_.notes.end());
    for (size_t i = 0; i < lines.size() && i < 6; ++i, y += 14) {
      std::string& words = lines[i];
      const Font font{10, kQuiet, false, "start"};
      while (Canvas::widthOf(words, font) > std::max(width, kLeastRingsWidth) && words.size() > 8)
        words = cat(words.substr(0, words.size() - 8), "...");
      notesWidth_ = std::max(notesWidth_, Canvas::widthOf(words, font));
      canvas_.text(x, y + 8, words, font);
    }
    return y;
  }

  const Graph& g_;
  std::vector<std::vector<int>> children_;
  std::vector<std::vector<int>> linksOf_;
  Canvas canvas_;
  double legendWidth_ = 0, notesWidth_ = 0;
};

}  // namespace

std::string toSvg(const Graph& graph, const ChannelPlan* plan) { return Picture(graph).draw(plan); }

}  // namespace tutti::topology

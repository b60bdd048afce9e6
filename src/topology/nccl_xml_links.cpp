#if TUTTI_HAVE_PUGIXML
#include "src/topology/nccl_xml_links.hpp"

#include <algorithm>

#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

constexpr int kNvSwitchClass = 0x068000;
constexpr int kCpuClass = 0x068001;               // a processor with NVLink: POWER9
constexpr const char* kHidden = "fffffff:ff:ff";  // as NCCL writes a neighbour that a virtual machine is not shown

}  // namespace

bool NcclLinks::isLink(std::string_view tag) {
  return tag == "nvlink" || tag == "xgmi" || tag == "pcilink" || tag == "c2c";
}

Status NcclLinks::add(pugi::xml_node e, int from, int host) {
  const std::string_view tag = e.name();
  if (tag == "c2c") return connectC2c(e, from);
  const LinkKind kind = tag == "nvlink" ? LinkKind::NvLink : tag == "xgmi" ? LinkKind::Xgmi : LinkKind::PciPeer;
  pending_.push_back({e, from, host, kind});
  return {};
}

/// `bw` is MB/s of one of `count` links to the CPU that the GPU is part of.
Status NcclLinks::connectC2c(pugi::xml_node e, int gpu) {
  if (!e.attribute("bw") && !e.attribute("gbps")) return file_.error(e, "has no bw");
  const int count = file_.integer(e, "count", 1, 1, 1024);
  const double given = file_.number(e, "gbps", 0), bw = file_.number(e, "bw", 0);
  const double gbps = given > 0 ? given : bw * count / 1000;
  if (gbps > 0) {
    g_.connect({g_.enclosing(gpu, NodeKind::Numa), gpu, LinkKind::C2C, count, gbps, false});
  } else {
    file_.leaveOut(e, "", "has no bandwidth: the link is left out");
  }
  return {};
}

Status NcclLinks::connect() {
  for (const Pending& pending : pending_) TUTTI_TRY(resolve(pending));
  connectLanes();
  for (const auto& [ends, kinds] : lanes_) {
    for (const int node : {ends.first, ends.second}) at(node).gpu.linksTold |= at(node).kind == NodeKind::Gpu;
  }
  return {};
}

int NcclLinks::nvSwitch(int host, const std::string& busId) {
  const auto known = busIds_.find({host, busId});
  if (known != busIds_.end()) return known->second;
  Node n{.kind = NodeKind::NvSwitch, .parent = host, .busId = busId};
  return busIds_[{host, busId}] = g_.add(n);
}

/// -1: nobody knows.
int NcclLinks::targetOf(const Pending& p, const std::string& target) {
  const int targetClass = file_.pciClass(p.element, "tclass");
  const auto known = busIds_.find({p.host, target});
  if (known != busIds_.end()) return known->second;
  if (targetClass == kCpuClass) return g_.enclosing(p.from, NodeKind::Numa);
  // NCCL, too, takes a neighbour of which it knows nothing for an NVSwitch (ncclTopoGetXmlFromGpu).
  const bool unknown = targetClass < 0 && p.kind == LinkKind::NvLink;
  if (targetClass != kNvSwitchClass && !unknown) return -1;
  if (unknown) file_.remark(p.element, cat("to ", target), "says not to what it leads: taken for an NVSwitch");
  return nvSwitch(p.host, target.empty() ? kHidden : target);
}

Status NcclLinks::resolve(const Pending& p) {
  const std::string target = canonicalBusId(p.element.attribute("target").value());
  const std::string subject = cat("of ", at(p.from).busId, target.empty() ? "" : " to ", target);
  if (target.empty() && !p.element.attribute("tclass")) {
    file_.leaveOut(p.element, subject, "has no target: the link is left out");
    return {};
  }
  const bool isLanes = p.kind != LinkKind::PciPeer;
  const int count = isLanes ? file_.integer(p.element, "count", 1, 0, 1024) : 1;
  if (count == 0) return {};  // before targetOf, which adds a switch that nothing would lead to
  const int to = targetOf(p, target);
  if (to < 0) {
    file_.leaveOut(p.element, subject, "leads to what is not in the file: the link is left out");
  } else if (to == p.from) {
    file_.leaveOut(p.element, subject, "leads from a device to itself: the link is left out");
  } else if (!isLanes) {
    return resolvePciPeer(p, to);
  } else {
    Lanes& lanes = lanes_[{p.from, to}][p.kind];
    lanes.count += count;
    lanes.gbps += file_.number(p.element, "gbps", 0);
  }
  return {};
}

Status NcclLinks::resolvePciPeer(const Pending& p, int target) {
  if (at(p.from).kind != NodeKind::PciSwitch)
    return file_.error(p.element, "joins switches, and what it is in is none");
  if (at(target).kind != NodeKind::PciSwitch) {
    file_.leaveOut(p.element, cat("to ", at(target).busId), "leads to what is no switch: the link is left out");
    return {};
  }
  if (g_.linkBetween(p.from, target, LinkKind::PciPeer) >= 0) return {};
  const auto speed = [&](int node) { return pcieGBps(at(node).pci.linkGTps, at(node).pci.linkWidth); };
  const double known = std::min(speed(p.from), speed(target));
  g_.connect({std::min(p.from, target), std::max(p.from, target), LinkKind::PciPeer, 1,
              known > 0 ? known : assumedPcieGBps(), known <= 0});
  return {};
}

/// Both ends of a link list it: one link of the graph, with the larger count should they disagree.
void NcclLinks::connectLanes() {
  for (const auto& [ends, kinds] : lanes_) {
    for (const auto& [kind, lanes] : kinds) {
      const auto [from, to] = ends;
      const auto back = lanes_.find({to, from});
      if (back == lanes_.end() || back->second.count(kind) == 0) {
        connectLanes(from, to, kind, lanes);
        continue;
      }
      if (to < from) continue;  // seen from the other end
      const Lanes& other = back->second.at(kind);
      if (other.count != lanes.count) {
        g_.note(cat("the ends disagree on the number of ", kindName(kind), "s between ", at(from).busId, " and ",
                    at(to).busId, ": ", lanes.count, " and ", other.count));
      }
      connectLanes(from, to, kind, other.count > lanes.count ? other : lanes);
    }
  }
}

void NcclLinks::connectLanes(int from, int to, LinkKind kind, const Lanes& lanes) {
  const GpuInfo& gpu = at(at(from).kind == NodeKind::Gpu ? from : to).gpu;
  const double each = kind == LinkKind::Xgmi ? xgmiGBps(gpu.gcn) : nvlinkGBps(gpu.sm);
  const double gbps = lanes.gbps > 0 ? lanes.gbps : each * lanes.count;
  g_.connect({std::min(from, to), std::max(from, to), kind, lanes.count, gbps, false});
}

}  // namespace tutti::topology
#endif

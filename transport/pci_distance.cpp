#include "transport/pci_distance.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "src/base/text.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"LOC", "PIX", "PXB", "PHB", "SYS"};

struct Place {
  std::string folder;
  int node = -1;
};

std::optional<Place> placeOf(const std::string& link) {
  std::error_code missing;
  const std::filesystem::path folder = std::filesystem::canonical(link, missing);
  if (missing) return std::nullopt;
  Place place{folder.string()};
  std::ifstream(folder / "numa_node") >> place.node;
  return place;
}

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

// Folders are /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/...: a host bridge, a root port, ports of switches.
PciDistance pciDistance(std::string_view one, int oneNode, std::string_view other, int otherNode) {
  const auto a = split(one, '/'), b = split(other, '/');
  size_t common = 0, bridge = 0;
  for (; common < a.size() && common < b.size() && a[common] == b[common]; ++common)
    if (a[common].starts_with("pci")) bridge = common + 1;
  const size_t below = bridge == 0 ? 0 : common - bridge;  // ports in common
  // From the device up and down again to the adapter: one switch's upstream port, or its two downstream ones.
  constexpr size_t kPortsOfOneSwitch = 2;
  const size_t apart = std::max(a.size(), b.size()) - common;
  if (below > 0) return apart <= kPortsOfOneSwitch ? PciDistance::Pix : PciDistance::Pxb;
  const bool oneBridge = bridge != 0;
  const bool oneNumaNode = oneNode >= 0 && oneNode == otherNode;
  return oneBridge || oneNumaNode ? PciDistance::Phb : PciDistance::Sys;
}

Status checkDistance(std::string_view name, const std::string& folder, const std::string& busId, PciDistance farthest) {
  if (farthest == PciDistance::Loc) return invalidUsage(ErrorCode::GpuDirect, "TUTTI_NET_GDR_LEVEL=LOC excludes it");
  const auto one = placeOf(folder);
  const auto other = placeOf(cat("/sys/bus/pci/devices/", lowered(busId)));
  if (!one || !other) return {};
  const PciDistance distance = pciDistance(one->folder, one->node, other->folder, other->node);
  if (distance <= farthest) return {};
  return invalidUsage(ErrorCode::GpuDirect, name, " is as far as ", nameOf(distance), " from the device at ", busId,
                      "; TUTTI_NET_GDR_LEVEL allows ", nameOf(farthest));
}

std::string_view nameOf(PciDistance distance) { return kNames[static_cast<size_t>(distance)]; }

}  // namespace tutti

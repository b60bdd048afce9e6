// How far an adapter is from a device on PCI, and how far it may be to read and write the device's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::verbs {

/// As NCCL's levels, in the order of TUTTI_NET_GDR_LEVEL's words.
enum class PciDistance : uint8_t {
  Loc,  // none: never, as the most that is allowed
  Pix,  // below one switch
  Pxb,  // below one root port, by several switches
  Phb,  // below one host bridge or NUMA node, through the processor
  Sys,  // between NUMA nodes
};

/// Of two devices by their folders below /sys/devices, links resolved, and their NUMA nodes (-1: unknown).
PciDistance pciDistance(std::string_view one, int oneNode, std::string_view other, int otherNode);
/// Of an adapter and a device; nothing: the system does not know one of them.
std::optional<PciDistance> distanceOf(const std::string& adapter, const std::string& busId);
/// "PXB".
std::string_view nameOf(PciDistance distance);

}  // namespace tutti::verbs

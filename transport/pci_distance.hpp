// How far an adapter is from a device on PCI, and how far it may be to read and write the device's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace tutti {

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
/// Whether an adapter is near enough to the device at `busId` to read and write its memory; one whose place the system
/// does not tell is.  name: of the adapter; folder: any path to its folder below /sys/devices.  Errors: InvalidUsage, a
/// clause that says why not.
Status checkDistance(std::string_view name, const std::string& folder, const std::string& busId, PciDistance farthest);
/// "PXB".
std::string_view nameOf(PciDistance distance);

}  // namespace tutti

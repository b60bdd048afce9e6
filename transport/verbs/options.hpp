// What the environment says of InfiniBand and RoCE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.hpp"
#include "transport/pci_distance.hpp"

namespace tutti::verbs {

/// The most of a connection.
inline constexpr uint32_t kMostRails = 4;
inline constexpr uint32_t kMostQueuePairs = 16;  // on each rail

/// By variable: TUTTI_IB_HCA and so on.
struct Options {
  std::string adapters;
  uint32_t rails = 1;
  uint32_t queuePairs = 1;
  bool splits = false;  // pieces of a message over the queue pairs of a rail, too
  int gidIndex = -1;    // -1: chosen
  std::string addressFamily, addressRange;
  int roceVersion = 0;  // 0: any
  int partition = 0;    // index into the port's table of P_Keys
  int trafficClass = 0;
  int serviceLevel = 0;
  int timeout = 18;
  int retries = 6;
  int mtu = 0;                              // bytes; 0: the port's
  int relaxedOrdering = 2;                  // 0: never, 1: or fail, 2: where the library has it
  int adaptiveRouting = -1;                 // -1: on InfiniBand
  size_t adaptiveAbove = 8192;              // bytes
  PciDistance farthest = PciDistance::Pxb;  // of a device whose memory adapters read and write
  int localRank = 0;                        // of the rank, among those of its host
  size_t slots = 4;
  size_t slotBytes = 128 << 10;

  /// Errors: InvalidUsage naming the variable.
  static Result<Options> fromConfig();
};

/// Whether TUTTI_IB_HCA='list' allows this port: "mlx5_0,mlx5_2:1" beginnings of names, "=" in front: whole names, "^"
/// in front of all: every other one.
bool allowsPort(std::string_view list, std::string_view device, int port);
/// How many entries of the list stand before the first that names this port; 0 where the list excludes.
size_t placeInList(std::string_view list, std::string_view device, int port);

}  // namespace tutti::verbs

// What the environment says of InfiniBand and RoCE.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace tutti::verbs {

/// By variable: TUTTI_IB_HCA and so on.
struct Options {
  std::string adapters;
  int gidIndex = -1;  // -1: chosen
  int trafficClass = 0;
  int serviceLevel = 0;
  int timeout = 18;
  int retries = 6;
  int mtu = 0;  // bytes; 0: the port's
  size_t slots = 4;
  size_t slotBytes = 128 << 10;

  /// Errors: InvalidUsage naming the variable.
  static Result<Options> fromConfig();
};

/// Whether TUTTI_IB_HCA='list' allows this port: "mlx5_0,mlx5_2:1" beginnings of names, "=" in front: whole names, "^"
/// in front of all: every other one.
bool allowsPort(std::string_view list, std::string_view device, int port);

}  // namespace tutti::verbs

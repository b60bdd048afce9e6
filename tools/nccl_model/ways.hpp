// How long each way takes, by what its blocks, links and adapters do.  Without the launch.
#pragma once

#include "tools/nccl_model/call.hpp"

namespace tutti::nccl_model {

/// Where the time goes.
struct WayTime {
  double latencyUs = 0;  // until the first bytes are through
  double dataUs = 0;     // for the others
  int channels = 0;
  double chunkBytes = 0;  // 0: not in chunks
  double us() const { return latencyUs + dataUs; }
};

WayTime ringTime(const Call& call, Protocol protocol);
WayTime treeTime(const Call& call, Protocol protocol);
WayTime switchTime(const Call& call, Way way);  // Nvls, NvlsTree, NvlsSharp
WayTime pairsTime(const Call& call, Protocol protocol);

}  // namespace tutti::nccl_model

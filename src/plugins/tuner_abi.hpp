// NCCL's interface to tuner plugins, versions 4 to 6, as far as it is called here: what a plugin exports under
// ncclTunerPlugin_vN is a table of functions.  Layout, order and numbers are the interface; names are ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/plugin_logger.hpp"

namespace tutti::tuner {

/// ncclResult_t; 0 is success.
using Code = int;
inline constexpr Code kSuccess = 0;

enum class Function : int { Broadcast = 0, Reduce = 1, AllGather = 2, ReduceScatter = 3, AllReduce = 4 };
inline constexpr int kTree = 0, kRing = 1, kPat = 6, kNumAlgorithms = 7;
inline constexpr int kFlagged = 0 /* LL */, kSimple = 2, kNumProtocols = 3;
/// What cannot be had costs this.
inline constexpr float kIgnored = -1.0F;

/// Microseconds of each algorithm with each protocol.
using CostTable = float[kNumAlgorithms][kNumProtocols];

/// Groups of GPUs that NVLink joins: here hosts.
struct Domains {
  int n;
  int leastRanks;
  int mostRanks;
};

/// Figures of NCCL's own model, which a plugin may change, to no effect here.
struct Constants {
  double base[kNumAlgorithms][kNumProtocols];
  double hardware[3][kNumAlgorithms][kNumProtocols];
  double bandwidths[5][4][3];
};

using GetCollInfo = Code(void* context, Function function, size_t bytes, int numPipeOps, float** table,
                         int numAlgorithms, int numProtocols, int registered, int* nChannels);

/// What a plugin of version 4 exports.
struct Table4 {
  const char* name;
  Code (*init)(size_t nRanks, size_t nNodes, PluginLogger logger, void** context);
  GetCollInfo* getCollInfo;
  Code (*destroy)(void* context);
};

/// Versions 5 and 6, which ends with one function more.
struct Table5And6 {
  const char* name;
  Code (*init)(void** context, uint64_t communicator, size_t nRanks, size_t nNodes, PluginLogger logger,
               Domains* domains, Constants* constants);
  GetCollInfo* getCollInfo;
  Code (*finalize)(void* context);
};

}  // namespace tutti::tuner

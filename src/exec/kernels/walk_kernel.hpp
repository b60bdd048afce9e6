// How a walk kernel is defined: TUTTI_DEFINE_WALK(Name, Arithmetic) is kernel tutti_walk_Name, the resident executor.
//   grid and block   one block of kWalkThreads for each lane of each rank of the launch (WalkMember::firstBlock)
//   reads, writes    the ranks' buffers, scratch and links' ends; memory that peers lend
//   order            what was enqueued before is visible; between blocks acquire and release at system scope
//   starting         all blocks at once (a cooperative launch), when there is room for them; tells the host, if asked
//   to leaving          waits for blocks of this and of other launches; ends when they do, or when the abort word of
//   its
//                    rank is set
// For nvcc alone.
#pragma once

#include "src/exec/kernels/walk_body.hpp"

#define TUTTI_DEFINE_WALK(Name, ...)                                                               \
  extern "C" __global__ void __launch_bounds__(tutti::kernels::kWalkThreads, 1)                    \
      tutti_walk_##Name(const __grid_constant__ tutti::kernels::WalkArguments a) {                 \
    using namespace tutti::kernels;                                                                \
    __shared__ LaneState state;                                                                    \
    walkBlock<__VA_ARGS__, BlockTeam, GpuMemory, GpuPatience>(BlockTeam(), a, blockIdx.x, &state); \
  }

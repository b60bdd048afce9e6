// The kernels that serve all ranks of a launch in one pass (pass_body.hpp): tutti_pass_NAME.
//   grid and block   any number of blocks of kWalkThreads
//   reads, writes    the ranks' buffers
//   order            what was enqueued before is visible
//   leaving          waits for nothing
#include "src/exec/kernels/pass_body.hpp"

// Two blocks to a multiprocessor: while the threads of one wait for memory, or for each other, the other's go on.
#define TUTTI_DEFINE_PASS(Name, ...)                                                 \
  extern "C" __global__ void __launch_bounds__(tutti::kernels::kWalkThreads, 2)      \
      tutti_pass_##Name(const __grid_constant__ tutti::kernels::PassArguments a) {   \
    using namespace tutti::kernels;                                                  \
    __shared__ PassState state;                                                      \
    Pass<__VA_ARGS__, BlockTeam>(BlockTeam(), a, &state).run(blockIdx.x, gridDim.x); \
  }

TUTTI_WALK_KERNELS(TUTTI_DEFINE_PASS)

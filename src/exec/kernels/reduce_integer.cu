// Kernels tutti_reduce_FORMAT_OPERATOR.
//   grid and block   any; all threads of the grid stride over the elements
//   reads, writes    the buffers that the argument names, nothing else; waits for nothing and always ends
//   order            what was enqueued before in the stream is visible; no fences of its own
#include "src/exec/kernels/kernel_list.hpp"

using namespace tutti::kernels;

#define TUTTI_DEFINE_REDUCE(Format, Op)                                                                              \
  extern "C" __global__ void __launch_bounds__(512, 1) tutti_reduce_##Format##_##Op(                                    \
      const __grid_constant__ ReduceArguments a) {                                                                   \
    reduceSources<Format, Op>(Grid(), a);                                                                            \
  }
TUTTI_INTEGER_REDUCE_KERNELS(TUTTI_DEFINE_REDUCE)

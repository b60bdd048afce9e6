// Kernels tutti_scale_FORMAT and tutti_divide_FORMAT.
//   grid and block   any; all threads of the grid stride over the elements
//   reads, writes    the buffers that the argument names, nothing else; waits for nothing and always ends
//   order            what was enqueued before in the stream is visible; no fences of its own
#include "src/exec/kernels/kernel_list.hpp"
#include "src/exec/kernels/scale_body.hpp"

using namespace tutti::kernels;

#define TUTTI_DEFINE_SCALE(Format)                                     \
  extern "C" __global__ void __launch_bounds__(512, 1)                 \
      tutti_scale_##Format(const __grid_constant__ ScaleArguments a) { \
    scaleElements<Format>(Grid(), a);                                  \
  }
#define TUTTI_DEFINE_DIVIDE(Format)                                     \
  extern "C" __global__ void __launch_bounds__(512, 1)                  \
      tutti_divide_##Format(const __grid_constant__ ScaleArguments a) { \
    divideElements<Format>(Grid(), a);                                  \
  }
TUTTI_SCALE_KERNELS(TUTTI_DEFINE_SCALE)
TUTTI_DIVIDE_KERNELS(TUTTI_DEFINE_DIVIDE)

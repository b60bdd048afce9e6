// Kernels tutti_layer_NAME.
//   grid and block   any number of blocks of a multiple of 32 threads; all threads of the grid stride over the elements
//   reads, writes    what the argument names, nothing else; waits for nothing and always ends
//   order            what was enqueued before in the stream is visible; no fences of its own
#include "src/parallel/kernels/kernel_list.hpp"

using namespace tutti::parallel::kernels;

#define TUTTI_DEFINE_LAYER(Name, Arguments, items, ...)                                                          \
  extern "C" __global__ void __launch_bounds__(512, 1) tutti_layer_##Name(const __grid_constant__ Arguments a) { \
    __VA_ARGS__(tutti::kernels::Grid(), a);                                                                      \
  }
TUTTI_LAYER_KERNELS(TUTTI_DEFINE_LAYER)

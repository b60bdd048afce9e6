// How a pass kernel is defined: TUTTI_DEFINE_PASS(Name, Arithmetic) is kernel tutti_pass_Name (pass_body.hpp).
//   grid and block   any number of blocks of kWalkThreads
//   reads, writes    the buffers that the argument names
//   order            what was enqueued before is visible; no fences of its own
//   leaving          waits for nothing
// For nvcc alone.
#pragma once

#include "src/exec/kernels/pass_body.hpp"

namespace tutti::kernels {

/// Blocks to a multiprocessor: while the threads of one wait for memory, or for each other, the other's go on.  Where
/// two would not have registers enough, there is one.
template <class Arithmetic>
inline constexpr int kBlocksTogether = 2;
template <class T>
inline constexpr int kBlocksTogether<Reduces<Plain<T>, FloatMax>> = 1;
template <class T>
inline constexpr int kBlocksTogether<Reduces<Plain<T>, FloatMin>> = 1;
template <class T>
requires(sizeof(T) == 1) inline constexpr int kBlocksTogether<Reduces<Plain<T>, Max>> = 1;
template <class T>
requires(sizeof(T) == 1) inline constexpr int kBlocksTogether<Reduces<Plain<T>, Min>> = 1;

}  // namespace tutti::kernels

#define TUTTI_DEFINE_PASS(Name, ...)                                                         \
  extern "C" __global__ void __launch_bounds__(tutti::kernels::kWalkThreads,                 \
                                               tutti::kernels::kBlocksTogether<__VA_ARGS__>) \
      tutti_pass_##Name(const __grid_constant__ tutti::kernels::PassArguments a) {           \
    using namespace tutti::kernels;                                                          \
    __shared__ PassState state;                                                              \
    Pass<__VA_ARGS__, BlockTeam>(BlockTeam(), a, &state).run(blockIdx.x, gridDim.x);         \
  }
#define TUTTI_DEFINE_REDUCING_PASS(Format, Op) \
  TUTTI_DEFINE_PASS(Format##_##Op, tutti::kernels::Reduces<tutti::kernels::Format, tutti::kernels::Op>)

// The kernels for what training adds up, and for copies.
#include "src/exec/kernels/walk_kernel.hpp"

TUTTI_FAST_WALK_KERNELS(TUTTI_DEFINE_WALK)

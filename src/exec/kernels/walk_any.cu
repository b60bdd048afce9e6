// The kernel for every type and operator.
#include "src/exec/kernels/walk_kernel.hpp"

TUTTI_DEFINE_WALK(Any, AnyArithmetic)

// Passes that combine floats.
#include "src/exec/kernels/pass_kernel.hpp"

TUTTI_FLOAT_REDUCE_KERNELS(TUTTI_DEFINE_REDUCING_PASS)

// Passes that combine floats of one and two bytes.
#include "src/exec/kernels/pass_kernel.hpp"

TUTTI_SMALL_REDUCE_KERNELS(TUTTI_DEFINE_REDUCING_PASS)

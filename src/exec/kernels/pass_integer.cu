// Passes that combine integers, and the one that only moves data.
#include "src/exec/kernels/pass_kernel.hpp"

TUTTI_INTEGER_REDUCE_KERNELS(TUTTI_DEFINE_REDUCING_PASS)
TUTTI_DEFINE_PASS(Copy, tutti::kernels::NoArithmetic)

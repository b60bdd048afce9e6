// Measuring what memory costs, on the core of the calling thread.
#pragma once

#include <cstdint>

#include "src/cost/calibration.hpp"

namespace tutti {

/// Bandwidths of copy and float sum on one core near and far, and how far memory of sizes between is; by copies as the
/// process makes them.
void measureMemory(Calibration* into);

/// The least size, input and output together, from which stores past the cache are clearly faster for copies, and stay
/// so for larger ones; UINT64_MAX: none.  Looks at sizes until `endNs`.
uint64_t streamingPays(int64_t endNs);

}  // namespace tutti

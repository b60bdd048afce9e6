// Measuring what memory costs, on the core of the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "src/cost/calibration.hpp"

namespace tutti {

/// Bandwidths of copy and float sum on one core near and far, and how far memory of sizes between is; by copies as the
/// process makes them.
void measureMemory(Calibration* into);

/// The least size, input and output together, from which stores past the cache are faster for copies whose output is
/// read afterwards; UINT64_MAX: none.  Looks at sizes from kMostStreamedFootprint down until `endNs`.
uint64_t streamingPays(int64_t endNs);
/// Input and output of the largest copy: more than a guest may have of a shared cache.
inline constexpr uint64_t kMostStreamedFootprint = uint64_t{128} << 20;
/// The same from ratios of streamed to plain time.  The first ratio is of kMostStreamedFootprint, each other one of
/// half as much as the one before.  All sizes together win most with the result, so one disturbed ratio does not
/// decide.
uint64_t streamedFrom(std::span<const double> ratios);

}  // namespace tutti

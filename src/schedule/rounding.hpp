// What decides the bits of a result of floating-point numbers: which operands are added to which, in which order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// A hash of the sums that make every result on every rank: sets of schedules with the same hash give the same bits.
/// Two operands may change places, three may not.  Sets that divide a vector into different numbers of chunks have the
/// same hash if all chunks are summed alike.
///   schedules      one per rank, verified, one channel, before publish()
///   roundsPerOp    whether an op of several operands rounds once (types of up to 16 bits, which are summed as float),
///                  so that it is not the same as several ops of two
/// None: the schedules do not complete.
std::optional<uint64_t> roundingOf(const std::vector<Schedule>& schedules, bool roundsPerOp);

/// Whether all ranks of an AllReduce end with the same bits; false, too, if the schedules do not complete.
bool roundsAlike(const std::vector<Schedule>& schedules, bool roundsPerOp);

}  // namespace tutti

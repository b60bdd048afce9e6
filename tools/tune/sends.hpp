// Which way messages between two ranks are faster, by size.
#pragma once

#include <span>
#include <vector>

#include "perf/common/small_program.hpp"
#include "src/plan/tuning.hpp"

namespace tutti {

/// Ping-pong between ranks 0 and 1, 2 and 3, and so on, all at once; `rounds` blocks of about blockUs of each way, in
/// turns; fresh: the senders write new data before each message.  Ranks have to be of one host, and to share memory.
/// Collective; the same on all ranks.
std::vector<TunedSend> tuneSends(const perf::Ranks& w, std::span<const size_t> sizes, float* in, float* out, bool fresh,
                                 int rounds, double blockUs);

}  // namespace tutti

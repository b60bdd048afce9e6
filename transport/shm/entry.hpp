// Shared memory in the table of transports.
#pragma once

#include "transport/entry.hpp"

namespace tutti {

/// Between ranks of one process, and of two.
inline constexpr LinkProfile kShmThreads = {
    .key = "shm-threads", .writesOnce = true, .directReads = DirectReads::Loads, .mapped = true};
inline constexpr LinkProfile kShmProcesses = {
    .key = "shm-processes", .writesOnce = true, .directReads = DirectReads::SystemCalls, .mapped = true};

extern const TransportEntry kShmEntry;

}  // namespace tutti

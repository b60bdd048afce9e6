// Calls of the C API that throw what they failed with, and sums of the traffic that it counts.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tutti/parallel/base.h"

namespace gpt {

inline void call(tuttiResult_t result) {
  if (result != tuttiSuccess) throw std::runtime_error(tuttiParallelGetLastError());
}
inline void callComm(tuttiResult_t result, tuttiComm_t comm) {
  if (result != tuttiSuccess) throw std::runtime_error(tuttiGetLastError(comm));
}

inline void addTraffic(tuttiTraffic_t& into, const tuttiTraffic_t& more, uint64_t times = 1) {
  for (int c = 0; c < tuttiNumCalls; ++c) {
    into.calls[c] += times * more.calls[c];
    into.bytes[c] += times * more.bytes[c];
  }
  into.wireBytes += static_cast<double>(times) * more.wireBytes;
}

}  // namespace gpt

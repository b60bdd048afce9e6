// Calls of the C API that throw what they failed with.
#pragma once

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

}  // namespace gpt

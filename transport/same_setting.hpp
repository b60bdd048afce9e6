// The error of two ends of an endpoint that are not set alike.
#pragma once

#include "src/base/status.hpp"

namespace tutti {

/// Errors: InvalidUsage, naming the variable, both values and the peer, unless both values are equal.
template <class T>
Status checkSameSetting(const char* variable, const T& here, const T& there, int peer) {
  if (here == there) return {};
  return invalidUsage(ErrorCode::SettingsDiffer, variable, " is ", here, " here and ", there, " on rank ", peer,
                      "; it must be the same on all ranks");
}

}  // namespace tutti

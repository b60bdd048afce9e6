// The error that every endpoint returns when a message is not the one its receiver expects.
#pragma once

#include <cstddef>

#include "src/base/status.hpp"
#include "src/collective/fingerprint.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// InvalidUsage naming the peer and both calls, or, where the calls agree, both sizes.  ok if all is as expected.
inline Status checkExpected(int peer, const Expect& expect, size_t bytes, const Fingerprint& call) {
  if (call != expect.call) {
    return invalidUsage(ErrorCode::CallsDiffer, "rank ", peer, " is in ", describeCall(call), " while this rank is in ",
                        describeCall(expect.call));
  }
  if (bytes != expect.bytes) {
    return invalidUsage(ErrorCode::CallsDiffer, "rank ", peer, " sent a message of ", bytes,
                        " bytes where this rank expects ", expect.bytes, ", both in ", describeCall(call));
  }
  return {};
}

}  // namespace tutti

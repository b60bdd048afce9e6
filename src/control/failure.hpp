// The message that says what broke a communicator.
#pragma once

#include "src/control/bootstrap_node.hpp"
#include "src/control/wire.hpp"

namespace tutti {

inline constexpr size_t kMaxFailureText = 2048;

inline std::string failureMessage(const Failure& failure) {
  Writer w(MessageType::Failure);
  w.i32(failure.rank);
  w.u32(static_cast<uint32_t>(failure.status.code()));
  w.u8(failure.onPurpose ? 1 : 0);
  w.text(failure.status.text(kMaxFailureText));
  return w.take();
}

/// Behind its type.  Errors: RemoteError: malformed.
inline Result<Failure> readFailure(Reader& in) {
  const int32_t rank = in.i32();
  const uint32_t code = in.u32();
  const uint8_t onPurpose = in.u8();
  const std::string text(in.text(kMaxFailureText));
  if (!in.done() || rank < -1 || onPurpose > 1 || code == tuttiSuccess || code >= tuttiNumResults)
    return remoteError(ErrorCode::Malformed, "a malformed report of a failure");
  return Failure{rank, Status(static_cast<tuttiResult_t>(code), text), onPurpose == 1};
}

}  // namespace tutti

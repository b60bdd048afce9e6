// The step from C into C++ and back: a Status becomes a result code, and its sentence the last error.
#pragma once

#include <exception>
#include <type_traits>

#include "src/base/status.hpp"
#include "src/comm/fast_path.hpp"
#include "src/comm/group.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// The calling thread's last error sentence (tuttiGetLastError with comm NULL).
std::string& threadErrorText();

/// Keep `status` as the last error of this thread and, if there is one, of the handle.  "AllReduce: " goes in front.
tuttiResult_t report(const char* function, const Status& status, tuttiComm_t handle);

/// Same for a call that a group would collect: with a bad one nothing of the group is started.
tuttiResult_t reportCall(const char* function, const Status& status, tuttiComm_t handle);

/// For the exception that is being handled: memory has run out, or a thread cannot be had.  The communicator breaks, if
/// there is one, since the call may have ended anywhere.  `handle` may be NULL.
tuttiResult_t thrown(const char* function, tuttiComm_t handle) noexcept;

/// The way from C into C++: what `body` gives, a Status to report or a result that is reported already.  No exception
/// leaves it.
template <class Body>
tuttiResult_t guarded(const char* function, tuttiComm_t handle, const Body& body) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(body()), tuttiResult_t>) {
      return body();
    } else {
      return report(function, body(), handle);
    }
  } catch (const std::exception&) {
    return thrown(function, handle);
  }
}

/// Same for what a group would collect; `body` gives a Status.
template <class Body>
tuttiResult_t guardedCall(const char* function, tuttiComm_t handle, const Body& body) noexcept {
  return guarded(function, handle, [&] { return reportCall(function, body(), handle); });
}

/// Whether this thread's last error sentence could not be kept.
bool& threadErrorLost();

/// InvalidArgument "NAME is NULL" if it is.
Status checkNotNull(const void* pointer, const char* name);

/// " (rank 2 of 4)" for sentences about a call on this communicator.
std::string onRank(const tuttiComm* handle);

/// What can be wrong with dtype, op, root or peer, and count.  Also looks up a made operator.
Status checkParameters(tuttiComm_t handle, Call* call);

/// Everything that can be wrong with a call's own arguments.  Also looks up a made operator.
Status checkCall(tuttiComm_t handle, Call* call);

/// The way of a collective with one count: short if such a call was made before, else enterCall's.
tuttiResult_t enterCollective(const char* function, tuttiComm_t handle, const PlainCall& call, tuttiStream_t stream);
/// Same for a send or a receive.
tuttiResult_t enterTransfer(const char* function, tuttiComm_t handle, const PlainTransfer& transfer,
                            tuttiStream_t stream);

/// The common way of every collective and point-to-point call.
tuttiResult_t enterCall(const char* function, tuttiComm_t handle, Call call, tuttiStream_t stream);

}  // namespace tutti

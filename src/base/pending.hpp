// What has been begun and is asked for until it is there.
#pragma once

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/status.hpp"

namespace tutti {

/// A value on its way.  One thread at a time.  To destroy it gives up.
template <class T>
class Pending {
 public:
  virtual ~Pending() = default;
  /// The value, once; empty (false as a condition) while it is not there.  Never blocks.
  virtual Result<T> poll() = 0;
};

/// poll() calls `ask`.
template <class T, class Ask>
std::unique_ptr<Pending<T>> pendingBy(Ask ask) {
  class ByCall final : public Pending<T> {
   public:
    explicit ByCall(Ask call) : ask_(std::move(call)) {}
    Result<T> poll() override { return ask_(); }

   private:
    Ask ask_;
  };
  return std::make_unique<ByCall>(std::move(ask));
}

/// Calls ask() until its value is true as a condition: for callers who may block, as ranks that join, and tools.
/// Errors: those of ask(); Timeout: `what` has not come.
template <class Ask>
auto awaitValue(Ask ask, Deadline deadline, const std::string& what) -> decltype(ask()) {
  constexpr long kLongestPauseNs = 1'000'000;
  for (long pauseNs = 10'000;; pauseNs = std::min(2 * pauseNs, kLongestPauseNs)) {
    auto result = ask();
    if (!result.ok() || *result) return result;
    if (deadline.passed()) return timeoutError(ErrorCode::RankSilent, "waited until its deadline for ", what);
    const timespec pause{0, pauseNs};
    nanosleep(&pause, nullptr);
  }
}

template <class T>
Result<T> awaitValue(Pending<T>& pending, Deadline deadline, const std::string& what) {
  return awaitValue([&] { return pending.poll(); }, deadline, what);
}

}  // namespace tutti

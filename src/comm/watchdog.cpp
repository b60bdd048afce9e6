#include "src/comm/watchdog.hpp"

#include <utility>

namespace tutti {
namespace {

// How long a broken connection waits for the news of why it broke.
constexpr int kNewsMs = 60;

bool breaksCommunicator(const Status& error) {
  return error.code() == tuttiRemoteError || error.code() == tuttiTimeout || error.code() == tuttiSystemError ||
         error.code() == tuttiInternalError || error.code() == tuttiUnhandledCudaError;
}

}  // namespace

void Watchdog::watch(Control& control, Links& links, const WaitPolicy& policy, std::function<bool()> alsoLook) {
  control_ = &control;
  links_ = &links;
  policy_ = policy;
  strayWatch_ = std::make_unique<StrayWatch>(control, recorder_, links, std::move(alsoLook));
}

RankState Watchdog::state() const {
  RankState state;
  const FlightRecorder::Place place = recorder_.place();
  state.entered = place.entered;
  state.inside = place.inside;
  state.waitingOn = state.inside ? recorder_.waitingOn() : -1;
  state.recent = recorder_.recent();
  state.calls = recorder_.totals().calls;
  state.bytes = recorder_.totals().bytes;
  if (const std::optional<Record> record = recorder_.underWay()) {
    state.doing = describeCall({record->head, record->count});
    state.doingNs = nowNs() - record->startedNs;
  }
  while (!state.recent.empty() && state.recent.back().first > state.entered) state.recent.pop_back();
  return state;
}

DrivenTask Watchdog::driven(Task* task) {
  WaitPolicy policy = policy_;
  policy.timeoutMs = timeoutMs_.load(std::memory_order_relaxed);
  return {task, this, policy, links_->sleepers(), Status(), false};
}

void Watchdog::fail(const Status& error) {
  if (!breaksCommunicator(error)) return;
  control_->reportFailure({-1, error});
  abortState_.end(error);
}

/// About the newest call.
PendingVerdict Watchdog::inquire(InquiryReason reason, int waitingOn) {
  recorder_.waitFor(waitingOn);
  return control_->beginInquiry(reason, recorder_.place().entered, waitingOn, kVerdictMs);
}

PendingVerdict Watchdog::stalled(int waitingOn) {
  return pendingBy<bool>([this, asked = inquire(InquiryReason::Stalled, waitingOn)]() -> Result<bool> {
    Result<bool> answer = asked->poll();
    return answer.ok() ? answer : cause(answer.status());
  });
}

PendingVerdict Watchdog::expired(int waitingOn) {
  return pendingBy<bool>([=, this, asked = inquire(InquiryReason::Deadline, waitingOn)]() -> Result<bool> {
    const Result<bool> answer = asked->poll();
    if (answer.ok() && !*answer) return false;
    return tooLate(cause(answer.status()), waitingOn);
  });
}

Status Watchdog::tooLate(const Status& verdict, int waitingOn) {
  Status why = verdict;
  if (why.ok()) {
    why = timeoutError("rank ", control_->rank(), " waited ", timeoutMs_.load(), " ms for rank ", waitingOn,
                       " without any progress; the deadline is TUTTI_TIMEOUT_MS or config.timeoutMs");
  }
  abortState_.end(why);
  return why;
}

PendingVerdict Watchdog::failed(const Status& error, int waitingOn) {
  if (error.code() == tuttiInvalidUsage) {  // a message of another call: who is the odd one?
    return pendingBy<bool>([=, this, asked = inquire(InquiryReason::Mismatch, waitingOn)]() -> Result<bool> {
      const Result<bool> answer = asked->poll();
      if (answer.ok() && !*answer) return false;
      const Status final = answer.ok() ? error : answer.status();
      abortState_.end(final);
      if (answer.ok()) control_->reportFailure({-1, error});
      return final;
    });
  }
  recorder_.waitFor(waitingOn);
  if (error.code() == tuttiUnhandledCudaError) {  // this rank's own trouble
    return pendingBy<bool>([=, this]() -> Result<bool> { return report(control_->rank(), error); });
  }
  // A broken connection is often the consequence of a failure whose news is on its way.
  return pendingBy<bool>([=, this, news = Deadline::inMs(kNewsMs)]() -> Result<bool> {
    if (!news.passed() && control_->failure().ok() && !aborting()) return false;
    return broken(error, waitingOn);
  });
}

Status Watchdog::broken(const Status& error, int waitingOn) {
  if (const Status first = control_->failure(); !first.ok()) return first;
  return aborting() ? failure() : report(waitingOn, error);
}

/// Breaks the communicator, and says who is to blame.
Status Watchdog::report(int rank, const Status& error) {
  control_->reportFailure({rank, error});
  abortState_.end(error);
  return error;
}

// Mistakes in arguments and settings break nothing.
PendingVerdict Watchdog::unprepared(const Status& error, int waitingOn) {
  if (breaksCommunicator(error)) return failed(error, waitingOn);
  return pendingBy<bool>([=, this]() -> Result<bool> { return cause(error); });
}

}  // namespace tutti

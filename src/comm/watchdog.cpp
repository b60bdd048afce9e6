#include "src/comm/watchdog.hpp"

#include <ctime>
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
  strayWatch_ = std::make_unique<StrayWatch>(control, log_, links, std::move(alsoLook));
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
Status Watchdog::inquire(InquiryReason reason, int waitingOn) {
  return control_->inquire(reason, log_.place().entered, waitingOn, kVerdictMs);
}

Status Watchdog::stalled(int waitingOn) {
  log_.waitFor(waitingOn);
  return cause(inquire(InquiryReason::Stalled, waitingOn));
}

Status Watchdog::expired(int waitingOn) {
  log_.waitFor(waitingOn);
  Status verdict = cause(inquire(InquiryReason::Deadline, waitingOn));
  if (verdict.ok()) {
    verdict = timeoutError("rank ", control_->rank(), " waited ", timeoutMs_.load(), " ms for rank ", waitingOn,
                           " without any progress; the deadline is TUTTI_TIMEOUT_MS or config.timeoutMs");
  }
  abortState_.end(verdict);
  return verdict;
}

Status Watchdog::failed(const Status& error, int waitingOn) {
  log_.waitFor(waitingOn);
  if (error.code() == tuttiInvalidUsage) {  // a message of another call: who is the odd one?
    const Status verdict = inquire(InquiryReason::Mismatch, waitingOn);
    const Status& final = verdict.ok() ? error : verdict;
    abortState_.end(final);
    if (verdict.ok()) control_->reportFailure({-1, error});
    return final;
  }
  if (error.code() == tuttiUnhandledCudaError) {  // this rank's own trouble
    control_->reportFailure({control_->rank(), error});
    abortState_.end(error);
    return error;
  }
  // A broken connection is often the consequence of a failure whose news is on its way.
  for (const Deadline news = Deadline::inMs(kNewsMs); !news.passed() && control_->failure().ok() && !aborting();) {
    timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  if (const Status first = control_->failure(); !first.ok()) return first;
  if (aborting()) return failure();
  control_->reportFailure({waitingOn, error});
  abortState_.end(error);
  return error;
}

// Mistakes in arguments and settings break nothing.
Status Watchdog::unprepared(const Status& error, int waitingOn) {
  return breaksCommunicator(error) ? failed(error, waitingOn) : cause(error);
}

}  // namespace tutti

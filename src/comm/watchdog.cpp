#include "src/comm/watchdog.hpp"

#include <utility>

#include "src/base/threads.hpp"
#include "src/control/deadlock.hpp"
#include "src/control/diagnosis.hpp"

namespace tutti {
namespace {

// How long a broken connection waits for the news of why it broke.
constexpr int kNewsMs = 60;

bool breaksCommunicator(const Status& error) {
  return error.code() == tuttiRemoteError || error.code() == tuttiTimeout || error.code() == tuttiSystemError ||
         error.code() == tuttiInternalError || error.code() == tuttiUnhandledCudaError;
}

}  // namespace

void Watchdog::watch(uint64_t communicator, Control& control, Links& links, const WaitPolicy& policy,
                     std::function<bool()> alsoLook) {
  control_ = &control;
  links_ = &links;
  policy_ = policy;
  processes_ = processesOfHost(links.descriptors(), control.rank());
  policy_.processes = &processes_;
  strayWatch_ = std::make_unique<StrayWatch>(control, recorder_, links, std::move(alsoLook));
  communicator_ = communicator;
  maker_->add(communicator, &recorder_, &shared_);
}

RankState Watchdog::ownState() const {
  RankState state;
  const FlightRecorder::Place place = recorder_.place();
  state.entered = place.entered;
  state.inside = place.inside;
  state.waitingOn = state.inside ? waits_.waitingOn(state.entered) : -1;
  state.attends = waits_.attends();
  state.message = waits_.message();
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

DrivenTask Watchdog::driven(Task* task, bool onStream) {
  WaitPolicy policy = policy_;
  policy.onStream = onStream;
  policy.timeoutMs = timeoutMs_.load(std::memory_order_relaxed);
  return {task, this, policy, links_->sleepers(), Status(), false};
}

void Watchdog::fail(const Status& error) {
  if (!breaksCommunicator(error)) return;
  control_->reportFailure({-1, error});
  abortState_.end(error);
}

void Watchdog::isAbout(const Task& task) {
  const WaitingMessage* message = task.waitingMessage();
  message_ = message != nullptr ? std::optional(*message) : std::nullopt;
  const auto wait =
      message_ ? std::optional(MessageWait{message_->peer, message_->isSend, message_->call}) : std::nullopt;
  waits_.waitFor(wait);
  RankReport report;
  report.state = ownState();
  const int peer = task.waitingOn();
  ThreadWait::Wait now{
      cat(describeState(report), " of another communicator", peer >= 0 ? cat(kWhereItWaits, peer) : std::string()),
      communicator_};
  if (!message_ && isInCallOfAll(report.state)) now.call = {communicator_, report.state.entered};
  ThreadWait::ofThisThread()->set(std::move(now));
}

void Watchdog::noWait() {
  waits_.waitFor(std::nullopt);
  // Ranks that wait for this one in the other communicators of a circle are still to find that.
  if (aborting() && failure().code() == tuttiInvalidUsage) return ThreadWait::ofThisThread()->endInError();
  ThreadWait::ofThisThread()->clear();
}

RankState Watchdog::state() const {
  ThreadWait::Wait wait = maker_->wait();  // first: what has not been entered after it is not entered before it ends
  RankState state = ownState();
  const bool alone = !shared_.load(std::memory_order_acquire);
  const bool attends = state.attends != Attendance::None;
  if (!state.inside && !state.message) {
    if (alone && (!attends || wait.over)) state.awaited = wait.call;
    if (!attends) state.elsewhere = std::move(wait.text);
  }
  if (alone) state.others = maker_->newest();
  if (!state.others.empty()) state.oneThread = hasOneProgramThread();
  // It waited when threads were counted if it has waited in one call before and behind that.
  if (state.oneThread) state.callerWaits = waitsHere(wait, state);
  return state;
}

/// Whether the thread, which waited in `then`, still waits in this communicator's call that `state` tells of.
bool Watchdog::waitsHere(const ThreadWait::Wait& then, const RankState& state) const {
  const ThreadWait::Wait now = maker_->wait();
  const auto here = [&](const ThreadWait::Wait& wait) { return wait.communicator == communicator_ && !wait.over; };
  if (!here(then) || !here(now)) return false;
  const std::optional<MessageWait> message = waits_.message();
  if (state.message) return message && message->peer == state.message->peer && message->call == state.message->call;
  return state.inside && then.call.sequence == state.entered && now.call.sequence == state.entered;
}

/// For the flight record and for inquiries.
void Watchdog::waitFor(int rank) {
  recorder_.waitFor(rank);
  waits_.waitFor(recorder_.place().entered, rank);
}

/// About the newest call, or the message.
PendingVerdict Watchdog::inquire(InquiryReason reason, int waitingOn) {
  waitFor(waitingOn);
  const FlightRecorder::Place place = recorder_.place();
  return control_->beginInquiry(reason, message_ && !place.inside ? 0 : place.entered, waitingOn, kVerdictMs);
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
    why = timeoutError(ErrorCode::RankSilent, "rank ", control_->rank(), " waited ", timeoutMs_.load(), " ms for rank ",
                       waitingOn, " without any progress; the deadline is TUTTI_TIMEOUT_MS or config.timeoutMs");
  }
  abortState_.end(why);
  return why;
}

PendingVerdict Watchdog::failed(const Status& error, int waitingOn) {
  if (error.code() == tuttiInvalidUsage && message_)  // both ends of it are known
    return pendingBy<bool>(
        [=, this, why = differentMessage(error)]() -> Result<bool> { return broken(why, waitingOn); });
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
  waitFor(waitingOn);
  if (error.code() == tuttiUnhandledCudaError) {  // this rank's own trouble
    return pendingBy<bool>([=, this]() -> Result<bool> { return report(control_->rank(), error); });
  }
  // A broken connection is often the consequence of a failure whose news is on its way.
  return pendingBy<bool>([=, this, news = Deadline::inMs(kNewsMs)]() -> Result<bool> {
    if (!news.passed() && control_->failure().ok() && !aborting()) return false;
    return broken(error, waitingOn);
  });
}

/// What both ranks of a message have called, for everybody.
Status Watchdog::differentMessage(const Status& error) const {
  const CallParts seen = partsOf(message_->seen);
  const bool told = message_->seen.head != 0 && message_->seen.count + seen.dtype != 0;
  const MessageWait mine{message_->peer, false, message_->call}, theirs{control_->rank(), true, message_->seen};
  if (!told)
    return invalidUsage(ErrorCode::CallsDiffer, "in ", describeMessage(mine), " of rank ", control_->rank(), ": ",
                        error.text());
  return invalidUsage(ErrorCode::MessagesDiffer, "rank ", control_->rank(), " is in ", describeMessage(mine),
                      ", but rank ", message_->peer, " is in ", describeMessage(theirs),
                      "; Send and Recv must agree in count and type");
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

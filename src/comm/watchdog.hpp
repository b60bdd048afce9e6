// How calls of a communicator wait, and how they end where they do not end well: deadlines, verdicts on ranks that
// disagree, stay away or have died, and the news of them.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>

#include "src/comm/abort_state.hpp"
#include "src/comm/failure_dump.hpp"
#include "src/comm/links.hpp"
#include "src/comm/rank_waits.hpp"
#include "src/comm/stray_watch.hpp"
#include "src/comm/thread_wait.hpp"
#include "src/control/session/session.hpp"
#include "src/exec/drive.hpp"
#include "src/recorder/flight_recorder.hpp"

namespace tutti {

/// How long a verdict may take; the verdict on a silent rank needs it in full.
inline constexpr int kVerdictMs = 200;

/// The functions of TaskOwner are for the thread that drives; the others for any thread, unless they say more.
class Watchdog final : public TaskOwner {
 public:
  /// abortState: borrowed.
  Watchdog(AbortState& abortState, int timeoutMs) : abortState_(abortState), timeoutMs_(timeoutMs) {}
  ~Watchdog() override { maker_->forget(&recorder_); }
  /// Once the rank has met the others; both borrowed.  communicator: what its ranks know it by.  alsoLook: as
  /// StrayWatch's.
  void watch(uint64_t communicator, Control& control, Links& links, const WaitPolicy& policy,
             std::function<bool()> alsoLook);
  /// Control and links may go.
  void stop() { strayWatch_.reset(); }

  void setTimeoutMs(int timeoutMs) { timeoutMs_.store(timeoutMs, std::memory_order_relaxed); }
  Deadline deadline() const { return Deadline::inMs(timeoutMs_.load(std::memory_order_relaxed)); }
  FlightRecorder& recorder() { return recorder_; }
  FailureDump& failureDump() { return failureDump_; }
  RankWaits& waits() { return waits_; }
  /// What this rank says when it is asked.  Any thread.
  RankState state() const;
  AbortState& abortState() { return abortState_; }
  /// A collective begins.  Only with the turn.
  void enter(uint64_t sequence, const Fingerprint& call, const CallRecord& what) {
    noteThread();
    const bool afterPause = !strayWatch_->active();
    if (afterPause) [[unlikely]]
      recorder_.look();
    recorder_.enter(sequence, call, what);
    if (afterPause) [[unlikely]]
      strayWatch_->start();
  }
  /// The collectives that have begun are over, whatever came of them; a failure is dumped (TUTTI_DUMP).  Only with the
  /// turn.
  void leave() {
    if (!aborting()) [[likely]]
      return recorder_.leave();
    recorder_.fail();
    failureDump_.write(failure());
  }
  /// A message begins.  Only with the turn.
  FlightRecorder::Message beginMessage(const Fingerprint& call, const CallRecord& what) {
    noteThread();
    const bool afterPause = !strayWatch_->active();
    if (afterPause) [[unlikely]]
      recorder_.look();
    const FlightRecorder::Message message = recorder_.beginMessage(call, what);
    if (afterPause) [[unlikely]]
      strayWatch_->start();
    return message;
  }
  /// A call has been given to another thread, which has yet to make it.
  void noteOtherThreads() { shared_.store(true, std::memory_order_release); }
  const WaitPolicy& policy() const { return policy_; }
  /// `task` with the communicator's waiting, error and deadline rules.  onStream: a stream's thread drives it.
  DrivenTask driven(Task* task, bool onStream = false);

  /// After a task that was driven, by the thread that drove it: it waits for nothing any more.
  void noWait();

  /// The error that broke the communicator, or ok.
  Status failure() const { return abortState_.failure(); }
  /// What ended the communicator, where that is why something failed with `error`.
  Status cause(const Status& error) const { return aborting() ? failure() : error; }
  /// Break the communicator if `error` is one that does (not a mistake in the arguments), and tell the others.
  void fail(const Status& error);

  bool aborting() const override { return abortState_.ended(); }
  void progress() override { links_->progress(); }
  Status aborted() override { return failure(); }
  bool looksNow() override { return ThreadWait::ofThisThread()->looksNow(); }
  /// The communicator has failed.  Any thread.
  void tellThread() { maker_->lookSoon(); }
  void isAbout(const Task& task) override;
  PendingVerdict stalled(int waitingOn) override;
  PendingVerdict expired(int waitingOn) override;
  PendingVerdict failed(const Status& error, int waitingOn) override;
  PendingVerdict unprepared(const Status& error, int waitingOn) override;

 private:
  void noteThread() {
    if (pthread_equal(pthread_self(), makerThread_) == 0) [[unlikely]]
      shared_.store(true, std::memory_order_release);
  }
  bool waitsHere(const ThreadWait::Wait& then, const RankState& state) const;
  RankState ownState() const;  // but for other communicators of its thread
  void waitFor(int rank);
  PendingVerdict inquire(InquiryReason reason, int waitingOn);
  Status differentMessage(const Status& error) const;
  Status tooLate(const Status& verdict, int waitingOn);
  Status broken(const Status& error, int waitingOn);
  Status report(int rank, const Status& error);

  AbortState& abortState_;
  std::atomic<int> timeoutMs_;
  FlightRecorder recorder_;  // read by the control's thread
  RankWaits waits_;          // likewise
  FailureDump failureDump_{recorder_};
  Control* control_ = nullptr;
  Links* links_ = nullptr;
  std::vector<int> processes_;  // of the ranks of this host
  WaitPolicy policy_;
  std::unique_ptr<StrayWatch> strayWatch_;
  std::shared_ptr<ThreadWait> maker_ = ThreadWait::ofThisThread();  // of the thread that made the communicator
  const pthread_t makerThread_ = pthread_self();
  std::atomic<bool> shared_{false};  // other threads have made calls, or will: read behind the counts that they raise
  uint64_t communicator_ = 0;
  std::optional<WaitingMessage> message_;  // of the task that the next verdict is about
};

}  // namespace tutti

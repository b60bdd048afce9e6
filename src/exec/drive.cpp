#include "src/exec/drive.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/caught.hpp"
#include "src/base/clock.hpp"
#include "src/exec/spin_cost.hpp"
#include "src/exec/time_slice.hpp"
#include "src/exec/turn_cost.hpp"

namespace tutti {
namespace {

constexpr int kPausesPerLook = 64;
// A wake-up takes some 30 us, and waiting awake pays up to about there; but on a virtual machine among busy neighbours
// a core that has gone idle may come back a millisecond later.  The other ranks then sleep before it does, it sleeps
// before they do, and after one disturbance every call is a hundred times as slow.  So waits stay awake for longer than
// a core takes to come back.
constexpr int64_t kAwakeNs = 2'000'000;
// Where ranks share cores they yield instead of spinning: counted, too, for one slice of another program would use up
// any time that is short enough.  Alone on the core these take some 0.2 ms.  Beside other programs waits sleep sooner,
// by what yields cost (turn_cost.hpp).
constexpr int kYieldsBeforeSleep = 1000;
constexpr int kYieldsPerClock = 32;
// Short calls of up to some eight ranks to a core end within so many.
constexpr int kBriefYields = 16;
// A look at every socket costs a system call each, so it is not for the shortest waits: only from this round on.
constexpr int kRoundsPerProgress = 16;
constexpr int kRoundsBeforeProgress = 4;
// While something moves, there is time for the rest only now and then; sooner where other tasks may be waiting.
constexpr uint32_t kMovesPerLook = 256;
constexpr uint32_t kMovesPerLookOfSeveral = 16;
// A lost wake-up costs at most this.
constexpr int kSleepUs = 1000;
// At most this much of the time between two looks at the clock counts as waiting.  A thread that has a core looks every
// millisecond; one that yields looks after some slices of other threads.  Longer gaps mean that the thread hardly gets
// a core, or that its process was stopped (a debugger, a suspended machine, a frozen container).  Such a thread may be
// the first to go on, and must not report then that the others let it wait for too long.
constexpr int64_t kMostBetweenLooksNs = 25'000'000;
// Long waits are asked about at least so often, so that a rank that has fallen silent is named soon.
constexpr int64_t kMostBetweenVerdictsNs = 1'000'000'000;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void askForCore(TurnCost* turns, const WaitPolicy& policy, int64_t nowNs) {
  if (!turns->wantsCoreTime(nowNs)) return;
  const std::span<const int> none;
  turns->coreTime(timeOfCore(policy.processes != nullptr ? *policy.processes : none), nowNs);
}

/// Lets others have the core.  turns: learns what that costs, if the yield is timed; may be null.
/// Gives the nanoseconds of one that was timed, else 0.
int64_t yieldCore(const WaitPolicy& policy, TurnCost* turns) {
  // Once for each thread: the scheduler remembers.
  static thread_local int asked = 0;
  if (!policy.spin && asked != policy.sliceUs) [[unlikely]]
    shortenTimeSlice(asked = policy.sliceUs);
  if (turns == nullptr || !turns->samples()) {
    sched_yield();
    return 0;
  }
  const int64_t before = nowNs();
  sched_yield();
  const int64_t after = nowNs();
  turns->sample(after - before, after);
  askForCore(turns, policy, after);
  return after - before;
}

}  // namespace

Drive::Patience Drive::patienceOf(const WaitPolicy& policy) {
  Patience p;
  switch (policy.mode) {
    case TUTTI_WAIT_SPIN: return p;
    case TUTTI_WAIT_YIELD: p.spinNs = 0; break;
    case TUTTI_WAIT_BLOCK: p = {0, 0, 0}; break;
    case TUTTI_WAIT_AUTO:
      if (policy.onStream && policy.streamsShareCores) {
        p = {0, 0, 0};
      } else {
        p = policy.spin ? Patience{kAwakeNs, kAwakeNs, 0, true} : Patience{0, kAwakeNs, kYieldsBeforeSleep};
      }
      break;
  }
  if (policy.spinUs >= 0) p.spinNs = int64_t{policy.spinUs} * 1000, p.spinsByLoad = false;
  return p;
}

void Drive::add(DrivenTask* task) {
  DrivenTask** last = &first_;
  while (*last != nullptr) last = &(*last)->state.next;
  *last = task;
  adapt();
}

/// To the tasks that there are.
void Drive::adapt() {
  patience_ = {};
  for (const DrivenTask* task = first_; task != nullptr; task = task->state.next) {
    const Patience p = patienceOf(task->policy);
    patience_.spinNs = std::min(patience_.spinNs, p.spinNs);
    patience_.awakeNs = std::min(patience_.awakeNs, p.awakeNs);
    patience_.yields = std::max(patience_.yields, p.yields);
    patience_.spinsByLoad = patience_.spinsByLoad || p.spinsByLoad;
  }
  if (patience_.awakeNs == 0) patience_.yields = 0;
}

// ---- Steps.

namespace {

Result<Progress> stepSpinning(Task& task, TaskOwner& owner) {
  Result<Progress> progress = Progress::Blocked;
  for (int round = 1; round < kPausesPerLook; ++round) {
    if (round % kRoundsPerProgress == kRoundsBeforeProgress) owner.progress();
    pauseCpu();
    progress = caught([&] { return task.step(); });
    if (!progress.ok() || *progress == Progress::Done) break;
  }
  return progress;
}

Result<Progress> stepYielding(Task& task, TaskOwner& owner, const WaitPolicy& policy) {
  TurnCost& turns = turnCostOfThread();
  Result<Progress> progress = Progress::Blocked;
  for (int round = 1; round <= kBriefYields && turns.state() == TurnCost::State::Alone; ++round) {
    if (round % kRoundsPerProgress == kRoundsBeforeProgress) owner.progress();
    const bool looksAgain = round == 1 && policy.inBatches;
    if (*progress == Progress::Blocked && !looksAgain) yieldCore(policy, &turns);
    progress = caught([&] { return task.step(); });
    if (!progress.ok() || *progress == Progress::Done) break;
  }
  return progress;
}

}  // namespace

Result<Progress> stepBriefly(Task& task, TaskOwner& owner, const WaitPolicy& policy) {
  const Drive::Patience patience = Drive::patienceOf(policy);
  if (patience.spinNs > 0) return stepSpinning(task, owner);
  if (patience.yields > 0) return stepYielding(task, owner, policy);
  return Progress::Blocked;
}

bool yieldsFirst(const WaitPolicy& policy) {
  const Drive::Patience patience = Drive::patienceOf(policy);
  return patience.spinNs == 0 && patience.awakeNs > 0;
}

void handOn(const WaitPolicy& policy) {
  TurnCost& turns = turnCostOfThread();
  if (turns.state() == TurnCost::State::Alone) yieldCore(policy, &turns);
}

void failTask(DrivenTask* task, const Status& error) {
  const int peer = task->task->waitingOn();
  const bool preparing = task->task->preparing();
  task->owner->isAbout(*task->task);
  task->state.verdict = preparing ? task->owner->unprepared(error, peer) : task->owner->failed(error, peer);
  task->state.phase = DrivenTask::State::Phase::Judged;
}

void Drive::end(DrivenTask* task, Status result) {
  task->result = std::move(result);
  task->state.verdict.reset();
  task->task->abandon();
  task->state.phase = DrivenTask::State::Phase::Abandoned;
}

/// Whether something was done.
bool Drive::step(DrivenTask* task) {
  using At = DrivenTask::State::Phase;
  DrivenTask::State& state = task->state;
  const bool running = state.phase == At::Running;
  if (state.verdict != nullptr) [[unlikely]] {
    const Result<bool> verdict = caught([&] { return state.verdict->poll(); });
    if (!verdict.ok()) end(task, verdict.status());
    TUTTI_ASSERT(running || !verdict.ok() || !*verdict);
    if (verdict.ok() && *verdict) state.verdict.reset();
  }
  if (state.phase == At::Abandoned) return task->done = task->task->abandoned();
  if (!running) return false;
  const Result<Progress> progress = caught([task] { return task->task->step(); });
  if (!progress.ok()) {
    failTask(task, progress.status());
  } else if (*progress == Progress::Done) {
    task->done = true;
  } else if (*progress == Progress::Blocked) {
    return false;
  }
  return state.moved = true;
}

bool Drive::stepAll() {
  bool moved = false;
  for (DrivenTask* task = first_; task != nullptr; task = task->state.next) {
    moved = step(task) || moved;
    someDone_ = someDone_ || task->done;
  }
  return moved;
}

void Drive::checkAborts() {
  for (DrivenTask* task = first_; task != nullptr; task = task->state.next) {
    if (task->state.phase == DrivenTask::State::Phase::Running && task->owner->aborting())
      end(task, task->owner->aborted());
  }
}

/// The others may take long, or wait for what ends only with these.
void Drive::letGo() {
  stayAwake();
  someDone_ = false;
  for (DrivenTask** at = &first_; *at != nullptr;) {
    DrivenTask* const task = *at;
    if (!task->done) {
      at = &task->state.next;
      continue;
    }
    *at = task->state.next;
    task->state.verdict.reset();
    if (const auto atEnd = std::move(task->atEnd)) atEnd();
  }
  adapt();
}

void Drive::round(bool looksSoon) {
  const bool moved = stepAll();
  if (someDone_) letGo();
  if (first_ == nullptr) return;
  const bool several = first_->state.next != nullptr;
  if (moved) {
    stayAwake();
    rounds_ = 0;
    yields_ = 0;
    yieldedNs_ = 0;
    idleNs_ = 0;
    moved_ = true;
    if (++moves_ % (several ? kMovesPerLookOfSeveral : kMovesPerLook) != 0) return;
  }
  checkAborts();
  if (moved) {
    if (several) look();
    return;
  }
  if (rounds_ % kRoundsPerProgress == kRoundsBeforeProgress) {
    for (DrivenTask* task = first_; task != nullptr; task = task->state.next) task->owner->progress();
  }
  if (wait(looksSoon)) look();
}

// ---- Waits.

/// Waits a little.  False as long as that was not worth a look at the clock.
bool Drive::wait(bool looksSoon) {
  ++rounds_;
  const bool briefly = idleNs_ >= SpinCost::kBriefNs && spinsBriefly();
  if (idleNs_ < patience_.spinNs && !briefly) {
    pauseCpu();
    return rounds_ % kPausesPerLook == 0;
  }
  if ((briefly || !mayYield()) && sleep(looksSoon)) return true;
  // A yield that is known to have cost a slice is looked at by itself: of the time between two looks little counts.
  return yield() >= TurnCost::kSliceNs || rounds_ % kYieldsPerClock == 0;
}

/// Looked up once: a thread's variable costs a library a call.
TurnCost& Drive::turnCost() {
  if (turns_ == nullptr) turns_ = &turnCostOfThread();
  return *turns_;
}

/// Whether a wait that has spun for a little is to sleep; looks at the clock as seldom as wait().
bool Drive::spinsBriefly() {
  if (!patience_.spinsByLoad) return false;
  if (spins_ == nullptr) spins_ = &spinCostOfThread();
  return rounds_ % kPausesPerLook == 1 ? spins_->briefly(nowNs()) : spins_->shared();
}

bool Drive::mayYield() {
  if (yields_ >= patience_.yields && idleNs_ >= patience_.awakeNs) return false;
  if (patience_.yields == 0) return true;  // no business of the load
  TurnCost& turns = turnCost();
  if (turns.state() == TurnCost::State::Alone || turns.state() == TurnCost::State::Suspects) return true;
  if (turns.state() == TurnCost::State::Beside) return yieldedNs_ < TurnCost::kWakeUpNs;
  const int64_t now = nowNs();
  askForCore(&turns, first_->policy, now);
  return turns.state() != TurnCost::State::Dear || turns.triesAgain(now);
}

/// Gives what it cost, as yieldCore().
int64_t Drive::yield() {
  ++yields_;
  const int64_t costNs = yieldCore(first_->policy, patience_.yields == 0 ? nullptr : &turnCost());
  yieldedNs_ += costNs;
  return costNs;
}

// The first sleeper that there is sleeps; the others are covered by the bound on the sleep.
bool Drive::sleep(bool looksSoon) {
  Sleeper* sleeper = nullptr;
  for (const DrivenTask* task = first_; task != nullptr; task = task->state.next) {
    if (!task->sleepers.empty()) sleeper = task->sleepers.front();
    looksSoon = looksSoon || task->task->awaitsDevice();
  }
  if (looksSoon) {
    stayAwake();
    pauseBetweenLooks();
    return true;
  }
  if (sleeper == nullptr) return false;
  if (prepared_ == nullptr) {
    sleeper->prepare();
    const std::lock_guard lock(sleeping_);
    prepared_ = sleeper;
    return true;  // one more look at the endpoints first
  }
  sleepTimed();
  const std::lock_guard lock(sleeping_);
  prepared_ = nullptr;
  return true;
}

/// A thread that knows of others on its core says for how long.
void Drive::sleepTimed() {
  if (patience_.yields == 0 || turnCost().state() == TurnCost::State::Alone) return prepared_->sleep(kSleepUs);
  const int64_t before = nowNs();
  prepared_->sleep(kSleepUs);
  turnCost().slept(nowNs() - before);
}

void Drive::ring() {
  const std::lock_guard lock(sleeping_);
  if (prepared_ != nullptr) prepared_->ring();
}

/// The sleeper that peers were to ring may go.
void Drive::stayAwake() {
  if (prepared_ == nullptr) return;
  const std::lock_guard lock(sleeping_);
  std::exchange(prepared_, nullptr)->cancel();
}

// A wait begins with the first look that finds nothing moved since the one before.
void Drive::look() {
  const int64_t now = nowNs();
  const int64_t sinceNs = lastLookNs_ == 0 ? 0 : std::min(now - lastLookNs_, kMostBetweenLooksNs);
  lastLookNs_ = now;
  idleNs_ = std::exchange(moved_, false) ? 0 : idleNs_ + sinceNs;
  for (DrivenTask* task = first_; task != nullptr; task = task->state.next) {
    DrivenTask::State& state = task->state;
    if (std::exchange(state.moved, false)) {
      state.waitedNs = 0;
      state.nextLookNs = int64_t{task->policy.firstLookMs} * 1'000'000;
    } else {
      state.waitedNs += sinceNs;
    }
    if (state.phase == DrivenTask::State::Phase::Running) checkTime(task);
  }
}

void Drive::checkTime(DrivenTask* task) {
  DrivenTask::State& state = task->state;
  const int64_t timeoutNs = int64_t{task->policy.timeoutMs} * 1'000'000;
  const bool expired = timeoutNs > 0 && state.waitedNs > timeoutNs;
  const bool inTime = state.waitedNs >= state.nextLookNs;
  const bool stalled = !expired && state.verdict == nullptr && (inTime || task->owner->looksNow());
  if (expired || stalled) task->owner->isAbout(*task->task);
  if (expired) {
    state.verdict = task->owner->expired(task->task->waitingOn());
    state.phase = DrivenTask::State::Phase::Judged;
  } else if (stalled) {
    if (inTime) state.nextLookNs += std::min(state.nextLookNs, kMostBetweenVerdictsNs);
    state.verdict = task->owner->stalled(task->task->waitingOn());
  }
}

void drive(std::span<DrivenTask> tasks) {
  Drive all;
  for (DrivenTask& task : tasks) all.add(&task);
  while (!all.empty()) all.round();
}

}  // namespace tutti

#include "src/exec/drive.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "src/exec/time_slice.hpp"

namespace tutti {
namespace {

constexpr int kPausesPerLook = 64;
// A wake-up takes some 30 us, and waiting awake pays up to about there; but on a virtual machine among busy neighbours
// a core that has gone idle may come back a millisecond later.  The other ranks then sleep before it does, it sleeps
// before they do, and after one disturbance every call is a hundred times as slow.  So waits stay awake for longer than
// a core takes to come back.
constexpr int64_t kAwakeNs = 2'000'000;
// Where ranks share cores they yield instead of spinning: counted, too, for one slice of another program would use up
// any time that is short enough.  Alone on the core these take some 0.2 ms.
constexpr int kYieldsBeforeSleep = 1000;
constexpr int kYieldsPerClock = 32;
// A look at every socket costs a system call each, so it is not for the shortest waits: only from this round on.
constexpr int kRoundsPerProgress = 16;
constexpr int kRoundsBeforeProgress = 4;
// A lost wake-up costs at most this.
constexpr int kSleepUs = 1000;
// What counts of the time between two looks at the clock.  A process that was stopped (a debugger, a suspended machine,
// a container that is frozen with all its ranks) has not waited meanwhile: it may be the first to go on, and must not
// then find that the others have let it wait for too long.
constexpr int64_t kMostBetweenLooksNs = 250'000'000;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How long a wait stays with what it does before it goes over to what leaves more of the core to others.
struct Patience {
  static constexpr int64_t kForEver = INT64_MAX;
  int64_t spinNs = kForEver;
  int64_t awakeNs = kForEver;  // spinning or yielding
  int64_t yields = 0;          // as many at least before it sleeps
};

Patience patienceOf(const WaitPolicy& policy) {
  Patience p;
  switch (policy.mode) {
    case TUTTI_WAIT_SPIN: return p;
    case TUTTI_WAIT_YIELD: p.spinNs = 0; break;
    case TUTTI_WAIT_BLOCK: p = {0, 0, 0}; break;
    case TUTTI_WAIT_AUTO:
      p = policy.spin ? Patience{kAwakeNs, kAwakeNs, 0} : Patience{0, kAwakeNs, kYieldsBeforeSleep};
      break;
  }
  if (policy.spinUs >= 0) p.spinNs = int64_t{policy.spinUs} * 1000;
  return p;
}

/// One wait: from the moment nothing moves until something does.
class Idle {
 public:
  explicit Idle(std::span<DrivenTask> tasks) : tasks_(tasks) {
    for (const DrivenTask& task : tasks) {
      const Patience p = patienceOf(task.policy);
      patience_.spinNs = std::min(patience_.spinNs, p.spinNs);
      patience_.awakeNs = std::min(patience_.awakeNs, p.awakeNs);
      patience_.yields = std::max(patience_.yields, p.yields);
    }
    if (patience_.awakeNs == 0) patience_.yields = 0;
  }

  ~Idle() { reset(); }

  void reset() {
    stayAwake();
    rounds_ = 0;
    yields_ = 0;
    lastLookNs_ = 0;
    elapsedNs_ = 0;
    nextLookNs_ = 0;
  }

  /// Wait a little.  False as long as that was not worth a look at the clock.
  bool wait() {
    ++rounds_;
    if (elapsedNs_ < patience_.spinNs) {
      pauseCpu();
      if (rounds_ % kPausesPerLook != 0) return false;
    } else if (mayYield() || !sleep()) {
      yield();
      if (rounds_ % kYieldsPerClock != 0) return false;
    }
    const int64_t now = nowNs();
    if (lastLookNs_ != 0) elapsedNs_ += std::min(now - lastLookNs_, kMostBetweenLooksNs);
    lastLookNs_ = now;
    return true;
  }

  /// The sleeper that peers were to ring may go.
  void stayAwake() {
    if (prepared_ != nullptr) std::exchange(prepared_, nullptr)->cancel();
  }

  uint64_t rounds() const { return rounds_; }
  int64_t elapsedNs() const { return elapsedNs_; }

  /// Whether `policy` wants somebody to look who is to blame for the wait.
  bool lookDue(const WaitPolicy& policy) {
    if (nextLookNs_ == 0) nextLookNs_ = int64_t{policy.firstLookMs} * 1'000'000;
    if (elapsedNs_ < nextLookNs_) return false;
    nextLookNs_ *= 2;
    return true;
  }

 private:
  bool mayYield() const { return yields_ < patience_.yields || elapsedNs_ < patience_.awakeNs; }
  bool sleep();
  void yield();

  std::span<DrivenTask> tasks_;
  Patience patience_;
  int64_t lastLookNs_ = 0;
  int64_t elapsedNs_ = 0;  // of this wait
  int64_t nextLookNs_ = 0;
  uint64_t rounds_ = 0;
  int64_t yields_ = 0;
  Sleeper* prepared_ = nullptr;  // peers have been told to ring
};

void Idle::yield() {
  // Once for each thread: the scheduler remembers.
  static thread_local int asked = 0;
  const WaitPolicy& policy = tasks_.front().policy;
  if (!policy.spin && asked != policy.sliceUs) [[unlikely]]
    shortenTimeSlice(asked = policy.sliceUs);
  ++yields_;
  sched_yield();
}

// The first sleeper that there is sleeps; the others are covered by the bound on the sleep.
bool Idle::sleep() {
  Sleeper* sleeper = nullptr;
  for (const DrivenTask& task : tasks_) {
    if (!task.done && !task.sleepers.empty()) sleeper = task.sleepers.front();
  }
  if (sleeper == nullptr) return false;
  if (prepared_ == nullptr) {
    sleeper->prepare();
    prepared_ = sleeper;
    return true;  // one more look at the endpoints first
  }
  std::exchange(prepared_, nullptr)->sleep(kSleepUs);
  return true;
}

void finish(DrivenTask* task, Status result) {
  if (!result.ok()) task->task->abandon();
  task->result = std::move(result);
  task->done = true;
}

}  // namespace

void failTask(DrivenTask* task, const Status& error) {
  const int peer = task->task->waitingOn();
  finish(task, task->task->preparing() ? task->owner->unprepared(error, peer) : task->owner->failed(error, peer));
}

namespace {

bool stepAll(std::span<DrivenTask> tasks, bool* left) {
  bool moved = false;
  *left = false;
  for (DrivenTask& task : tasks) {
    if (task.done) continue;
    const Result<Progress> progress = task.task->step();
    if (!progress.ok()) {
      failTask(&task, progress.status());
      moved = true;
    } else if (*progress == Progress::Done) {
      finish(&task, Status());
      moved = true;
    } else {
      *left = true;
      moved = moved || *progress == Progress::Moved;
    }
  }
  return moved;
}

void checkAborts(std::span<DrivenTask> tasks) {
  for (DrivenTask& task : tasks) {
    if (!task.done && task.owner->aborting()) finish(&task, task.owner->aborted());
  }
}

void checkTimes(std::span<DrivenTask> tasks, Idle* idle) {
  for (DrivenTask& task : tasks) {
    if (task.done) continue;
    const int64_t timeoutNs = int64_t{task.policy.timeoutMs} * 1'000'000;
    if (timeoutNs > 0 && idle->elapsedNs() > timeoutNs) {
      finish(&task, task.owner->expired(task.task->waitingOn()));
    } else if (idle->lookDue(task.policy)) {
      Status verdict = task.owner->stalled(task.task->waitingOn());
      if (!verdict.ok()) finish(&task, std::move(verdict));
    }
  }
}

/// The others may take long, or wait for what ends only with these.
void letGo(std::span<DrivenTask> tasks, Idle* idle) {
  for (DrivenTask& task : tasks) {
    if (!task.done || !task.atEnd) continue;
    idle->stayAwake();
    std::exchange(task.atEnd, nullptr)();
  }
}

}  // namespace

void drive(std::span<DrivenTask> tasks) {
  Idle idle(tasks);
  bool left = true;
  uint32_t round = 0;
  while (true) {
    const bool moved = stepAll(tasks, &left);
    if (!left) return letGo(tasks, &idle);
    if (moved) {
      idle.reset();
      if (++round % 256 != 0) continue;
    }
    checkAborts(tasks);
    letGo(tasks, &idle);
    if (moved) continue;
    if (idle.rounds() % kRoundsPerProgress == kRoundsBeforeProgress) {
      for (DrivenTask& task : tasks) {
        if (!task.done) task.owner->progress();
      }
    }
    if (idle.wait()) checkTimes(tasks, &idle);
  }
}

}  // namespace tutti

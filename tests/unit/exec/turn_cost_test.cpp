// What yields cost, and when a wait sleeps instead.
#include "src/exec/turn_cost.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "src/exec/drive.hpp"

using namespace tutti;
using State = TurnCost::State;

namespace {

constexpr int64_t kCheapNs = 700, kSliceOfOtherNs = 3 * kMs;

/// A clock and a thread that yields.
struct Yielder {
  TurnCost turns;
  int64_t nowNs = 1;
  int64_t idleAllNs = 0;
  int timed = 0;
  void yield(int64_t costNs) {
    const bool samples = turns.samples();
    nowNs += costNs;
    if (!samples) return;
    ++timed;
    turns.sample(costNs, nowNs);
  }
  void yield(int times, int64_t costNs) {
    for (int i = 0; i < times; ++i) yield(costNs);
  }
  /// A window in which the core is idle for a part of the time, and others have the rest.
  void window(int64_t idleNs = 0) {
    REQUIRE(turns.wantsCoreTime(nowNs));
    turns.coreTime(TurnCost::CoreTime{1, idleAllNs, nowNs - idleAllNs}, nowNs);
    CHECK(!turns.wantsCoreTime(nowNs + TurnCost::kWindowNs - 1));
    nowNs += TurnCost::kWindowNs;
    idleAllNs += idleNs;
    turns.coreTime(TurnCost::CoreTime{1, idleAllNs, nowNs - idleAllNs}, nowNs);
  }
  /// All yields cost a slice.
  void becomeDear() {
    yield(TurnCost::kYieldsPerSample + 1, kSliceOfOtherNs);
    CHECK(turns.state() == State::Suspects);  // until it is known whose the slices were
    window();
    REQUIRE(turns.state() == State::Dear);
  }
};

}  // namespace

TEST_CASE("alone on its core a thread times a few of its yields, and nothing follows") {
  Yielder y;
  y.yield(4000, kCheapNs);
  CHECK(y.turns.state() == State::Alone);
  CHECK(y.timed == 4000 / static_cast<int>(TurnCost::kYieldsPerSample));
}

TEST_CASE("what another rank does in its turn is no slice of another program") {
  Yielder y;
  y.yield(100, TurnCost::kSliceNs - 1);
  CHECK(y.turns.state() == State::Alone);
}

TEST_CASE(
    "a yield that costs a slice now and then means another session's program, until it has been gone for a while") {
  Yielder y;
  y.yield(static_cast<int>(TurnCost::kYieldsPerSample) - 1, kCheapNs);
  y.yield(1, kSliceOfOtherNs);  // this one is timed
  y.window();
  REQUIRE(y.turns.state() == State::Beside);
  y.yield(100, kCheapNs);
  CHECK(y.turns.state() == State::Beside);
  y.yield(1, kSliceOfOtherNs);  // seldom: it stays cheap on the average
  CHECK(y.turns.state() == State::Beside);
  y.nowNs += TurnCost::kLeastPeriodNs;
  y.yield(1, kCheapNs);
  CHECK(y.turns.state() == State::Alone);
}

TEST_CASE("yields that cost a slice each are dear, and tried again ever more seldom") {
  Yielder y;
  y.becomeDear();
  int64_t last = 0;
  for (int64_t period = TurnCost::kLeastPeriodNs; period < TurnCost::kMostPeriodNs; period *= 2) {
    CHECK(!y.turns.triesAgain(y.nowNs + period - 1));
    CHECK(y.turns.state() == State::Dear);
    y.nowNs += period;
    CHECK(y.turns.triesAgain(y.nowNs));
    CHECK(y.turns.state() == State::Beside);
    y.yield(2, kSliceOfOtherNs);  // both timed
    REQUIRE(y.turns.state() == State::Dear);
    last = period;
  }
  CHECK(2 * last == TurnCost::kMostPeriodNs);
  for (int i = 0; i < 3; ++i) {  // and then no more seldom than that
    y.nowNs += TurnCost::kMostPeriodNs;
    CHECK(y.turns.triesAgain(y.nowNs));
    y.yield(2, kSliceOfOtherNs);
    REQUIRE(y.turns.state() == State::Dear);
  }
  y.nowNs += TurnCost::kMostPeriodNs;
  CHECK(y.turns.triesAgain(y.nowNs));
  y.yield(20, kCheapNs);  // the program has ended
  y.nowNs += TurnCost::kLeastPeriodNs;
  y.yield(1, kCheapNs);
  CHECK(y.turns.state() == State::Alone);
}

TEST_CASE("slices on a core that is idle while ranks sleep were other ranks' work, and count for nothing for a while") {
  Yielder y;
  const auto slices = [&] { y.yield(TurnCost::kYieldsPerSample + 1, kSliceOfOtherNs); };
  slices();
  y.window(10 * kMs);
  CHECK(y.turns.state() == State::Dear);  // nearly always busy
  y.nowNs += TurnCost::kWindowNs;
  y.window(40 * kMs);
  CHECK(y.turns.state() == State::Alone);
  for (int64_t doubt = TurnCost::kLeastDoubtNs; doubt <= TurnCost::kMostDoubtNs / 2; doubt *= 2) {
    const int64_t end = y.nowNs + doubt;
    slices();
    CHECK(!y.turns.wantsCoreTime(y.nowNs));
    y.nowNs = end;
    slices();
    y.window(40 * kMs);
    CHECK(y.turns.state() == State::Alone);
  }
}

TEST_CASE("a slice that nothing follows makes nothing dear") {
  Yielder y;
  y.yield(static_cast<int>(TurnCost::kYieldsPerSample) - 1, kCheapNs);
  y.yield(1, kSliceOfOtherNs);
  y.yield(8, kCheapNs);
  y.window();
  CHECK(y.turns.state() == State::Alone);
  CHECK(!y.turns.wantsCoreTime(y.nowNs + TurnCost::kWindowNs));
}

TEST_CASE("a window in which the thread was long in no wait says nothing") {
  Yielder y;
  y.yield(TurnCost::kYieldsPerSample + 1, kSliceOfOtherNs);
  y.turns.coreTime(TurnCost::CoreTime{1, 0, 0}, y.nowNs);
  y.nowNs += 2 * TurnCost::kWindowNs;
  y.turns.coreTime(TurnCost::CoreTime{1, 0, 2 * TurnCost::kWindowNs}, y.nowNs);
  CHECK(y.turns.state() == State::Suspects);
  y.nowNs += TurnCost::kWindowNs;
  y.turns.coreTime(TurnCost::CoreTime{1, 0, 3 * TurnCost::kWindowNs}, y.nowNs);
  CHECK(y.turns.state() == State::Dear);
}

TEST_CASE("where there are other programs, slices are known for theirs for a while") {
  Yielder y;
  y.becomeDear();
  y.nowNs += TurnCost::kMostPeriodNs;
  CHECK(y.turns.triesAgain(y.nowNs));
  y.yield(20, kCheapNs);
  y.nowNs += TurnCost::kLeastPeriodNs;
  y.yield(1, kCheapNs);
  REQUIRE(y.turns.state() == State::Alone);
  y.yield(TurnCost::kYieldsPerSample, kSliceOfOtherNs);  // of which one is timed
  CHECK(y.turns.state() == State::Beside);
}

TEST_CASE("a core that a thread has left, or of which the system tells nothing, is taken for busy") {
  Yielder y;
  y.becomeDear();
  y.turns.coreTime(TurnCost::CoreTime{1, 0}, y.nowNs);
  y.turns.coreTime(TurnCost::CoreTime{0, 90 * kMs}, y.nowNs + TurnCost::kWindowNs);
  CHECK(y.turns.state() == State::Dear);
  y.turns.coreTime(std::nullopt, y.nowNs + 2 * TurnCost::kWindowNs);
  y.turns.coreTime(TurnCost::CoreTime{0, 900 * kMs}, y.nowNs + 3 * TurnCost::kWindowNs);
  CHECK(y.turns.state() == State::Dear);
}

TEST_CASE(
    "slices on a core whose time the ranks had themselves were their work, and not those that others had a part of") {
  struct Row {
    int64_t idleNs, elseNs, firstNs, secondNs;  // of a window: the core's, interrupts', the two threads of ranks on it
    State state;
  };
  const auto row =
      GENERATE(Row{0, 0, 50 * kMs, 45 * kMs, State::Alone}, Row{10 * kMs, 0, 77 * kMs, 0, State::Alone},
               Row{0, 0, 30 * kMs, 30 * kMs, State::Dear}, Row{0, 30 * kMs, 30 * kMs, 30 * kMs, State::Alone},
               Row{10 * kMs, 0, 20 * kMs, 10 * kMs, State::Dear}, Row{0, 0, 0, 0, State::Dear});
  CAPTURE(row.idleNs, row.firstNs, row.secondNs);
  Yielder y;
  y.yield(TurnCost::kYieldsPerSample + 1, kSliceOfOtherNs);
  y.turns.coreTime(TurnCost::CoreTime{1, 7 * kMs, 0, {{11, 900 * kMs}, {12, 5 * kMs}, {13, 77 * kMs}}}, y.nowNs);
  y.nowNs += TurnCost::kWindowNs;
  // One has left the core and another come, with all its time.
  const int64_t tasksNs = TurnCost::kWindowNs - row.idleNs - row.elseNs;
  y.turns.coreTime(TurnCost::CoreTime{1,
                                      7 * kMs + row.idleNs,
                                      tasksNs,
                                      {{11, 900 * kMs + row.firstNs}, {12, 5 * kMs + row.secondNs}, {14, 5000 * kMs}}},
                   y.nowNs);
  CHECK(y.turns.state() == row.state);
}

TEST_CASE("what others did while the thread neither ran nor waited was taken from nobody") {
  struct Row {
    int64_t idleNs, ranksNs, wantedNs, sleptNs;  // of a window: the core's, another rank's, the thread's
    State state;
  };
  const auto row = GENERATE(Row{0, 10 * kMs, 25 * kMs, 0, State::Alone},          // others had their turns meanwhile
                            Row{0, 10 * kMs, 25 * kMs, 75 * kMs, State::Dear},    // it slept for messages
                            Row{0, 10 * kMs, 60 * kMs, 0, State::Dear},           // more than while it was away
                            Row{10 * kMs, 10 * kMs, 100 * kMs, 0, State::Dear},   // it was there
                            Row{0, 90 * kMs, 100 * kMs, 5 * kMs, State::Alone});  // both clocks are a little off
  CAPTURE(row.idleNs, row.ranksNs, row.wantedNs, row.sleptNs);
  Yielder y;
  y.turns.slept(kMs);  // before the window
  y.yield(TurnCost::kYieldsPerSample + 1, kSliceOfOtherNs);
  y.turns.coreTime(TurnCost::CoreTime{1, 0, 0, {{11, 0}}, 500 * kMs}, y.nowNs);
  y.turns.slept(row.sleptNs);
  y.nowNs += TurnCost::kWindowNs;
  y.turns.coreTime(
      TurnCost::CoreTime{
          1, row.idleNs, TurnCost::kWindowNs - row.idleNs, {{11, row.ranksNs}}, 500 * kMs + row.wantedNs},
      y.nowNs);
  CHECK(y.turns.state() == row.state);
}

TEST_CASE("a thread has wanted a core for as long as it ran, and not while it waited for a file") {
  const auto before = timeOfCore({}).value().wantedNs;
  timespec ran{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
  const int64_t ranBefore = ran.tv_sec * 1000 * kMs + ran.tv_nsec;
  while (ran.tv_sec * 1000 * kMs + ran.tv_nsec < ranBefore + 40 * kMs) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
  const auto busy = timeOfCore({}).value().wantedNs;
  const int64_t startNs = nowNs();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto after = timeOfCore({}).value().wantedNs;
  REQUIRE((before && busy && after));
  CHECK(*busy - *before >= 20 * kMs);
  CHECK(*after - *busy <= nowNs() - startNs - 100 * kMs);
}

TEST_CASE("nobody asks about the threads of hundreds of ranks, each of which would ask about all") {
  CHECK(timeOfCore(std::vector<int>(64, getpid())).has_value());
  CHECK(!timeOfCore(std::vector<int>(256, getpid())).has_value());
}

TEST_CASE("the system tells what a core has done, and what threads of ranks that are on it had of that") {
  const std::optional<TurnCost::CoreTime> first = timeOfCore({});
  REQUIRE(first);
  CHECK(first->idleNs >= 0);
  CHECK(first->tasksNs > 0);
  CHECK(first->core >= 0);
  CHECK(first->ranksNs.empty());
  CHECK(timeOfCore(std::vector<int>{-5, 0}).value().ranksNs.empty());
  const int self[] = {getpid()};
  const auto thread = static_cast<int>(syscall(SYS_gettid));
  timespec ran{};
  while (ran.tv_sec == 0 && ran.tv_nsec < 50 * kMs) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
  std::map<int, int64_t> threads;
  for (int tries = 0; tries < 1000 && !threads.contains(thread); ++tries) threads = timeOfCore(self).value().ranksNs;
  REQUIRE(threads.contains(thread));  // unless it is moved each time
  CHECK(threads[thread] >= 20 * kMs);
}

namespace {

class CountedUntilSleep final : public Task {
 public:
  explicit CountedUntilSleep(const int* sleeps) : sleeps_(sleeps) {}
  Result<Progress> step() override {
    if (*sleeps_ > 0) return Progress::Done;
    ++steps;
    return Progress::Blocked;
  }
  int waitingOn() const override { return 1; }
  void abandon() override {}
  int steps = 0;

 private:
  const int* sleeps_;
};

class QuietOwner : public TaskOwner {
 public:
  bool aborting() const override { return false; }
  void progress() override {}
  Status aborted() override { return {}; }
  PendingVerdict stalled(int) override { return nullptr; }
  PendingVerdict expired(int) override { return nullptr; }
  PendingVerdict failed(const Status&, int) override { return nullptr; }
};

class Counting final : public Sleeper {
 public:
  void prepare() override {}
  void sleep(int) override { ++sleeps; }
  void cancel() override {}
  void ring() override {}
  int sleeps = 0;
};

/// Looks at a task that does not move until the thread sleeps, in this state of its yields.
int stepsUntilSleep(State state, tuttiWaitMode_t mode) {
  int steps = 0;
  std::thread([&] {  // what yields have cost is the thread's
    TurnCost& turns = turnCostOfThread();
    for (int i = 0; state == State::Dear && i < 2 * static_cast<int>(TurnCost::kYieldsPerSample); ++i) {
      if (turns.samples()) turns.sample(kSliceOfOtherNs, nowNs());
    }
    for (const int64_t later : {int64_t{0}, TurnCost::kWindowNs}) {
      if (state == State::Dear) turns.coreTime(TurnCost::CoreTime{0, 0, later}, nowNs() + later);
    }
    Counting sleeper;
    Sleeper* const sleepers[] = {&sleeper};
    CountedUntilSleep task(&sleeper.sleeps);
    QuietOwner owner;
    DrivenTask driven{.task = &task, .owner = &owner, .policy = {.mode = mode, .spin = false}, .sleepers = sleepers};
    drive({&driven, 1});
    // A busy machine may make them dear meanwhile, or cheap, which is not what is asked here.
    steps = turns.state() == state ? task.steps : -1;
  })
      .join();
  return steps;
}

}  // namespace

TEST_CASE("where yields are dear a wait sleeps at once, and alone after a thousand of them") {
  const int dear = stepsUntilSleep(State::Dear, TUTTI_WAIT_AUTO);
  CHECK((dear == -1 || dear == 2));  // one more look comes once peers know whom to ring
  const int alone = stepsUntilSleep(State::Alone, TUTTI_WAIT_AUTO);
  CHECK((alone == -1 || alone > 1000));
}

namespace {

/// Never moves; counts how often it was looked at.
class Stuck final : public Task {
 public:
  Result<Progress> step() override {
    ++steps;
    return Progress::Blocked;
  }
  int waitingOn() const override { return 1; }
  void abandon() override {}
  int steps = 0;
};

class ExpiringOwner final : public QuietOwner {
 public:
  PendingVerdict expired(int) override {
    return pendingBy<bool>([]() -> Result<bool> { return timeoutError("over"); });
  }
};

/// Keeps the calling thread's core busy, as other programs do.
class BusyCore {
 public:
  BusyCore() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);  // threads inherit it
    for (std::thread& hog : hogs_) {
      hog = std::thread([this] {
        while (!ends_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyCore() {
    ends_ = true;
    for (std::thread& hog : hogs_) hog.join();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::thread hogs_[3];
};

}  // namespace

TEST_CASE("of a wait whose yields cost slices all time counts") {
  constexpr int kTimeoutMs = 300;
  int steps = 0;
  int64_t tookNs = 0;
  std::thread([&] {
    const BusyCore busy;
    Stuck task;
    ExpiringOwner owner;
    DrivenTask driven{.task = &task, .owner = &owner, .policy = {.spin = false, .timeoutMs = kTimeoutMs}};
    const int64_t begin = nowNs();
    drive({&driven, 1});
    tookNs = nowNs() - begin;
    steps = task.steps;
    CHECK(driven.result.code() == tuttiTimeout);
  }).join();
  const double sliceMs = static_cast<double>(tookNs) / 1e6 / steps;
  CAPTURE(steps, sliceMs);
  // Cheap yields are looked at together, and what counts of a slice is bounded.
  if (sliceMs >= 2 && sliceMs <= 20) CHECK(steps < 2 * kTimeoutMs / sliceMs + 2 * TurnCost::kYieldsPerSample);
}

// Waiting for tasks: deadlines, how awake, and who is let go when.
#include "src/exec/drive.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <memory>
#include <new>

#include "src/base/clock.hpp"
#include "src/base/pending.hpp"
#include "src/exec/spin_cost.hpp"
#include "tests/support/fork.hpp"

using namespace tutti;

namespace {

/// What the task of one process and the test that looks at it share.
struct Shared {
  std::atomic<bool> waiting{false}, mayEnd{false};
};

class WaitingTask final : public Task {
 public:
  explicit WaitingTask(Shared* shared) : shared_(shared) {}
  Result<Progress> step() override {
    shared_->waiting = true;
    return shared_->mayEnd ? Progress::Done : Progress::Blocked;
  }
  int waitingOn() const override { return 3; }
  void abandon() override {}

 private:
  Shared* shared_;
};

class Owner final : public TaskOwner {
 public:
  std::function<bool()> abortIf = [] { return false; };
  bool aborting() const override { return abortIf(); }
  void progress() override {}
  Status aborted() override { return Status(tuttiRemoteError, "aborted"); }
  PendingVerdict stalled(int) override {
    ++looks;
    return pendingBy<bool>([this]() -> Result<bool> {
      if (strayVerdict.ok()) return true;
      return strayVerdict;
    });
  }
  PendingVerdict expired(int waitingOn) override {
    return pendingBy<bool>([=, this]() -> Result<bool> {
      if (!mayJudge()) return false;
      return Status(tuttiRemoteError, "rank " + std::to_string(waitingOn));
    });
  }
  PendingVerdict failed(const Status& error, int) override {
    return pendingBy<bool>([=]() -> Result<bool> { return error; });
  }
  int looks = 0;
  Status strayVerdict;
  std::function<bool()> mayJudge = [] { return true; };
};

Status driveOne(Shared* shared, int timeoutMs) {
  WaitingTask task(shared);
  Owner owner;
  DrivenTask driven{.task = &task, .owner = &owner, .policy = {.timeoutMs = timeoutMs}};
  drive({&driven, 1});
  return driven.result;
}

}  // namespace

TEST_CASE("a wait that reaches its deadline ends with who it was for") {
  Shared shared;
  const Status result = driveOne(&shared, 50);
  CHECK(result.code() == tuttiRemoteError);
  CHECK(result.message() == "rank 3");
}

namespace {

/// Blocked until something holds.
class BlockedUntil final : public Task {
 public:
  explicit BlockedUntil(std::function<bool()> over) : over_(std::move(over)) {}
  Result<Progress> step() override { return over_() ? Progress::Done : Progress::Blocked; }
  int waitingOn() const override { return 1; }
  void abandon() override {}

 private:
  std::function<bool()> over_;
};

class CountingSleeper final : public Sleeper {
 public:
  void prepare() override { prepared = true; }
  void sleep(int us) override {
    if (sleeps++ == 0) firstNs = nowNs();
    ::usleep(static_cast<useconds_t>(us));
    prepared = false;
  }
  void cancel() override { prepared = false; }
  void ring() override { ++rings; }
  int sleeps = 0;
  int rings = 0;
  int64_t firstNs = 0;
  bool prepared = false;
};

}  // namespace

TEST_CASE("a wait stays awake for as long as its communicator wants") {
  struct Row {
    tuttiWaitMode_t mode;
    bool spin;
    int spinUs;
    int64_t awakeNs;  // at least; -1: it never sleeps
  };
  const auto row = GENERATE(values<Row>({{TUTTI_WAIT_AUTO, true, -1, 2 * kMs},
                                         {TUTTI_WAIT_SPIN, false, -1, -1},
                                         {TUTTI_WAIT_SPIN, true, 0, -1},
                                         {TUTTI_WAIT_YIELD, true, -1, -1},
                                         {TUTTI_WAIT_BLOCK, true, -1, 0},
                                         {TUTTI_WAIT_BLOCK, true, 5000, 5 * kMs}}));
  CAPTURE(row.mode, row.spin, row.spinUs);
  spinCostOfThread() = SpinCost([] { return std::optional<ThreadTime>(); },
                                [] { return std::optional<TurnCost::CoreTime>(); });  // whatever else runs
  CountingSleeper sleeper;
  Sleeper* const sleepers[] = {&sleeper};
  const int64_t start = nowNs();
  BlockedUntil task([&] { return row.awakeNs < 0 ? nowNs() - start > 30 * kMs : sleeper.sleeps > 2; });
  Owner owner;
  DrivenTask driven{.task = &task, .owner = &owner, .policy = {.timeoutMs = 30'000}, .sleepers = sleepers};
  driven.policy.mode = row.mode;
  driven.policy.spin = row.spin;
  driven.policy.spinUs = row.spinUs;
  drive({&driven, 1});
  CHECK(driven.result.ok());
  CHECK(!sleeper.prepared);
  if (row.awakeNs < 0) {
    CHECK(sleeper.sleeps == 0);
  } else {
    CHECK(sleeper.firstNs - start >= row.awakeNs);
  }
}

TEST_CASE("a thread whose core others want spins little") {
  int64_t now = nowNs() - SpinCost::kBetweenLooksNs;
  SpinCost spins([&] { return std::optional(ThreadTime{.delayNs = now}); },
                 [] { return std::optional<TurnCost::CoreTime>(); });  // it never had the core
  CHECK(!spins.briefly(now));
  now = nowNs() + 1000 * kMs;  // so that it holds for the whole test
  REQUIRE(spins.briefly(now));
  std::swap(spins, spinCostOfThread());
  CountingSleeper sleeper;
  Sleeper* const sleepers[] = {&sleeper};
  int steps = 0;
  BlockedUntil task([&] { return ++steps, sleeper.sleeps > 0; });
  Owner owner;
  DrivenTask driven{.task = &task, .owner = &owner, .policy = {.timeoutMs = 30'000}, .sleepers = sleepers};
  drive({&driven, 1});
  std::swap(spins, spinCostOfThread());
  CHECK(driven.result.ok());
  CHECK(steps < 15'000);  // some hundreds in 10 us, fifty thousand in the 2 ms of a thread that is alone
}

TEST_CASE("of communicators that wait together the one that leaves the core soonest decides") {
  CountingSleeper sleeper;
  Sleeper* const sleepers[] = {&sleeper};
  const auto slept = [&] { return sleeper.sleeps > 0; };
  BlockedUntil first(slept), second(slept);
  Owner owner;
  const WaitPolicy spinning{.mode = TUTTI_WAIT_SPIN, .timeoutMs = 10'000};
  const WaitPolicy blocking{.mode = TUTTI_WAIT_BLOCK, .timeoutMs = 10'000};
  DrivenTask tasks[] = {{.task = &first, .owner = &owner, .policy = spinning, .sleepers = sleepers},
                        {.task = &second, .owner = &owner, .policy = blocking, .sleepers = sleepers}};
  drive(tasks);
  CHECK(tasks[0].result.ok());
}

TEST_CASE("a task is let go when it is over, while others of its group go on and sleep by their own sleepers") {
  auto sleeper = std::make_unique<CountingSleeper>();  // of the first, and gone with it
  CountingSleeper other;
  Sleeper* const firsts[] = {sleeper.get()};
  Sleeper* const seconds[] = {&other};
  const bool aborted = GENERATE(false, true);
  CAPTURE(aborted);
  const auto asleepSoon = [&] { return sleeper->sleeps > 1 && sleeper->prepared; };
  BlockedUntil first([&] { return !aborted && asleepSoon(); });
  BlockedUntil second([&] { return other.sleeps > 1; });
  Owner owner, aborter;
  if (aborted) aborter.abortIf = asleepSoon;
  bool prepared = true;
  // The last one is the one whose sleeper is taken: until it is done that is the first task's.
  const WaitPolicy policy{.mode = TUTTI_WAIT_BLOCK, .timeoutMs = 10'000};
  DrivenTask tasks[] = {{.task = &second, .owner = &owner, .policy = policy, .sleepers = seconds},
                        {.task = &first, .owner = &aborter, .policy = policy, .sleepers = firsts}};
  tasks[1].atEnd = [&] {
    prepared = sleeper->prepared;
    CHECK(other.sleeps == 0);
    sleeper.reset();
  };
  drive(tasks);
  CHECK(tasks[0].result.ok());
  CHECK(tasks[1].result.message() == (aborted ? "aborted" : ""));
  CHECK(sleeper == nullptr);
  CHECK(!prepared);
}

TEST_CASE("while a process is stopped its waits do not count") {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const shared = new (memory) Shared;
  const pid_t pid = test::forkWhenIdle();
  if (pid == 0) ::_exit(driveOne(shared, 1500).ok() ? 0 : 1);
  while (!shared->waiting) ::usleep(1000);
  ::kill(pid, SIGSTOP);
  int status = 0;
  ::waitpid(pid, &status, WUNTRACED);
  ::usleep(1'600'000);
  ::kill(pid, SIGCONT);
  for (shared->waiting = false; !shared->waiting;) ::usleep(1000);
  ::usleep(20'000);  // it looks at the clock
  shared->mayEnd = true;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  ::munmap(memory, sizeof(Shared));
}

TEST_CASE("a wait counts little of the time for which its thread got no core between two looks") {
  int steps = 0;
  BlockedUntil seldom([&] {
    ::usleep(60'000);
    return ++steps == 20;
  });
  Owner owner;
  DrivenTask task{.task = &seldom, .owner = &owner, .policy = {.mode = TUTTI_WAIT_BLOCK, .timeoutMs = 800}};
  Drive drive;
  drive.add(&task);
  while (!drive.empty()) drive.round(true);
  CHECK(task.result.message() == "");
  CHECK(steps == 20);
}

namespace {

/// Moves in every step, until something holds.
class MovingUntil final : public Task {
 public:
  explicit MovingUntil(std::function<bool()> over) : over_(std::move(over)) {}
  Result<Progress> step() override { return over_() ? Progress::Done : Progress::Moved; }
  int waitingOn() const override { return 2; }
  void abandon() override {}

 private:
  std::function<bool()> over_;
};

}  // namespace

TEST_CASE("a task's deadline counts from its own progress, whatever moves beside it") {
  const Deadline patience = Deadline::inMs(20'000);
  Owner stuckOwner, movingOwner;
  BlockedUntil stuck([] { return false; });
  DrivenTask tasks[2] = {{.task = &stuck, .owner = &stuckOwner, .policy = {.timeoutMs = 100}}, {}};
  bool expired = false, expiredFirst = false;
  tasks[0].atEnd = [&] { expired = true; };
  if (GENERATE(false, true)) stuckOwner.strayVerdict = Status(tuttiInvalidUsage, "rank 1 has left");
  MovingUntil moving([&] { return (expiredFirst = expired) || patience.passed(); });
  tasks[1] = {.task = &moving, .owner = &movingOwner, .policy = {.timeoutMs = 100}};
  drive(tasks);
  CHECK(expiredFirst);
  CHECK(tasks[0].result.message() == (stuckOwner.strayVerdict.ok() ? "rank 1" : "rank 1 has left"));
  CHECK(stuckOwner.looks > 0);
  CHECK(tasks[1].result.ok());
  CHECK(movingOwner.looks == 0);
}

TEST_CASE("while a task's verdict is awaited, and while a device leaves its memory, the others go on") {
  class Leaving final : public Task {
   public:
    Leaving(const int* steps, Deadline patience) : steps_(steps), patience_(patience) {}
    Result<Progress> step() override { return Progress::Blocked; }
    int waitingOn() const override { return 1; }
    void abandon() override { from = *steps_; }
    bool abandoned() override { return *steps_ >= from + 1000 || patience_.passed(); }
    int from = 0;

   private:
    const int* steps_;
    Deadline patience_;
  };
  const Deadline patience = Deadline::inMs(20'000);
  int steps = 0;
  int judgedFrom = 0;
  Owner slow, owner;
  slow.mayJudge = [&] {
    if (judgedFrom == 0) judgedFrom = steps;
    return steps >= judgedFrom + 1000 || patience.passed();
  };
  Leaving leaving(&steps, patience);
  bool left = false;
  MovingUntil moving([&] { return ++steps > 0 && (left || patience.passed()); });
  DrivenTask tasks[] = {{.task = &leaving, .owner = &slow, .policy = {.timeoutMs = 10}},
                        {.task = &moving, .owner = &owner}};
  tasks[0].atEnd = [&] { left = true; };
  drive(tasks);
  CHECK(left);
  CHECK(leaving.from >= judgedFrom + 1000);
  CHECK(steps >= leaving.from + 1000);
  CHECK(tasks[0].result.message() == "rank 1");
}

TEST_CASE("tasks come to others that are under way, also when one of those ends; a ring ends their sleep") {
  CountingSleeper sleeper;
  Sleeper* const sleepers[] = {&sleeper};
  Owner owner;
  const WaitPolicy policy{.mode = TUTTI_WAIT_BLOCK, .timeoutMs = 10'000};
  Drive all;
  bool firstMayEnd = false;
  BlockedUntil first([&] { return firstMayEnd; }), second([&] { return sleeper.sleeps > 1; });
  DrivenTask tasks[] = {{.task = &first, .owner = &owner, .policy = policy},
                        {.task = &second, .owner = &owner, .policy = policy, .sleepers = sleepers}};
  tasks[0].atEnd = [&] { all.add(&tasks[1]); };
  all.add(&tasks[0]);
  all.round();
  CHECK(!tasks[0].done);
  firstMayEnd = true;
  all.round();
  CHECK(tasks[0].done);
  CHECK(!all.empty());
  all.ring();  // nobody sleeps
  CHECK(sleeper.rings == 0);
  while (!sleeper.prepared) all.round();
  all.ring();
  CHECK(sleeper.rings == 1);
  const int before = sleeper.sleeps;
  for (int i = 0; i < 10; ++i) all.round(true);
  CHECK(sleeper.sleeps == before);  // whoever has to look soon does not sleep
  CHECK(!sleeper.prepared);
  while (!all.empty()) all.round();
  CHECK(tasks[1].result.ok());
}

TEST_CASE("where streams share cores with their ranks, and waits go by load, their threads sleep at once") {
  const auto roundsBeforeSleep = [](const WaitPolicy& policy) {
    CountingSleeper sleeper;
    Sleeper* const sleepers[] = {&sleeper};
    Owner owner;
    BlockedUntil slept([&] { return sleeper.sleeps > 0; });
    DrivenTask task{.task = &slept, .owner = &owner, .policy = policy, .sleepers = sleepers};
    Drive drive;
    drive.add(&task);
    int rounds = 0;
    for (; !drive.empty(); ++rounds) drive.round();
    return rounds;
  };
  const auto policy = [](bool streamsShareCores, bool onStream) {
    return WaitPolicy{.streamsShareCores = streamsShareCores, .onStream = onStream, .timeoutMs = 10'000};
  };
  CHECK(roundsBeforeSleep(policy(true, true)) < 5);
  CHECK(roundsBeforeSleep(policy(true, false)) > 5);  // they spin
  CHECK(roundsBeforeSleep(policy(false, true)) > 5);
}

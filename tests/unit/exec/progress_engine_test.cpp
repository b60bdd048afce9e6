// The progress engine: queues side by side, jobs of one in order, and the thread that there is only as long as it is
// needed.
#include "src/exec/progress_engine.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <string>

#include "src/base/clock.hpp"
#include "tests/support/fork.hpp"
#include "tests/support/named_threads.hpp"

using namespace tutti;

namespace {

using Queue = std::unique_ptr<ProgressQueue>;

Queue newQueue() {
  Result<Queue> queue = ProgressQueue::create();
  REQUIRE(queue.ok());
  return std::move(queue).value();
}

/// What jobs have done, in order.
class Diary {
 public:
  void note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    text_ += what;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

class JobOwner final : public TaskOwner {
 public:
  bool aborting() const override { return false; }
  void progress() override {}
  Status aborted() override { return {}; }
  PendingVerdict stalled(int) override { return nullptr; }
  PendingVerdict expired(int waitingOn) override {
    return pendingBy<bool>([=]() -> Result<bool> { return timeoutError("rank ", waitingOn); });
  }
  PendingVerdict failed(const Status& error, int) override {
    return pendingBy<bool>([=]() -> Result<bool> { return error; });
  }
};

using Condition = std::function<bool()>;
bool always() { return true; }

/// Begins and ends when conditions hold; notes its name in small letters, and then in capitals.
class Job final : public ProgressJob, public Task {
 public:
  Job(Diary& diary, char name, Condition mayBegin = always, Condition mayEnd = always, int timeoutMs = 20'000)
      : diary_(diary), name_(name), mayBegin_(std::move(mayBegin)), mayEnd_(std::move(mayEnd)), timeoutMs_(timeoutMs) {}
  Result<DrivenTask*> begin() override {
    if (!mayBegin_()) return static_cast<DrivenTask*>(nullptr);
    if (name_ == '!') return internalError("cannot begin");
    diary_.note(std::string(1, name_));
    driven_.task = this;
    driven_.owner = &owner_;
    driven_.policy.timeoutMs = timeoutMs_;
    return &driven_;
  }
  Status end(Status result) override {
    diary_.note(std::string(1, static_cast<char>(std::toupper(name_))));
    return result;
  }
  Result<Progress> step() override { return mayEnd_() ? Progress::Done : Progress::Blocked; }
  int waitingOn() const override { return 7; }
  void abandon() override {}

 private:
  Diary& diary_;
  char name_;
  Condition mayBegin_, mayEnd_;
  int timeoutMs_;
  JobOwner owner_;
  DrivenTask driven_;
};

template <class... Args>
void put(const Queue& queue, Diary& diary, char name, Args... args) {
  queue->enqueue(std::make_unique<Job>(diary, name, args...));
}

bool comesTrue(const Condition& condition) {
  for (const Deadline deadline = Deadline::inMs(20'000); !condition(); ::usleep(1000)) {
    if (deadline.passed()) return false;
  }
  return true;
}

int engines() { return test::threadsNamed("tutti-progress"); }

}  // namespace

TEST_CASE("jobs of a queue run in order, and queues side by side on one thread") {
  Diary diary;
  std::atomic<bool> open{false}, ended{false};
  const Queue one = newQueue(), other = newQueue();
  put(one, diary, 'a', always, [&] { return open.load(); });
  put(one, diary, 'b');
  CHECK(comesTrue([&] { return diary.text() == "a"; }));
  put(
      other, diary, 'x', [&] { return diary.text() == "a"; }, [&] { return ended.load(); });
  put(other, diary, 'y', [&] { return open.load(); });
  CHECK(comesTrue([&] { return diary.text() == "ax"; }));
  CHECK(engines() == 1);
  ended = true;
  CHECK(comesTrue([&] { return diary.text() == "axX"; }));
  open = true;
  CHECK(one->synchronize().ok());
  CHECK(other->synchronize().ok());
  std::string last = diary.text();
  std::erase_if(last, [](char c) { return c == 'y' || c == 'Y'; });
  CHECK(last == "axXAbB");
}

TEST_CASE("a job that overtakes runs while the head waits to begin, not while it runs") {
  Diary diary;
  std::atomic<bool> replayed{false}, open{false};
  const Queue queue = newQueue();
  const auto overtaking = [&](char name, std::atomic<bool>* flag) {
    queue->enqueue(std::make_unique<Job>(diary, name, always, [flag] { return *flag = true; }),
                   ProgressQueue::Order::Overtakes);
  };
  put(
      queue, diary, 'a', [&] { return replayed.load(); }, [&] { return open.load(); });
  put(queue, diary, 'b');
  overtaking('r', &replayed);
  CHECK(comesTrue([&] { return diary.text() == "rRa"; }));
  overtaking('s', &replayed);
  open = true;
  CHECK(queue->synchronize().ok());
  CHECK(diary.text() == "rRaAbBsS");
}

TEST_CASE("a queue tells its first error once; jobs that cannot begin, or whose deadline passes, disturb no other") {
  Diary diary;
  std::atomic<bool> open{false};
  const Queue queue = newQueue(), other = newQueue();
  put(other, diary, 'x', always, [&] { return open.load(); });
  put(
      queue, diary, 'a', always, [] { return false; }, 50);
  put(queue, diary, '!');
  put(queue, diary, 'b');
  CHECK(queue->synchronize().message() == "rank 7");
  CHECK(queue->synchronize().ok());
  open = true;
  CHECK(other->synchronize().ok());
  std::string text = diary.text();
  std::erase_if(text, [](char c) { return c == 'x' || c == 'X'; });
  CHECK(text == "aA!bB");
}

TEST_CASE("to destroy a queue waits for its own jobs alone") {
  Diary diary;
  std::atomic<bool> open{false};
  Queue queue = newQueue();
  const Queue other = newQueue();
  put(
      other, diary, 'x', always, [&] { return open.load(); }, 60'000);
  put(queue, diary, 'a');
  put(queue, diary, 'b');
  auto destroyed = std::async(std::launch::async, [&] { queue.reset(); });
  CHECK(destroyed.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(diary.text().find('X') == std::string::npos);
  CHECK(diary.text().find('B') != std::string::npos);
  open = true;
}

TEST_CASE(
    "the engine's thread begins with the first queue, sleeps while nothing is under way, and ends with the last") {
  CHECK(comesTrue([] { return engines() == 0; }));
  Diary diary;
  {
    const Queue queue = newQueue(), other = newQueue();
    put(queue, diary, 'a');
    CHECK(queue->synchronize().ok());
    CHECK(engines() == 1);
    // It may be on its way to sleep; then it is not woken any more.
    CHECK(comesTrue([] {
      const long before = test::switchesOf("tutti-progress");
      ::usleep(100'000);
      return test::switchesOf("tutti-progress") == before;
    }));
    put(other, diary, 'b');
    CHECK(other->synchronize().ok());
  }
  CHECK(comesTrue([] { return engines() == 0; }));
}

TEST_CASE("a forked child has an engine of its own") {
  Diary diary;
  const Queue queue = newQueue();
  put(queue, diary, 'a');
  CHECK(queue->synchronize().ok());
  const pid_t pid = test::forkWhenIdle();
  if (pid == 0) {
    ::alarm(20);
    Diary own;
    const Queue queueOfChild = newQueue();
    put(queueOfChild, own, 'c');
    ::_exit(queueOfChild->synchronize().ok() && own.text() == "cC" ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

// Waiting for tasks: deadlines.
#include "src/exec/drive.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <new>

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
  bool aborting() const override { return false; }
  void progress() override {}
  Status aborted() override { return {}; }
  Status stalled(int) override { return {}; }
  Status expired(int waitingOn) override { return Status(tuttiRemoteError, "rank " + std::to_string(waitingOn)); }
  Status failed(const Status& error, int) override { return error; }
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

// Ranks as processes, because only they can die.  The child process runs the ranks' code and leaves by _exit; it never
// uses Catch.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstring>

#include "tests/support/fork.hpp"
#include "tests/unit/control/ranks.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

Deadline patience() { return Deadline::inMs(20'000); }

/// What the parent and its child share: the rendezvous is the parent's.
struct Pipe {
  Fd read, write;
  Pipe() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
};

pid_t forked(const std::function<int()>& child) {
  const pid_t pid = forkWhenIdle();
  if (pid == 0) ::_exit(child());
  return pid;
}

std::vector<int> pidsOf(const Control& control) {
  std::vector<int> pids;
  for (const std::string& info : control.infos()) pids.push_back(std::atoi(info.c_str()));
  return pids;
}

Result<std::unique_ptr<Control>> joinAsProcess(const JoinRequest& base, int rank, int nRanks) {
  JoinRequest request = base;
  request.rank = rank;
  request.nRanks = nRanks;
  request.info = cat(::getpid());
  return loopbackSession()->join(request, patience(), nullptr, [](const Failure&) {});
}

int exitCodeOf(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("when a rank's process is killed, all others learn which one it was") {
  // The dying rank's connections break and, as a second witness, its pidfd fires.  Whether they come from a clean exit
  // without a goodbye or from a signal makes no difference.
  const bool keepConnections = GENERATE(false, true);
  CAPTURE(keepConnections);
  const Rendezvous rendezvous;
  const JoinRequest base = rendezvous.request(0, 1);
  Pipe up, hold;
  const pid_t dying = forked([&] {
    auto joined = joinAsProcess(base, 4, 5);
    if (!joined.ok()) return 1;
    if (keepConnections) {
      // A grandchild holds whatever it inherits until the test is over.
      if (::fork() == 0) {
        hold.write.reset();
        char c;
        ::_exit(static_cast<int>(::read(hold.read.get(), &c, 1)));
      }
    }
    hold.write.reset();
    if (!(*joined)->barrier(patience()).ok()) return 2;
    if (::write(up.write.get(), "u", 1) != 1) return 3;
    for (;;) ::pause();
    return 0;
  });
  REQUIRE(dying > 0);
  up.write.reset();  // what waits for the child learns of its early end
  std::atomic<bool> killed{false};
  std::thread killer([&] {
    char c;
    if (::read(up.read.get(), &c, 1) == 1) {
      ::usleep(10'000);  // some of the others wait for it by now
      killed = true;
      ::kill(dying, SIGKILL);
    }
  });
  CHECK(onRanks(4, [&](int rank) -> std::string {
          auto joined = joinAsProcess(base, rank, 5);
          if (!joined.ok()) return joined.status().message();
          (*joined)->watchProcesses(pidsOf(**joined));
          if (const Status s = (*joined)->barrier(patience()); !s.ok()) return s.message();
          const Status status = (*joined)->barrier(patience());
          if (status.ok() || !killed) return "it did not fail: " + status.message();
          if (status.code() != tuttiRemoteError) return status.message();
          return status.message().find("rank 4") != std::string::npos ? "" : status.message();
        }) == "");
  killer.join();
  CHECK(exitCodeOf(dying) == -SIGKILL);
}

TEST_CASE("a process that says goodbye and ends is no failure") {
  const Rendezvous rendezvous;
  const JoinRequest base = rendezvous.request(0, 1);
  const pid_t child = forked([&] {
    auto joined = joinAsProcess(base, 1, 2);
    return joined.ok() && (*joined)->barrier(patience()).ok() ? 0 : 1;
  });
  auto joined = joinAsProcess(base, 0, 2);
  REQUIRE(joined.ok());
  (*joined)->watchProcesses(pidsOf(**joined));
  CHECK((*joined)->barrier(patience()).ok());
  CHECK(exitCodeOf(child) == 0);
  ::usleep(60'000);  // longer than the patience with a goodbye on its way
  CHECK((*joined)->failure().message() == "");
}

/// The child process is rank 1 of two, and waits in what `childWaits` does when it is stopped, for longer than the wait
/// may last; rank 0 comes by `comes`, after the child has had time to look at the clock.
void checkStopped(const std::function<Status(Control&)>& childWaits, const std::function<Status(Control&)>& comes) {
  const Rendezvous rendezvous;
  const JoinRequest base = rendezvous.request(0, 1);
  Pipe up;
  const pid_t child = forked([&] {
    auto joined = joinAsProcess(base, 1, 2);
    if (!joined.ok() || ::write(up.write.get(), "u", 1) != 1) return 1;
    const Status status = childWaits(**joined);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
    return status.ok() && (*joined)->barrier(patience()).ok() ? 0 : 2;
  });
  auto joined = joinAsProcess(base, 0, 2);
  REQUIRE(joined.ok());
  char c;
  REQUIRE(::read(up.read.get(), &c, 1) == 1);
  ::usleep(20'000);  // it waits by now
  REQUIRE(::kill(child, SIGSTOP) == 0);
  ::usleep(800'000);
  REQUIRE(::kill(child, SIGCONT) == 0);
  ::usleep(50'000);
  CHECK(comes(**joined).message() == "");
  CHECK((*joined)->barrier(patience()).message() == "");
  CHECK(exitCodeOf(child) == 0);
}

TEST_CASE("a process that was stopped in a wait has not waited meanwhile") {
  SECTION("in an exchange") {
    checkStopped([](Control& control) { return control.barrier(Deadline::inMs(500)); },
                 [](Control& control) { return control.barrier(patience()); });
  }
  SECTION("in an agreement") {
    const auto agrees = [](Control& control, Deadline deadline) {
      return asStatus(control.agree({}, Control::Among::All, deadline));
    };
    checkStopped([&](Control& control) { return agrees(control, Deadline::inMs(500)); },
                 [&](Control& control) { return agrees(control, patience()); });
  }
  SECTION("in the agreement of survivors") {
    const auto agrees = [](Control& control, Deadline deadline) {
      return asStatus(control.agree({}, Control::Among::Survivors, deadline));
    };
    checkStopped([&](Control& control) { return agrees(control, Deadline::inMs(500)); },
                 [&](Control& control) { return agrees(control, patience()); });
  }
  SECTION("in the join of a child") {
    const auto joins = [](Control& parent, Deadline deadline) {
      JoinRequest request;
      request.secret = deriveSecret(parent.secret(), "child");
      request.commId = deriveCommId(parent.secret(), "child");
      request.rank = parent.rank();
      request.nRanks = parent.nRanks();
      request.members = parent.controlAddresses();
      const auto child = parent.session()->join(request, deadline, nullptr, [](const Failure&) {});
      return child.ok() ? (*child)->barrier(patience()) : child.status();
    };
    checkStopped([&](Control& control) { return joins(control, Deadline::inMs(700)); },
                 [&](Control& control) { return joins(control, patience()); });
  }
}

TEST_CASE("a process that serves the place where ranks meet, and was stopped, has not waited for them meanwhile") {
  Pipe address;
  const pid_t child = forked([&] {
    const Rendezvous place;
    const ControlAddress where = place.session->controlAddress();
    if (::write(address.write.get(), where.data(), where.size()) < 0) return 1;
    auto joined = place.join(0, 2, 1'000);
    if (!joined.ok()) std::fprintf(stderr, "%s\n", joined.status().message().c_str());
    return joined.ok() && (*joined)->barrier(patience()).ok() ? 0 : 2;
  });
  char where[kControlAddressMostBytes];
  const ssize_t bytes = ::read(address.read.get(), where, sizeof where);
  REQUIRE(bytes > 0);
  ::usleep(50'000);  // rank 0 is there by now
  REQUIRE(::kill(child, SIGSTOP) == 0);
  ::usleep(1'300'000);
  REQUIRE(::kill(child, SIGCONT) == 0);
  ::usleep(50'000);
  JoinRequest request = Rendezvous(Rendezvous::Opens::Later).request(1, 2);
  request.rendezvous.assign(where, static_cast<size_t>(bytes));
  auto joined = loopbackSession()->join(request, patience(), nullptr, [](const Failure&) {});
  CHECK(joined.status().message() == "");
  if (joined.ok()) CHECK((*joined)->barrier(patience()).message() == "");
  CHECK(exitCodeOf(child) == 0);
}

// Rank 0 is as one that is given a core every 100 ms; rank 1 goes on after a second, and has an answer.
TEST_CASE("a verdict at a deadline waits longer where the rank that asks hardly runs") {
  const Rendezvous rendezvous;
  const JoinRequest base = rendezvous.request(0, 1);
  Pipe up, over;
  const pid_t child = forked([&] {
    over.write.reset();
    auto joined = joinAsProcess(base, 1, 2);
    if (!joined.ok() || ::write(up.write.get(), "u", 1) != 1) return 1;
    char c;
    return ::read(over.read.get(), &c, 1) == 0 ? 0 : 2;
  });
  over.read.reset();
  auto joined = joinAsProcess(base, 0, 2);
  REQUIRE(joined.ok());
  (*joined)->setState([] {
    return RankState{.entered = 1, .inside = true, .waitingOn = 1, .recent = {{1, makeFingerprint({.sequence = 1})}}};
  });
  char c;
  REQUIRE(::read(up.read.get(), &c, 1) == 1);
  REQUIRE(::kill(child, SIGSTOP) == 0);
  const Deadline goesOn = Deadline::inMs(1'000);
  const auto verdict = (*joined)->beginInquiry(InquiryReason::Deadline, 1, 1, 200);
  Result<bool> said = false;
  for (bool stopped = true; said.ok() && !*said; said = verdict->poll()) {
    ::usleep(100'000);
    if (stopped && goesOn.passed()) stopped = ::kill(child, SIGCONT) != 0;
  }
  ::kill(child, SIGCONT);
  CHECK(said.status().message().find("rank 1 has not entered") == 0);
  over.write.reset();
  CHECK(exitCodeOf(child) == 0);
}

TEST_CASE("a process that was stopped while it tells a place why it does not come has not waited meanwhile") {
  Rendezvous later(Rendezvous::Opens::Later);
  const JoinRequest request = later.request(1, 2);
  const pid_t child = forked([&] {
    const Status told = loopbackSession()->tell(request, {1, systemError("no memory")}, Deadline::inMs(100));
    if (!told.ok()) std::fprintf(stderr, "%s\n", told.message().c_str());
    return told.ok() ? 0 : 1;
  });
  ::usleep(40'000);
  REQUIRE(::kill(child, SIGSTOP) == 0);
  ::usleep(300'000);
  later.open();
  REQUIRE(::kill(child, SIGCONT) == 0);
  CHECK(exitCodeOf(child) == 0);
}

TEST_CASE("a process that is gone before it is watched is noticed") {
  const Rendezvous rendezvous;
  const pid_t gone = forked([] { return 0; });
  CHECK(exitCodeOf(gone) == 0);
  CHECK(onRanks(2, [&](int rank) -> std::string {
          auto joined = rendezvous.join(rank, 2);
          if (!joined.ok()) return joined.status().message();
          // Rank 1 lives in this process; the number is that of one that has ended.
          if (rank == 0) (*joined)->watchProcesses({0, static_cast<int>(gone)});
          const Status status = rank == 0 ? Status() : (*joined)->barrier(patience());
          while ((*joined)->failure().ok()) ::usleep(1000);
          const std::string wanted = cat("rank 1 (process ", gone, " on this host) has died");
          return (*joined)->failure().message() == wanted ? status.message() == wanted || rank == 0 ? "" : "other"
                                                          : (*joined)->failure().message();
        }) == "");
}

TEST_CASE("a forked child holds nothing of a Session and may end without harm") {
  const Rendezvous rendezvous;
  CHECK(onRanks(2, [&](int rank) -> std::string {
          auto joined = rendezvous.join(rank, 2);
          if (!joined.ok()) return joined.status().message();
          if (const Status s = (*joined)->barrier(patience()); !s.ok()) return s.message();
          if (rank == 0) {
            const pid_t child = forked([&] {
              *joined = nullptr;  // no thread to join, no descriptor to close
              return 0;
            });
            if (exitCodeOf(child) != 0) return "the child failed";
          }
          return (*joined)->barrier(patience()).message();
        }) == "");
}

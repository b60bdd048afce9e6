// Runs a Job: starts the ranks, passes their output and our signals on, and ends everything in order.
//
// One thread, one poll loop, which wakes for output, signals (signalfd, SIGCHLD among them) and deadlines only.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/job.hpp"
#include "tools/run/output.hpp"
#include "tools/run/spawn.hpp"

struct pollfd;

namespace tutti::run {

class Launcher {
 public:
  /// Blocks the signals that run() handles, so make it before anything starts a thread.
  explicit Launcher(const Job& job);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Called when a rank's process, and with it all of its process group, has ended: "ended with status 0".
  using OnEnd = std::function<void(int rank, const std::string& how)>;
  /// meetingPlace: TUTTI_UNIQUE_ID for the ranks.  Returns the exit status: 0, or the first failure's (128 + signal
  /// for a rank that was killed), 124 for the timeout, 127 if the program cannot be started.
  int run(const std::string& meetingPlace, OnEnd onEnd);

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    pid_t pid = -1;  // -1: not started, or over
    int out = -1, err = -1;
    Line outLine, errLine;
  };
  enum class Stage { Running, Grace, Terminated, Killed };

  bool startAll(const std::string& meetingPlace);
  std::vector<std::string> variables(int rank, const std::string& meetingPlace) const;
  int openInput(int rank);
  void loopOnce();
  std::vector<pollfd> watched() const;
  int pollMs() const;
  void readOutput(int* fd, Line* line, int rank, Sink* sink);
  void relayInput();
  void takeSignals();
  void takeSignal(int signal);
  void reap();
  void rankEnded(int rank, const siginfo_t& how);
  void tellEnd(int rank, pid_t pid, const std::string& how);
  void fail(int status);
  void checkDeadlines();
  void signalAll(int signal, bool wholeGroups);
  void enter(Stage stage);
  void drain();
  void killStrays() const;
  bool running() const;

  const Job& job_;
  OnEnd onEnd_;
  sigset_t oldMask_{};
  int signalFd_ = -1;
  std::unique_ptr<Guardian> guardian_;
  std::vector<Rank> ranks_;
  SameErrors same_;
  Sink out_, err_;
  int inputPipe_ = -1;  // to rank 0, when our input is a terminal
  std::string inputPending_;
  Stage stage_ = Stage::Running;
  Clock::time_point stageSince_ = Clock::now();
  std::optional<Clock::time_point> deadline_;
  int status_ = 0;          // the first failure's
  int forwarded_ = 0;       // the last signal that a user asked us to pass on to end the ranks
  int reported_ = 0;        // failures told on stderr
  std::string told_;        // how the first of these ended
  std::vector<int> alike_;  // ranks that ended the same way, told of when all is over
};

}  // namespace tutti::run

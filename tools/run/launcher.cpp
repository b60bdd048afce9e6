#include "tools/run/launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tools/run/cores.hpp"

namespace tutti::run {
namespace {

constexpr int kHandled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};
constexpr int kMostReports = 8;

bool colourful(int fd) { return isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr; }

std::chrono::steady_clock::duration seconds(double s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(s));
}

void closeFd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

}  // namespace

Launcher::Launcher(const Job& job)
    : job_(job),
      same_(job.nRanks),
      out_(STDOUT_FILENO, job.tag.value_or(isatty(STDOUT_FILENO) == 1), colourful(STDOUT_FILENO)),
      err_(STDERR_FILENO, job.tag.value_or(isatty(STDOUT_FILENO) == 1), colourful(STDERR_FILENO),
           job.everyError ? nullptr : &same_) {
  sigset_t handled;
  sigemptyset(&handled);
  for (int s : kHandled) sigaddset(&handled, s);
  sigprocmask(SIG_BLOCK, &handled, &oldMask_);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTTOU, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a rank leaves behind becomes our child
  guardian_ = std::make_unique<Guardian>();
  signalFd_ = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
}

Launcher::~Launcher() {
  for (Rank& r : ranks_) {
    closeFd(&r.out);
    closeFd(&r.err);
  }
  closeFd(&inputPipe_);
  closeFd(&signalFd_);
}

bool Launcher::running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.pid > 0; });
}

std::vector<std::string> Launcher::variables(int rank, const std::string& meetingPlace) const {
  const std::string r = std::to_string(rank), n = std::to_string(job_.nRanks);
  std::vector<std::string> list = {"TUTTI_UNIQUE_ID=" + meetingPlace,
                                   "TUTTI_RANK=" + r,
                                   "TUTTI_NRANKS=" + n,
                                   "TUTTI_LOCAL_RANK=" + r,
                                   "RANK=" + r,
                                   "WORLD_SIZE=" + n,
                                   "LOCAL_RANK=" + r,
                                   "LOCAL_WORLD_SIZE=" + n,
                                   std::string("TUTTI_TERMINAL=") + (isatty(STDERR_FILENO) == 1 ? "1" : "0")};
  list.insert(list.end(), job_.environment.begin(), job_.environment.end());
  return list;
}

// Rank 0 reads our input, the others nothing.  A terminal is read by us, because rank 0 is not in its foreground group.
int Launcher::openInput(int rank) {
  if (rank != 0) return open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (isatty(STDIN_FILENO) != 1) return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return -1;
  inputPipe_ = fds[1];
  fcntl(inputPipe_, F_SETFL, O_NONBLOCK);
  return fds[0];
}

bool Launcher::startAll(const std::string& meetingPlace) {
  const auto places = placeRanks(allowedCores(), job_.nRanks, job_.bind);
  ranks_.resize(static_cast<size_t>(job_.nRanks));
  for (int rank = 0; rank < job_.nRanks; ++rank) {
    Rank& r = ranks_[static_cast<size_t>(rank)];
    int input = openInput(rank);
    const std::vector<int> cpus = places.empty() ? std::vector<int>() : places[static_cast<size_t>(rank)];
    const Spawned child = spawn(job_.command, variables(rank, meetingPlace), input, cpus, oldMask_);
    closeFd(&input);
    if (child.startError != 0) {
      std::fprintf(stderr, "tutti-run: cannot start %s: %s\n", job_.command[0].c_str(),
                   std::strerror(child.startError));
      return false;
    }
    r.pid = child.pid;
    r.out = child.out;
    r.err = child.err;
    guardian_->watch(child.pid);
  }
  return true;
}

int Launcher::run(const std::string& meetingPlace, OnEnd onEnd) {
  onEnd_ = std::move(onEnd);
  if (job_.timeoutS > 0) deadline_ = Clock::now() + seconds(job_.timeoutS);
  if (!startAll(meetingPlace)) {
    status_ = 127;
    enter(Stage::Killed);
  }
  while (running()) loopOnce();
  drain();
  killStrays();
  if (!alike_.empty()) {
    std::sort(alike_.begin(), alike_.end());
    std::fprintf(stderr, "tutti-run: rank%s %s %s, too\n", alike_.size() == 1 ? "" : "s", listedRanks(alike_).c_str(),
                 told_.c_str());
  }
  return status_;
}

std::vector<pollfd> Launcher::watched() const {
  std::vector<pollfd> list = {{signalFd_, POLLIN, 0}};
  if (out_.wantsToWrite()) list.push_back({out_.fd(), POLLOUT, 0});
  if (err_.wantsToWrite()) list.push_back({err_.fd(), POLLOUT, 0});
  for (const Rank& r : ranks_) {
    if (r.out >= 0 && !out_.full()) list.push_back({r.out, POLLIN, 0});
    if (r.err >= 0 && !err_.full()) list.push_back({r.err, POLLIN, 0});
  }
  if (inputPipe_ >= 0 && !inputPending_.empty()) list.push_back({inputPipe_, POLLOUT, 0});
  const bool foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();  // else reading would stop us
  if (inputPipe_ >= 0 && inputPending_.empty() && foreground) list.push_back({STDIN_FILENO, POLLIN, 0});
  return list;
}

// Milliseconds until the next deadline, -1 if there is none.
int Launcher::pollMs() const {
  std::optional<Clock::time_point> next = deadline_;
  if (stage_ == Stage::Grace || stage_ == Stage::Terminated) next = stageSince_ + seconds(job_.graceS);
  if (const auto due = same_.due(); due && (!next || *due < *next)) next = due;
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

void Launcher::loopOnce() {
  std::vector<pollfd> list = watched();
  if (poll(list.data(), list.size(), pollMs()) < 0 && errno != EINTR) return;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    if (!out_.full()) readOutput(&r.out, &r.outLine, static_cast<int>(i), &out_);
    if (!err_.full()) readOutput(&r.err, &r.errLine, static_cast<int>(i), &err_);
  }
  err_.say(same_.summaries(Clock::now(), false));
  out_.flush();
  err_.flush();
  relayInput();
  takeSignals();
  checkDeadlines();
}

void Launcher::readOutput(int* fd, Line* line, int rank, Sink* sink) {
  char buffer[16384];
  for (int rounds = 0; *fd >= 0 && rounds < 4; ++rounds) {  // leave time for the others
    const ssize_t n = read(*fd, buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      line->end(rank, sink);
      return closeFd(fd);
    }
    line->take({buffer, static_cast<size_t>(n)}, rank, sink);
  }
}

void Launcher::relayInput() {
  if (inputPipe_ < 0) return;
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  if (inputPending_.empty() && tcgetpgrp(STDIN_FILENO) == getpgrp() && poll(&ready, 1, 0) == 1) {
    char buffer[4096];
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n <= 0) return closeFd(&inputPipe_);
    inputPending_.assign(buffer, static_cast<size_t>(n));
  }
  if (inputPending_.empty()) return;
  const ssize_t n = write(inputPipe_, inputPending_.data(), inputPending_.size());
  if (n > 0) inputPending_.erase(0, static_cast<size_t>(n));
  if (n < 0 && errno != EAGAIN && errno != EINTR) closeFd(&inputPipe_);
}

void Launcher::takeSignals() {
  signalfd_siginfo info;
  while (read(signalFd_, &info, sizeof info) == sizeof info) takeSignal(static_cast<int>(info.ssi_signo));
}

void Launcher::takeSignal(int signal) {
  switch (signal) {
    case SIGCHLD: return reap();
    case SIGUSR1:
    case SIGUSR2: return signalAll(signal, false);
    case SIGCONT: return signalAll(SIGCONT, true);
    case SIGTSTP:
      signalAll(SIGTSTP, true);
      raise(SIGSTOP);
      return;
    default: break;
  }
  if (forwarded_ != 0) return enter(Stage::Killed);  // asked a second time
  forwarded_ = signal;
  signalAll(signal, true);
}

void Launcher::signalAll(int signal, bool wholeGroups) {
  for (const Rank& r : ranks_) {
    if (r.pid > 0) kill(wholeGroups ? -r.pid : r.pid, signal);
  }
}

// Ranks, and strays that became our children.
void Launcher::reap() {
  for (siginfo_t how{}; waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid != 0; how = {}) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pid == how.si_pid; });
    if (rank != ranks_.end()) {
      // While the leader is not reaped its group's number cannot be given to anybody else.
      kill(-how.si_pid, SIGKILL);
      guardian_->forget(how.si_pid);
      rank->pid = -1;
    }
    waitpid(how.si_pid, nullptr, 0);
    if (rank != ranks_.end()) rankEnded(static_cast<int>(rank - ranks_.begin()), how);
  }
}

void Launcher::rankEnded(int rank, const siginfo_t& how) {
  const bool killed = how.si_code != CLD_EXITED;
  const int status = killed ? 128 + how.si_status : how.si_status;
  const std::string text =
      killed ? "was killed by signal " + std::to_string(how.si_status) + " (" + strsignal(how.si_status) + ")"
             : "ended with status " + std::to_string(how.si_status);
  onEnd_(rank, text);
  if (status == 0) return;
  const bool ourDoing = stage_ == Stage::Terminated || stage_ == Stage::Killed;
  const bool asked = killed && how.si_status == forwarded_;
  if (!ourDoing && !asked) tellEnd(rank, how.si_pid, text);
  fail(status);
}

// The first of many that end alike is told at once, the others when all is over.
void Launcher::tellEnd(int rank, pid_t pid, const std::string& how) {
  if (how == told_) return alike_.push_back(rank);
  if (++reported_ > kMostReports) return;
  if (told_.empty()) told_ = how;
  std::fprintf(stderr, "tutti-run: rank %d (pid %d) %s\n", rank, pid, how.c_str());
}

void Launcher::fail(int status) {
  if (status_ == 0) status_ = status;
  if (stage_ == Stage::Running) enter(Stage::Grace);
}

void Launcher::enter(Stage stage) {
  stage_ = stage;
  stageSince_ = Clock::now();
  if (stage == Stage::Terminated) {
    signalAll(SIGTERM, true);
    signalAll(SIGCONT, true);  // a stopped rank must wake to end
  }
  if (stage == Stage::Killed) signalAll(SIGKILL, true);
}

void Launcher::checkDeadlines() {
  const Clock::time_point now = Clock::now();
  if (deadline_ && now >= *deadline_) {
    deadline_.reset();
    std::fprintf(stderr, "tutti-run: not done after %g s\n", job_.timeoutS);
    if (status_ == 0) status_ = 124;
    if (stage_ == Stage::Running || stage_ == Stage::Grace) enter(Stage::Terminated);
  }
  if (now < stageSince_ + seconds(job_.graceS)) return;
  if (stage_ == Stage::Grace) {
    if (running()) std::fprintf(stderr, "tutti-run: ending the other ranks\n");
    enter(Stage::Terminated);
  } else if (stage_ == Stage::Terminated) {
    enter(Stage::Killed);
  }
}

// All ranks are over, and what held their pipes was killed: what is in them is all there will be.
void Launcher::drain() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& r = ranks_[i];
    for (bool out : {true, false}) {
      int* fd = out ? &r.out : &r.err;
      Line* line = out ? &r.outLine : &r.errLine;
      Sink* sink = out ? &out_ : &err_;
      for (pollfd ready{*fd, POLLIN, 0}; *fd >= 0 && poll(&ready, 1, 0) == 1;) {
        readOutput(fd, line, static_cast<int>(i), sink);
      }
      line->end(static_cast<int>(i), sink);
    }
  }
  err_.say(same_.summaries(Clock::now(), true));
  while (out_.wantsToWrite() || err_.wantsToWrite()) {
    pollfd list[] = {{out_.wantsToWrite() ? out_.fd() : -1, POLLOUT, 0},
                     {err_.wantsToWrite() ? err_.fd() : -1, POLLOUT, 0},
                     {signalFd_, POLLIN, 0}};
    if (poll(list, 3, -1) < 0 && errno != EINTR) return;
    signalfd_siginfo info;
    if (read(signalFd_, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD) return;  // stop waiting
    out_.flush();
    err_.flush();
  }
}

// Processes that left their rank's group and lost their parent.
void Launcher::killStrays() const {
  const std::string path = "/proc/self/task/" + std::to_string(getpid()) + "/children";
  for (bool found = true; found;) {
    found = false;
    std::ifstream children(path);
    for (pid_t pid; children >> pid;) {
      if (pid == guardian_->pid()) continue;
      found = true;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
}

}  // namespace tutti::run

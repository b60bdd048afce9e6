#include "tools/run/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

namespace tutti::run {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& t : texts) list.push_back(t.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> mergedEnvironment(const std::vector<std::string>& variables) {
  std::map<std::string, std::string> merged;
  const auto add = [&](const std::string& entry) { merged[entry.substr(0, entry.find('='))] = entry; };
  for (char** entry = environ; *entry != nullptr; ++entry) add(*entry);
  for (const std::string& v : variables) add(v);
  std::vector<std::string> list;
  for (const auto& [name, entry] : merged) list.push_back(entry);
  return list;
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return;
    read = fds[0];
    write = fds[1];
  }
};

struct Start {  // all that the child needs, made before the fork: threads may hold the allocator's lock
  char* const* argv;
  char* const* envp;
  int stdinFd, outFd, errFd, failureFd;
  const cpu_set_t* cpus;
  const sigset_t* mask;
  pid_t parent;
};

// In the child, after fork: only async-signal-safe calls.
[[noreturn]] void runChild(const Start& s) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != s.parent) _exit(127);  // tutti-run was killed before the line above
  setpgid(0, 0);
  for (int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGTTIN, SIGTTOU}) ::signal(signal, SIG_DFL);
  if (s.cpus != nullptr) sched_setaffinity(0, sizeof *s.cpus, s.cpus);
  sigprocmask(SIG_SETMASK, s.mask, nullptr);
  if (dup2(s.stdinFd, 0) >= 0 && dup2(s.outFd, 1) >= 0 && dup2(s.errFd, 2) >= 0) execvpe(s.argv[0], s.argv, s.envp);
  const int error = errno;
  if (write(s.failureFd, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

}  // namespace

Spawned spawn(const std::vector<std::string>& command, const std::vector<std::string>& variables, int stdinFd,
              const std::vector<int>& cpus, const sigset_t& mask) {
  std::vector<std::string> arguments = command, environment = mergedEnvironment(variables);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  const Pipe out, err, failure;
  Spawned child;
  const auto closeAll = [](std::initializer_list<int> fds) {
    for (int fd : fds) {
      if (fd >= 0) close(fd);
    }
  };
  if (failure.write < 0 || err.write < 0 || out.write < 0) {
    child.startError = errno;
    closeAll({out.read, out.write, err.read, err.write, failure.read, failure.write});
    return child;
  }
  const Start start{
      argv.data(), envp.data(), stdinFd, out.write, err.write, failure.write, cpus.empty() ? nullptr : &set,
      &mask,       getpid()};
  const pid_t pid = fork();
  if (pid == 0) runChild(start);
  if (pid < 0) child.startError = errno;
  if (pid > 0) setpgid(pid, pid);  // here and in the child: whoever comes first
  closeAll({out.write, err.write, failure.write});
  // The pipe closes without a word when the program has been started.
  if (pid > 0 && read(failure.read, &child.startError, sizeof child.startError) > 0) waitpid(pid, nullptr, 0);
  close(failure.read);
  if (child.startError != 0) {
    closeAll({out.read, err.read});
    return child;
  }
  child.pid = pid;
  child.out = out.read;
  child.err = err.read;
  fcntl(child.out, F_SETFL, O_NONBLOCK);
  fcntl(child.err, F_SETFL, O_NONBLOCK);
  return child;
}

Guardian::Guardian() {
  const Pipe orders;
  if (orders.write < 0) return;
  pid_ = fork();
  if (pid_ != 0) {
    close(orders.read);
    pipe_ = orders.write;
    return;
  }
  close(orders.write);
  setsid();                            // no terminal's signals
  for (int fd : {0, 1, 2}) close(fd);  // and nobody waits for it to close its output
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  constexpr int kMost = 8192;
  static pid_t groups[kMost];
  int n = 0;
  for (pid_t order; read(orders.read, &order, sizeof order) == sizeof order;) {
    if (order > 0 && n < kMost) groups[n++] = order;
    for (int i = 0; order < 0 && i < n; ++i) {
      if (groups[i] == -order) groups[i] = groups[--n];
    }
  }
  for (int i = 0; i < n; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

Guardian::~Guardian() {
  if (pipe_ >= 0) close(pipe_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void Guardian::tell(pid_t group) {
  if (pipe_ >= 0 && write(pipe_, &group, sizeof group) < 0) return;  // it was killed; PR_SET_PDEATHSIG remains
}

}  // namespace tutti::run

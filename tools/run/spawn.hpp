// Starting processes so that none is left behind, whatever happens to tutti-run.
//
// Every rank leads a process group of its own and asks the kernel to be killed with its parent.  What a rank has
// started itself is reached through the group: by tutti-run when the rank ends, and by the Guardian when tutti-run is
// killed and can do nothing any more.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tutti::run {

struct Spawned {
  pid_t pid = -1;
  int out = -1, err = -1;  // read ends, not blocking
  int startError = 0;      // errno if the program could not be started (pid is then -1)
};

/// Start command[0] (looked up in PATH) with these variables over this process's environment.  stdinFd: what becomes
/// its standard input.  cpus: where it may run; empty: everywhere.  Signals of the child are as they were before
/// tutti-run blocked them (`mask`).  Close-on-exec is set on all that tutti-run has open.
Spawned spawn(const std::vector<std::string>& command, const std::vector<std::string>& variables, int stdinFd,
              const std::vector<int>& cpus, const sigset_t& mask);

/// A process that outlives tutti-run for the moment it takes to kill the ranks' groups.
class Guardian {
 public:
  /// Forks; call before there are threads.
  Guardian();
  ~Guardian();  // lets it go
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  pid_t pid() const { return pid_; }
  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);
  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace tutti::run

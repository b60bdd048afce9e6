// Tries what processes of one host need to share memory.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/fd.hpp"
#include "src/base/text.hpp"
#include "src/device/host/shared_memory.hpp"
#include "src/topology/sysfs.hpp"
#include "tools/doctor/checks.hpp"

namespace tutti::doctor {
namespace {

constexpr uint64_t kWord = 0x7475747469;
constexpr rlim_t kFewFiles = 4096;

Finding files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < kFewFiles) {
    return {Verdict::Slow, "open files", cat("at most ", limit.rlim_max, " a process: too few for jobs of many ranks"),
            "raise the hard limit: \"* hard nofile 1048576\" in /etc/security/limits.conf, LimitNOFILE= of the service "
            "that starts ranks (slurmd, docker: --ulimit nofile)"};
  }
  return {Verdict::Fine, "open files", limit.rlim_max == RLIM_INFINITY ? "no limit" : cat("at most ", limit.rlim_max),
          ""};
}

Finding sharedMemory() {
  constexpr size_t kBytes = 4 << 20;
  const Result<Fd> fd = createSharedMemory(kBytes);
  if (!fd.ok()) {
    return {Verdict::Broken, "shared memory", fd.status().message(),
            "allow memfd_create (a seccomp profile forbids it); meanwhile TUTTI_TRANSPORTS=tcp"};
  }
  const Result<Mapping> mapped = Mapping::of(fd->get(), kBytes);
  if (!mapped.ok() || !populate(mapped->data(), kBytes)) {
    return {Verdict::Broken, "shared memory",
            mapped.ok() ? "there is no memory for 4 MiB of it" : mapped.status().message(),
            "raise the memory limit of the container"};
  }
  return {Verdict::Fine, "shared memory", "memfd works; the size of /dev/shm does not matter", ""};
}

/// 0, or the errno of reading *word in process `from`.  In a process of its own, as ranks are no children of each
/// other.
int readAsSibling(pid_t from, const uint64_t* word) {
  const pid_t reader = ::fork();
  if (reader == 0) {
    uint64_t seen = 0;
    const iovec local{&seen, sizeof seen}, remote{const_cast<uint64_t*>(word), sizeof *word};
    const bool read = ::process_vm_readv(from, &local, 1, &remote, 1, 0) == sizeof seen;
    ::_exit(read && seen == kWord ? 0 : read || errno == 0 ? EIO : errno);
  }
  int status = 0;
  while (reader > 0 && ::waitpid(reader, &status, 0) < 0 && errno == EINTR) {
  }
  return reader > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

/// The same for a process that lives while it is asked.
int readBetweenProcesses() {
  static uint64_t word;
  word = kWord;
  int ends[2];
  if (::pipe(ends) != 0) return errno;
  Fd hear(ends[0]), say(ends[1]);
  const pid_t owner = ::fork();
  if (owner < 0) return errno;
  if (owner == 0) {
    say.reset();
    char end;
    (void)!::read(hear.get(), &end, 1);
    ::_exit(0);
  }
  hear.reset();
  const int why = readAsSibling(owner, &word);
  say.reset();
  while (::waitpid(owner, nullptr, 0) < 0 && errno == EINTR) {
  }
  return why;
}

Finding readByOthers() {
  const int why = readBetweenProcesses();
  if (why == 0) return {Verdict::Fine, "reading each other's memory", "process_vm_readv works", ""};
  const std::string scope = topology::sysfs::line("/proc/sys/kernel/yama/ptrace_scope");
  const bool yama = why == EPERM && !scope.empty() && scope != "0";
  return {Verdict::Slow, "reading each other's memory",
          cat("process_vm_readv: ", std::strerror(why), yama ? cat(" (kernel.yama.ptrace_scope is ", scope, ")") : "",
              ": large messages from memory that is not tuttiMemAlloc's are copied twice"),
          cat(yama ? "as root: sysctl kernel.yama.ptrace_scope=0"
                   : "give the container CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)",
              "; or use tuttiMemAlloc, which does without")};
}

Finding processDescriptors() {
#ifdef SYS_pidfd_open
  const Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (fd) return {Verdict::Fine, "deaths of ranks", "are heard of at once (pidfd_open)", ""};
#endif
  return {Verdict::Note, "deaths of ranks", "pidfd_open is not there: they are heard of by the connections they leave",
          ""};
}

}  // namespace

Findings checkSharing() { return {files(), sharedMemory(), readByOthers(), processDescriptors()}; }

}  // namespace tutti::doctor

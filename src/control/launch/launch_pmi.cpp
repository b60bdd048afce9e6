// mpiexec of MPICH and Intel MPI, and everything else that speaks PMI-1: lines of text, over a descriptor that the
// launcher leaves open (PMI_FD) or to a port of it (PMI_PORT).  Rank 0 makes a unique id and publishes it.
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "src/base/fd.hpp"
#include "src/control/launch/launch.hpp"
#include "src/control/session/address.hpp"

namespace tutti::launch {
namespace {

constexpr int64_t kFinalizeMs = 5000;
constexpr size_t kMostLineBytes = 1 << 16;

/// The value behind " name=" in a line; empty if it is not there.
std::string field(const std::string& line, const std::string& name) {
  const size_t at = cat(" ", line).find(cat(" ", name, "="));
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 1;
  return line.substr(begin, line.find(' ', begin) - begin);
}

/// Whether this process is a rank of MPI's, too, whose library has the same connection and says `finalize` itself.
bool mpiRuns() {
  int initialized = 0;
  if (void* ask = dlsym(RTLD_DEFAULT, "MPI_Initialized")) reinterpret_cast<int (*)(int*)>(ask)(&initialized);
  return initialized != 0;
}

/// The connection with the launcher.  One of a process: who says `init` has to say `finalize` once, before it ends.
class Launcher {
 public:
  ~Launcher() {
    if (!begun_ || fd_ < 0 || owner_ != getpid()) return;
    if (mpiRuns()) return;
    static_cast<void>(ask("finalize", "finalize_ack", Deadline::inMs(kFinalizeMs)));
  }

  Status open(Deadline deadline) {
    if (begun_) return {};
    TUTTI_TRY(text("PMI_FD").empty() ? connect(deadline) : takeDescriptor());
    TUTTI_TRY(ask("init pmi_version=1 pmi_subversion=1", "response_to_init", deadline).status());
    begun_ = true;
    owner_ = getpid();
    TUTTI_ASSIGN(const std::string names, ask("get_my_kvsname", "my_kvsname", deadline));
    store_ = field(names, "kvsname");
    return {};
  }
  Place place() const { return place_; }

  Status publish(const std::string& key, const std::string& value, Deadline deadline) {
    return ask(cat("put kvsname=", store_, " key=", key, " value=", value), "put_result", deadline).status();
  }
  /// Wait until all ranks have published.
  Status barrier(Deadline deadline) { return ask("barrier_in", "barrier_out", deadline).status(); }
  Result<std::string> fetch(const std::string& key, Deadline deadline) {
    TUTTI_ASSIGN(const std::string line, ask(cat("get kvsname=", store_, " key=", key), "get_result", deadline));
    return field(line, "value");
  }

 private:
  Status takeDescriptor() {
    TUTTI_ASSIGN(place_, launch::place("pmi", "PMI_RANK", "PMI_SIZE"));
    TUTTI_ASSIGN(const int64_t fd, number("PMI_FD", 0, 1 << 20));
    int type = 0;
    socklen_t bytes = sizeof type;
    if (getsockopt(static_cast<int>(fd), SOL_SOCKET, SO_TYPE, &type, &bytes) != 0)
      return invalidUsage(ErrorCode::LauncherVariables, "PMI_FD=", fd, " is no connection with the launcher (",
                          std::strerror(errno),
                          "): what starts the program under mpiexec has to leave that descriptor open");
    fd_ = static_cast<int>(fd);
    return {};
  }

  Status connect(Deadline deadline) {
    const std::string where = text("PMI_PORT");
    const size_t colon = where.rfind(':');
    int port = 0;
    for (const char c : where.substr(colon == std::string::npos ? where.size() : colon + 1))
      port = c >= '0' && c <= '9' && port < 65536 ? port * 10 + c - '0' : 65536;
    if (port < 1 || port > 65535)
      return invalidUsage(ErrorCode::LauncherVariables, "PMI_PORT='", where, "' is not host:port");
    TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, resolveHost(where.substr(0, colon), port));
    const int left = deadline.leftMs(1 << 30);
    const timeval limit{left / 1000, left % 1000 * 1000};
    int error = 0;
    for (const SocketAddress& to : addresses) {
      own_ = Fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      setsockopt(own_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      fd_ = own_.get();
      if (::connect(fd_, to.raw(), to.bytes) == 0) return introduce(deadline);
      error = errno;
    }
    fd_ = -1;
    return errnoError(ErrorCode::LauncherBroken, error, cat("pmi: cannot connect to the launcher at PMI_PORT=", where));
  }

  /// Rank and size come over the connection.
  Status introduce(Deadline deadline) {
    TUTTI_TRY(ask(cat("initack pmiid=", text("PMI_ID")), "initack", deadline).status());
    for (int* value : {&place_.nRanks, &place_.rank}) {
      TUTTI_ASSIGN(const std::string line, readLine("set", deadline));
      *value = std::atoi(field(line, value == &place_.rank ? "rank" : "size").c_str());
    }
    if (place_.rank < 0 || place_.rank >= place_.nRanks)
      return systemError(ErrorCode::LauncherBroken, "pmi: the launcher says rank ", place_.rank, " of ", place_.nRanks);
    return readLine("set", deadline).status();  // debug
  }

  /// Send a command; the answer's line.  The connection ends where they no longer understand each other.
  Result<std::string> ask(const std::string& command, const char* expected, Deadline deadline) {
    const std::string line = cat("cmd=", command, "\n");
    if (fd_ < 0) return systemError(ErrorCode::LauncherBroken, "pmi: the connection with the launcher was lost before");
    if (::send(fd_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
      return lost(
          errnoError(ErrorCode::LauncherBroken, errno, cat("pmi: cannot send '", command, "' to the launcher")));
    return readLine(expected, deadline);
  }

  Result<std::string> readLine(const char* expected, Deadline deadline) {
    size_t end = 0;
    while ((end = unread_.find('\n')) == std::string::npos) {
      pollfd ready{fd_, POLLIN, 0};
      char some[1024];
      constexpr int kLookMs = 1000;
      if (::poll(&ready, 1, deadline.leftMs(kLookMs)) == 0) {
        if (!deadline.passed()) continue;
        return lost(timeoutError(ErrorCode::LauncherSilent, "pmi: '", expected,
                                 "' has not come from the launcher before the deadline",
                                 std::strcmp(expected, "barrier_out") == 0 ? "; have all ranks been started?" : ""));
      }
      const ssize_t n = ::recv(fd_, some, sizeof some, MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0) return lost(errnoError(ErrorCode::LauncherBroken, errno, "pmi: cannot hear the launcher"));
      if (n == 0)
        return lost(
            systemError(ErrorCode::LauncherBroken, "pmi: the launcher has ended while '", expected, "' was awaited"));
      unread_.append(some, static_cast<size_t>(n));
      if (unread_.size() > kMostLineBytes)
        return lost(systemError(ErrorCode::LauncherBroken, "pmi: the launcher sends no lines"));
    }
    std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    const std::string code = field(line, "rc");
    if (field(line, "cmd") != expected || (!code.empty() && code != "0"))
      return lost(systemError(ErrorCode::LauncherBroken, "pmi: the launcher says '", line.substr(0, 200), "' where '",
                              expected, "' was awaited"));
    return line;
  }

  Status lost(Status why) {
    fd_ = -1;
    own_.reset();
    unread_.clear();
    return why;
  }

  int fd_ = -1;  // PMI_FD, which others close, or own_'s
  Fd own_;
  bool begun_ = false;
  pid_t owner_ = 0;
  Place place_;
  std::string store_;   // the job's names and values
  std::string unread_;  // what has come behind the last line
};

}  // namespace

Found pmi(Deadline deadline) {
  if (text("PMI_FD").empty() && text("PMI_PORT").empty()) return std::optional<LaunchInfo>();
  LaunchInfo info{"pmi", 0, 1, {}};
  if (text("PMI_SIZE") == "1") return std::optional(info);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static Launcher launcher;
  TUTTI_TRY(launcher.open(deadline));
  info.rank = launcher.place().rank;
  info.nRanks = launcher.place().nRanks;
  if (info.nRanks == 1) return std::optional(info);
  const std::string key = cat("tutti.id.", generation());
  if (info.rank == 0) {
    TUTTI_ASSIGN(info.id, openRendezvousPlace(allRanksHere(info.nRanks) ? Reach::Host : Reach::Network));
    TUTTI_TRY(launcher.publish(key, toHex(&info.id, sizeof info.id), deadline));
  }
  TUTTI_TRY(launcher.barrier(deadline));
  if (info.rank != 0) {
    TUTTI_ASSIGN(const std::string hex, launcher.fetch(key, deadline));
    TUTTI_ASSIGN(info.id, publishedId("pmi", hex));
  }
  return std::optional(info);
}

}  // namespace tutti::launch

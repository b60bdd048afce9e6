#include "src/comm/monitor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/caught.hpp"
#include "src/base/folder.hpp"
#include "src/base/log.hpp"
#include "src/base/text.hpp"
#include "src/base/threads.hpp"
#include "src/comm/comm.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/session/fork_guard.hpp"
#include "src/recorder/record_paths.hpp"

namespace tutti {
namespace {

constexpr int kAnswerMs = 100;  // how long ranks have to answer
constexpr int kSendMs = 1000;   // how long who asks has to read
constexpr int kBacklog = 8;

/// A folder that only this user can write.  Errors: SystemError.
Status makeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return systemError(ErrorCode::MonitorNotServed, "cannot make ", folder, ": ", std::strerror(errno));
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0)
    return systemError(ErrorCode::MonitorNotServed, "cannot see ", folder, ": ", std::strerror(errno));
  const bool own = S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0;
  return own ? Status() : systemError(ErrorCode::MonitorNotServed, folder, " is not a folder of this user's alone");
}

/// Sockets of processes that were killed.
void sweep(const std::string& folder) {
  constexpr std::string_view kEnd = ".sock";
  const auto names = namesIn(folder);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (!name.ends_with(kEnd)) continue;
    int64_t pid = 0;
    const bool named = parseNumber(name.substr(0, name.size() - kEnd.size()), &pid) && pid > 0;
    if (named && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) (void)unlink(cat(folder, "/", name).c_str());
  }
}

Result<Fd> listenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return systemError(ErrorCode::MonitorNotServed, path, " is too long for a socket's name");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return systemError(ErrorCode::MonitorNotServed, "no socket: ", std::strerror(errno));
  (void)unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), kBacklog) != 0)
    return systemError(ErrorCode::MonitorNotServed, "cannot listen at ", path, ": ", std::strerror(errno));
  return fd;
}

bool mayAsk(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

void sendAll(int fd, const std::string& text) {
  const timeval patience{kSendMs / 1000, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string rankText(int rank, const PeerInfo& info, int64_t silentMs, const std::optional<RankReport>& report) {
  const std::string head = cat("{\"rank\":", rank, ",\"pid\":", info.pid, ",\"silentMs\":", silentMs);
  if (!report) return head + ",\"answered\":false}";
  const RankState& state = report->state;
  return cat(head, ",\"answered\":true,\"left\":", report->left ? "true" : "false", ",\"calls\":", state.calls,
             ",\"bytes\":", state.bytes, ",\"collectives\":", state.entered, ",\"doing\":", quoted(state.doing),
             ",\"doingNs\":", state.doingNs, ",\"waitingOn\":", state.waitingOn, "}");
}

}  // namespace

std::string monitorFolder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool usable = runtime != nullptr && runtime[0] == '/';
  return usable ? cat(runtime, "/tutti") : cat("/tmp/tutti-", geteuid());
}

std::string monitorText(Comm& comm) {
  Control& control = comm.control();
  const uint64_t newest = comm.watchdog().recorder().place().entered;
  const auto asked = control.beginInquiry(InquiryReason::Stalled, newest, -1, kAnswerMs);
  (void)awaitValue(*asked, Deadline::inMs(4 * kAnswerMs), "the ranks' answers");
  const std::vector<std::optional<RankReport>> answers = control.lastAnswers();
  const std::vector<int64_t> silentMs = control.silentMs();
  const FileHeader& header = comm.watchdog().recorder().header();
  std::string ranks;
  for (int rank = 0; rank < comm.nRanks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    ranks += cat(rank == 0 ? "" : ",", rankText(rank, comm.links().descriptors()[r].info, silentMs[r],
                                                r < answers.size() ? answers[r] : std::nullopt));
  }
  return cat("{\"communicator\":", header.communicator, ",\"name\":", quoted(header.name),
             ",\"nRanks\":", comm.nRanks(), ",\"failure\":", quoted(comm.failure().text()), ",\"ranks\":[", ranks,
             "]}");
}

/// Listens while somebody has a seat.
class MonitorSeat::Server {
 public:
  /// The process's; null: it cannot be, which is logged.
  static std::shared_ptr<Server> ofProcess() {
    static auto* const mutex = new std::mutex;
    static auto* const current = new std::weak_ptr<Server>;
    const std::lock_guard lock(*mutex);
    if (std::shared_ptr<Server> server = current->lock()) return server;
    auto server = std::make_shared<Server>();
    const Status status = server->open();
    if (!status.ok()) TUTTI_INFO("monitor", "tutti-top will not see this process: ", status.message());
    if (!status.ok()) return nullptr;
    *current = server;
    return server;
  }
  ~Server() {
    if (thread_.joinable()) {
      const uint64_t one = 1;
      (void)!::write(stop_.get(), &one, sizeof one);
      thread_.join();
    }
    if (listener_.valid()) (void)unlink(path_.c_str());
  }
  void add(Comm* comm) {
    const std::lock_guard lock(mutex_);
    comms_.push_back(comm);
  }
  void remove(Comm* comm) {
    const std::lock_guard lock(mutex_);
    std::erase(comms_, comm);
  }

 private:
  Status open() {
    const std::string folder = monitorFolder();
    TUTTI_TRY(makeFolder(folder));
    sweep(folder);
    path_ = cat(folder, "/", getpid(), ".sock");
    TUTTI_ASSIGN(Fd listener, listenAt(path_));
    listener_ = OwnFd(std::move(listener));
    stop_ = Fd(eventfd(0, EFD_CLOEXEC));
    if (!stop_.valid()) return systemError(ErrorCode::MonitorNotServed, "no eventfd: ", std::strerror(errno));
    TUTTI_ASSIGN(thread_, startThread("tutti-top", [this] {
                   nameOwnThread("tutti-monitor");
                   serve();
                 }));
    return {};
  }

  void serve() {
    for (;;) {
      pollfd watched[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
      if (watched[1].revents != 0) return;
      if (watched[0].revents == 0) continue;
      const Fd asking(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!asking.valid() || !mayAsk(asking.get())) continue;
      (void)caught([&]() -> Status {
        sendAll(asking.get(), answer());
        return {};
      });
    }
  }

  std::string answer() {
    std::string comms;
    const std::lock_guard lock(mutex_);
    for (Comm* const comm : comms_) comms += cat(comms.empty() ? "" : ",", monitorText(*comm));
    return cat("{\"format\":1,\"pid\":", getpid(), ",\"host\":", quoted(thisHost()), ",\"communicators\":[", comms,
               "]}\n");
  }

  std::string path_;
  OwnFd listener_;
  Fd stop_;
  std::mutex mutex_;  // guards the next; held while their ranks are asked
  std::vector<Comm*> comms_;
  std::thread thread_;
};

void MonitorSeat::Leave::operator()(Comm* comm) const { server->remove(comm); }

MonitorSeat MonitorSeat::take(Comm* comm) {
  MonitorSeat seat;
  std::shared_ptr<Server> server = Server::ofProcess();
  if (server == nullptr) return seat;
  server->add(comm);
  seat.comm_ = {comm, Leave{std::move(server)}};
  return seat;
}

}  // namespace tutti

// Two ranks come up, make calls and end, while the k-th allocation, socket, thread, ... of one of them fails: for every
// k, until they get through without meeting it.
//
//   LD_PRELOAD=libfailing_calls.so fault_points [--stride N] [--most N] [--kind NAME] [--rank 0|1] [--only K]
//   [--onwards]
//
// Every point must end in success with right results, or on each rank in an error with a sentence; soon; with nothing
// left behind.  Prints a row per kind and rank, and a line for every point that ended otherwise; exits with 1 then.
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "tests/faults/kinds.hpp"
#include "tutti/tutti.h"

using namespace tutti::test;

namespace {

constexpr int kTimeoutMs = 3000;
constexpr unsigned kHangSeconds = 20;
constexpr double kSoonMs = kTimeoutMs + 3000;

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// One rank's end, told through shared memory.
struct Ended {
  std::atomic<int> done;
  int code;
  int wrong;    // results that differ
  int leftFds;  // more than before
  int leftThreads;
  long calls;  // of the kind, while it was armed
  double ms;
  char text[240];
};

struct Page {
  std::atomic<int> idReady;  // 1, or -1
  tuttiUniqueId id;
  Ended ranks[2];
};

struct Point {
  int kind = 0;
  int rank = 0;
  long at = 0;
  bool onwards = false;
};

using Arm = void (*)(int, long, int);
using Disarm = long (*)();
Arm arm;
Disarm disarm;

int entriesIn(const char* folder) {
  int n = 0;
  DIR* dir = opendir(folder);
  if (dir == nullptr) return -1;
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

/// Buffers are made before calls may fail.
struct Buffers {
  std::vector<float> in = std::vector<float>(100'000, 1.0F), out = std::vector<float>(200'000);
};

#define POINT_TRY(call)                                                 \
  do {                                                                  \
    if (const tuttiResult_t r_ = (call); r_ != tuttiSuccess) return r_; \
  } while (0)

tuttiResult_t makeCalls(tuttiComm_t comm, int rank, Buffers& b, int* wrong) {
  for (const size_t count : {size_t{2}, size_t{2}, size_t{5000}, size_t{100'000}}) {
    POINT_TRY(tuttiAllReduce(b.in.data(), b.out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr));
    for (size_t i = 0; i < count; ++i) *wrong += b.out[i] != 2.0F;
  }
  POINT_TRY(tuttiAllGather(b.in.data(), b.out.data(), 1000, tuttiFloat32, comm, nullptr));
  for (size_t i = 0; i < 2000; ++i) *wrong += b.out[i] != 1.0F;
  float word = rank == 1 ? 5.0F : 0.0F, got = 0.0F;
  POINT_TRY(tuttiBroadcast(&word, &word, 1, tuttiFloat32, 1, comm, nullptr));
  POINT_TRY(tuttiGroupStart());
  (void)tuttiSend(&word, 1, tuttiFloat32, 1 - rank, comm, nullptr);
  (void)tuttiRecv(&got, 1, tuttiFloat32, 1 - rank, comm, nullptr);
  POINT_TRY(tuttiGroupEnd());
  *wrong += word != 5.0F || got != 5.0F;
  tuttiComm_t half = nullptr;
  POINT_TRY(tuttiCommSplit(comm, 0, -rank, &half, nullptr));
  tuttiResult_t result = tuttiBarrier(half, nullptr);
  if (result == tuttiSuccess) return tuttiCommDestroy(half);
  (void)tuttiCommAbort(half);
  return result;
}

tuttiResult_t makeId(int rank, Page& page) {
  tuttiResult_t result = tuttiSuccess;
  if (rank == 0) {
    result = tuttiGetUniqueId(&page.id);
    page.idReady = result == tuttiSuccess ? 1 : -1;
  }
  while (page.idReady == 0) ::usleep(100);
  return result;
}

/// One rank, from the id to the end.
tuttiResult_t runRank(int rank, Page& page, Buffers& buffers, int* wrong) {
  POINT_TRY(makeId(rank, page));
  if (page.idReady < 0) return tuttiRemoteError;  // of rank 0 alone
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kTimeoutMs;
  tuttiComm_t comm = nullptr;
  tuttiResult_t result = tuttiCommInitRankConfig(&comm, 2, page.id, rank, &config);
  if (result != tuttiSuccess) return result;
  result = makeCalls(comm, rank, buffers, wrong);
  if (result == tuttiSuccess) return tuttiCommDestroy(comm);
  const std::string why = tuttiGetLastError(nullptr);
  std::snprintf(page.ranks[rank].text, sizeof page.ranks[rank].text, "%s", why.c_str());
  (void)tuttiCommAbort(comm);
  return result;
}

/// A thread that has said its last word may take a moment to be gone.
int leftOver(const char* folder, int before) {
  int more = 0;
  for (int i = 0; i < 200; ++i) {
    more = entriesIn(folder) - before;
    if (more <= 0) return 0;
    ::usleep(1000);
  }
  return more;
}

[[noreturn]] void childMain(int rank, const Point& point, Page& page) {
  ::alarm(kHangSeconds);
  Ended& ended = page.ranks[rank];
  // What threads keep for themselves: the C library ends a process that cannot have it.
  (void)tuttiGetLastError(nullptr);
  (void)tuttiGroupStart();
  (void)tuttiGroupEnd();
  Buffers buffers;
  const int fds = entriesIn("/proc/self/fd"), threads = entriesIn("/proc/self/task");
  const auto start = Clock::now();
  if (point.rank == rank) arm(point.kind, point.at, point.onwards ? 1 : 0);
  ended.code = runRank(rank, page, buffers, &ended.wrong);
  ended.ms = msSince(start);
  if (point.rank == rank) ended.calls = disarm();
  if (ended.code != tuttiSuccess && ended.text[0] == 0 && page.idReady >= 0) {
    std::snprintf(ended.text, sizeof ended.text, "%s", tuttiGetLastError(nullptr));
  }
  // A rendezvous that not all have reached, or whose links have broken, stays open for those who may yet come.
  const auto kind = static_cast<FaultKind>(point.kind);
  const bool broken = kind == FaultKind::Send || kind == FaultKind::Receive;
  if (rank != 0 || (ended.code == tuttiSuccess && !broken)) {
    ended.leftThreads = leftOver("/proc/self/task", threads);
    ended.leftFds = leftOver("/proc/self/fd", fds);
  }
  ended.done = 1;
  ::_exit(0);
}

struct Row {
  long points = 0, succeeded = 0, refused = 0, bad = 0;
  double slowestMs = 0;
};

/// "" or what is wrong with how a rank ended.
std::string complaint(const Ended& ended, int status, bool idMade) {
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "hangs" : std::string("is ended by signal ") + strsignal(WTERMSIG(status));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || ended.done != 1) return "ends the process";
  if (ended.wrong != 0) return "has wrong results";
  if (ended.code != tuttiSuccess && ended.text[0] == 0 && idMade) return "gives an error without a sentence";
  if (ended.ms > kSoonMs) return "takes " + std::to_string(static_cast<int>(ended.ms)) + " ms";
  if (ended.leftFds > 0) return "leaves " + std::to_string(ended.leftFds) + " descriptors";
  if (ended.leftThreads > 0) return "leaves " + std::to_string(ended.leftThreads) + " threads";
  return "";
}

/// Whether the point was met.
bool runPoint(const Point& point, Page& page, Row* row, bool tell) {
  page.~Page();
  std::memset(static_cast<void*>(&page), 0, sizeof page);
  new (&page) Page{};
  pid_t children[2];
  std::fflush(nullptr);
  for (int rank = 0; rank < 2; ++rank) {
    children[rank] = ::fork();
    if (children[rank] == 0) childMain(rank, point, page);
  }
  int statuses[2] = {-1, -1};
  for (int rank = 0; rank < 2; ++rank) {
    while (::waitpid(children[rank], &statuses[rank], 0) < 0 && errno == EINTR) {
    }
    if (rank == 0 && page.idReady == 0) page.idReady = -1;  // it ended before
  }
  const Ended& armed = page.ranks[point.rank];
  const bool met = armed.done != 1 || armed.calls >= point.at;
  if (!met) return false;
  ++row->points;
  const bool succeeded = page.ranks[0].code == tuttiSuccess && page.ranks[1].code == tuttiSuccess;
  ++(succeeded ? row->succeeded : row->refused);
  bool bad = false;
  for (int rank = 0; rank < 2; ++rank) {
    const Ended& ended = page.ranks[rank];
    row->slowestMs = std::max(row->slowestMs, ended.ms);
    const std::string why = complaint(ended, statuses[rank], page.idReady == 1);
    bad = bad || !why.empty();
    if (!why.empty() || tell) {
      std::printf("%s %ld of rank %d: rank %d %s (%d, %.0f ms: %s)\n", kFaultNames[static_cast<size_t>(point.kind)],
                  point.at, point.rank, rank, why.empty() ? "is well" : why.c_str(), ended.code, ended.ms, ended.text);
    }
  }
  row->bad += bad;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  long stride = 1, most = 1'000'000, only = 0;
  int onlyRank = -1;
  bool onwards = false, tell = false;
  std::string kind;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--onwards") {
      onwards = true;
      continue;
    }
    if (flag == "--stride")
      stride = std::max(1L, std::atol(value));
    else if (flag == "--most")
      most = std::atol(value);
    else if (flag == "--only")
      only = std::atol(value);
    else if (flag == "--rank")
      onlyRank = std::atoi(value);
    else if (flag == "--kind")
      kind = value;
    else
      return std::fprintf(stderr, "what is %s? see the head of fault_points.cpp\n", argv[i]), 2;
    ++i;
  }
  arm = reinterpret_cast<Arm>(dlsym(RTLD_DEFAULT, "tuttiFaultArm"));
  disarm = reinterpret_cast<Disarm>(dlsym(RTLD_DEFAULT, "tuttiFaultDisarm"));
  if (arm == nullptr || disarm == nullptr) return std::fprintf(stderr, "LD_PRELOAD libfailing_calls.so\n"), 2;
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Page& page = *new (memory) Page{};
  tell = only > 0;
  const char* transports = std::getenv("TUTTI_TRANSPORTS");
  const int shmBefore = entriesIn("/dev/shm");
  long points = 0, bad = 0;
  std::printf("%-8s %-11s %4s %7s %9s %7s %4s %10s\n", "over", "fails", "rank", "points", "success", "errors", "bad",
              "slowest ms");
  for (size_t k = 0; k < kFaultNames.size(); ++k) {
    if (!kind.empty() && kind != kFaultNames[k]) continue;
    for (int rank = 0; rank < 2; ++rank) {
      if (onlyRank >= 0 && rank != onlyRank) continue;
      Row row;
      int missed = 0;  // how many calls there are differs from run to run
      for (long at = only > 0 ? only : 1; at <= most && missed < 2; at += stride) {
        missed = runPoint({static_cast<int>(k), rank, at, onwards}, page, &row, tell) ? 0 : missed + 1;
        if (only > 0) break;
      }
      std::printf("%-8s %-11s %4d %7ld %9ld %7ld %4ld %10.0f\n", transports != nullptr ? transports : "all",
                  kFaultNames[k], rank, row.points, row.succeeded, row.refused, row.bad, row.slowestMs);
      points += row.points;
      bad += row.bad;
    }
  }
  const int left = entriesIn("/dev/shm") - shmBefore;
  std::printf("%ld points, %ld bad, %d files left in /dev/shm\n", points, bad, std::max(left, 0));
  if (points == 0) std::printf("no point was met: nothing has been tested\n");
  return bad == 0 && left <= 0 && points > 0 ? 0 : 1;
}

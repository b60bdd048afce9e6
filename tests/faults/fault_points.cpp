// Two ranks come up, make calls and end, while the k-th allocation, socket, thread, ... of one of them fails: for every
// k, until they get through without meeting it; or the first by each way on which the program comes to one (its stack).
//
//   LD_PRELOAD=libfailing_calls.so fault_points [--calls NAME] [--stride N] [--most N] [--kind NAME] [--rank 0|1]
//   [--only K] [--onwards] [--paths] [--way W] [--threads]
//
//   --calls    what they do: a name of faultCalls(); basic
//   --paths    by ways instead of by numbers; a run without failures finds them.  --stride and --most go over these
//   --way      of those the one that was printed as W; TUTTI_TEST_FAULT_TRACE=1 prints its stack
//   --threads  both ranks in one process, for what works there alone; calls of both count
//
// Every point must end in success with right results, or on each rank in an error with a sentence; soon; with nothing
// left behind.  Prints a row per kind and rank, and a line for every point that ended otherwise; exits with 1 then.
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/fault_calls.hpp"
#include "tests/faults/kinds.hpp"
#include "tutti/parallel/base.h"

using namespace tutti::test;

namespace {

constexpr unsigned kHangSeconds = 20;
constexpr double kSoonMs = kFaultTimeoutMs + 3000;

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
  uint64_t path = 0;  // instead of at
  size_t bytes = 0;
  FaultPath* record = nullptr;  // nothing fails
};

/// What goes for all points.
struct Run {
  const FaultCalls* calls = nullptr;
  bool onwards = false;
  bool threads = false;
};

struct FailingCalls {
  void (*arm)(int, long, int) = nullptr;
  void (*armPath)(int, uint64_t, size_t) = nullptr;
  void (*record)(int, FaultPath*) = nullptr;
  long (*disarm)() = nullptr;

  template <class Function>
  static bool find(const char* name, Function* out) {
    *out = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return *out != nullptr;
  }
  bool load() {
    return find("tuttiFaultArm", &arm) && find("tuttiFaultArmPath", &armPath) && find("tuttiFaultRecord", &record) &&
           find("tuttiFaultDisarm", &disarm);
  }
  void begin(const Point& point, const Run& run) const {
    if (point.record != nullptr) return record(point.kind, point.record);
    if (point.path != 0) return armPath(point.kind, point.path, point.bytes);
    arm(point.kind, point.at, run.onwards ? 1 : 0);
  }
};
FailingCalls failing;

int entriesIn(const char* folder) {
  int n = 0;
  DIR* dir = opendir(folder);
  if (dir == nullptr) return -1;
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

#define POINT_TRY(call)                                                 \
  do {                                                                  \
    if (const tuttiResult_t r_ = (call); r_ != tuttiSuccess) return r_; \
  } while (0)

tuttiResult_t makeId(int rank, Page& page) {
  tuttiResult_t result = tuttiSuccess;
  if (rank == 0) {
    result = tuttiGetUniqueId(&page.id);
    page.idReady = result == tuttiSuccess ? 1 : -1;
  }
  while (page.idReady == 0) ::usleep(100);
  return result;
}

/// One rank, from the id to the end.  begin: has calls fail from there on.
tuttiResult_t runRank(int rank, const Run& run, Page& page, FaultBuffers& buffers, const std::function<void()>& begin) {
  if (run.calls->fromTheStart) begin();
  POINT_TRY(makeId(rank, page));
  if (page.idReady < 0) return tuttiRemoteError;  // of rank 0 alone
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kFaultTimeoutMs;
  config.device = run.calls->cuda ? TUTTI_DEVICE_CUDA : TUTTI_DEVICE_HOST;
  tuttiComm_t comm = nullptr;
  tuttiResult_t result = tuttiCommInitRankConfig(&comm, 2, page.id, rank, &config);
  if (!run.calls->fromTheStart) begin();
  if (result != tuttiSuccess) return result;
  result = run.calls->run(comm, rank, buffers, &page.ranks[rank].wrong);
  if (result == tuttiSuccess) return tuttiCommDestroy(comm);
  const std::string why = std::max({std::string(tuttiGetLastError(nullptr)), std::string(tuttiGetLastError(comm)),
                                    std::string(tuttiParallelGetLastError())});
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

/// begin: only for the rank whose calls fail.
void playRank(int rank, const Run& run, Page& page, const std::function<void()>& begin) {
  Ended& ended = page.ranks[rank];
  // What threads keep for themselves: the C library ends a process that cannot have it.
  (void)tuttiGetLastError(nullptr);
  (void)tuttiParallelGetLastError();
  (void)tuttiGroupStart();
  (void)tuttiGroupEnd();
  const std::unique_ptr<FaultBuffers> buffers = run.calls->cuda ? makeCudaBuffers() : makeHostBuffers();
  if (buffers == nullptr) return;
  const auto start = Clock::now();
  ended.code = runRank(rank, run, page, *buffers, begin);
  ended.ms = msSince(start);
  if (ended.code != tuttiSuccess && ended.text[0] == 0 && page.idReady >= 0) {
    std::snprintf(ended.text, sizeof ended.text, "%s", tuttiGetLastError(nullptr));
  }
  ended.done = 1;
}

[[noreturn]] void processMain(int rank, const Run& run, const Point& point, Page& page) {
  ::alarm(kHangSeconds);
  Ended& ended = page.ranks[rank];
  const int fds = entriesIn("/proc/self/fd"), threads = entriesIn("/proc/self/task");
  const auto begin = [&] {
    if (rank == point.rank) failing.begin(point, run);
  };
  if (run.threads) {
    std::thread other([&] { playRank(1, run, page, [] {}); });
    playRank(0, run, page, begin);
    other.join();
  } else {
    playRank(rank, run, page, begin);
  }
  if (point.rank == rank) ended.calls = failing.disarm();
  // A rendezvous that not all have reached, or whose links have broken, stays open for those who may yet come.  A
  // device's own threads and memory stay, too.
  const auto kind = static_cast<FaultKind>(point.kind);
  const bool broken = kind == FaultKind::Send || kind == FaultKind::Receive;
  const bool wellBoth = page.ranks[0].code == tuttiSuccess && page.ranks[1].code == tuttiSuccess;
  if (!run.calls->cuda && (run.threads ? wellBoth : rank != 0 || (ended.code == tuttiSuccess && !broken))) {
    ended.leftThreads = leftOver("/proc/self/task", threads);
    ended.leftFds = leftOver("/proc/self/fd", fds);
  }
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

/// Both ranks, to their ends; the status of each one's process.
std::array<int, 2> runRanks(const Run& run, const Point& point, Page& page) {
  page.~Page();
  std::memset(static_cast<void*>(&page), 0, sizeof page);
  new (&page) Page{};
  std::fflush(nullptr);
  pid_t children[2];
  const int nProcesses = run.threads ? 1 : 2;
  for (int rank = 0; rank < nProcesses; ++rank) {
    children[rank] = ::fork();
    if (children[rank] == 0) processMain(rank, run, point, page);
  }
  std::array<int, 2> statuses = {-1, -1};
  for (int rank = 0; rank < nProcesses; ++rank) {
    while (::waitpid(children[rank], &statuses[static_cast<size_t>(rank)], 0) < 0 && errno == EINTR) {
    }
    if (rank == 0 && page.idReady == 0) page.idReady = -1;  // it ended before
  }
  if (run.threads) statuses[1] = statuses[0];
  return statuses;
}

std::string nameOf(const Point& point) {
  char text[80];
  const char* const kind = kFaultNames[static_cast<size_t>(point.kind)];
  if (point.path == 0) {
    std::snprintf(text, sizeof text, "%s %ld", kind, point.at);
  } else {
    std::snprintf(text, sizeof text, "%s by way %016llx", kind, static_cast<unsigned long long>(point.path));
  }
  return text;
}

/// Whether the point was met.
bool runPoint(const Run& run, const Point& point, Page& page, Row* row, bool tell) {
  const std::array<int, 2> statuses = runRanks(run, point, page);
  const Ended& armed = page.ranks[point.rank];
  const bool met = armed.done != 1 || armed.calls >= (point.path != 0 ? 1 : point.at);
  if (!met) return false;
  ++row->points;
  const bool succeeded = page.ranks[0].code == tuttiSuccess && page.ranks[1].code == tuttiSuccess;
  ++(succeeded ? row->succeeded : row->refused);
  bool bad = false;
  for (int rank = 0; rank < 2; ++rank) {
    const Ended& ended = page.ranks[rank];
    row->slowestMs = std::max(row->slowestMs, ended.ms);
    const std::string why = complaint(ended, statuses[static_cast<size_t>(rank)], page.idReady == 1);
    bad = bad || !why.empty();
    if (why.empty() && !tell) continue;
    std::printf("%s of rank %d: rank %d %s (%d, %.0f ms: %s)\n", nameOf(point).c_str(), point.rank, rank,
                why.empty() ? "is well" : why.c_str(), ended.code, ended.ms, ended.text);
  }
  row->bad += bad;
  return true;
}

/// The ways by which this rank comes to calls of the kind, in a run in which none fails.
std::vector<Point> waysOf(const Run& run, int kind, int rank, FaultPath* paths, Page& page) {
  std::memset(static_cast<void*>(paths), 0, kMostFaultPaths * sizeof *paths);
  Point recording{.kind = kind, .rank = rank};
  recording.record = paths;
  (void)runRanks(run, recording, page);
  std::vector<Point> ways;
  for (size_t i = 0; i < kMostFaultPaths; ++i) {
    if (paths[i].stack == 0 || paths[i].foreign) continue;
    ways.push_back({.kind = kind, .rank = rank, .path = paths[i].stack, .bytes = paths[i].bytes});
  }
  return ways;
}

/// What to go over, and how to say it.
struct Options {
  long stride = 1, most = 1'000'000, only = 0;
  uint64_t onlyWay = 0;
  int onlyRank = -1;
  bool paths = false;
  std::string kind;
};

void runKind(const Run& run, const Options& o, int kind, int rank, FaultPath* paths, Page& page, Row* row) {
  if (!o.paths) {
    int missed = 0;  // how many calls there are differs from run to run
    for (long at = o.only > 0 ? o.only : 1; at <= o.most && missed < 2; at += o.stride) {
      missed = runPoint(run, {.kind = kind, .rank = rank, .at = at}, page, row, o.only > 0) ? 0 : missed + 1;
      if (o.only > 0) break;
    }
    return;
  }
  const std::vector<Point> ways = waysOf(run, kind, rank, paths, page);
  long gone = 0;
  for (size_t i = 0; i < ways.size() && gone < o.most; i += static_cast<size_t>(o.stride), ++gone) {
    if (o.onlyWay == 0 || ways[i].path == o.onlyWay) (void)runPoint(run, ways[i], page, row, o.onlyWay != 0);
  }
}

template <class T>
T* shared(size_t n) {
  void* const memory = ::mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<T*>(memory);
}

/// Stacks are to be the same numbers in every run.
void keepAddresses(char** argv) {
  const int now = ::personality(0xffffffff);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) >= 0) (void)::execv("/proc/self/exe", argv);
}

bool readOptions(int argc, char** argv, Run* run, Options* o) {
  std::string calls = "basic";
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--onwards" || flag == "--paths" || flag == "--threads") {
      (flag == "--onwards" ? run->onwards : flag == "--paths" ? o->paths : run->threads) = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    if (flag == "--stride")
      o->stride = std::max(1L, std::atol(value));
    else if (flag == "--most")
      o->most = std::atol(value);
    else if (flag == "--only")
      o->only = std::atol(value);
    else if (flag == "--way")
      o->onlyWay = std::strtoull(value, nullptr, 16);
    else if (flag == "--rank")
      o->onlyRank = std::atoi(value);
    else if (flag == "--kind")
      o->kind = value;
    else if (flag == "--calls")
      calls = value;
    else
      return std::fprintf(stderr, "what is %s? see the head of fault_points.cpp\n", flag.c_str()), false;
  }
  for (const FaultCalls& one : faultCalls()) {
    if (calls == one.name) run->calls = &one;
  }
  if (run->calls == nullptr) std::fprintf(stderr, "no calls of name %s: see fault_calls.cpp\n", calls.c_str());
  return run->calls != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Run run;
  Options o;
  if (!readOptions(argc, argv, &run, &o)) return 2;
  if (!failing.load()) return std::fprintf(stderr, "LD_PRELOAD libfailing_calls.so\n"), 2;
  if (o.paths) keepAddresses(argv);
  Page& page = *new (shared<Page>(1)) Page{};
  auto* const paths = shared<FaultPath>(kMostFaultPaths);
  const char* transports = std::getenv("TUTTI_TRANSPORTS");
  const int shmBefore = entriesIn("/dev/shm");
  long points = 0, bad = 0;
  std::printf("%-8s %-11s %-11s %4s %7s %9s %7s %4s %10s\n", "over", "calls", "fails", "rank", "points", "success",
              "errors", "bad", "slowest ms");
  for (size_t k = 0; k < kFaultNames.size(); ++k) {
    if (!o.kind.empty() && o.kind != kFaultNames[k]) continue;
    for (int rank = 0; rank < (run.threads ? 1 : 2); ++rank) {
      if (o.onlyRank >= 0 && rank != o.onlyRank) continue;
      Row row;
      runKind(run, o, static_cast<int>(k), rank, paths, page, &row);
      std::printf("%-8s %-11s %-11s %4d %7ld %9ld %7ld %4ld %10.0f\n", transports != nullptr ? transports : "all",
                  run.calls->name, kFaultNames[k], rank, row.points, row.succeeded, row.refused, row.bad,
                  row.slowestMs);
      points += row.points;
      bad += row.bad;
    }
  }
  const int left = entriesIn("/dev/shm") - shmBefore;
  std::printf("%ld points, %ld bad, %d files left in /dev/shm\n", points, bad, std::max(left, 0));
  if (points == 0) std::printf("no point was met: nothing has been tested\n");
  return bad == 0 && left <= 0 && points > 0 ? 0 : 1;
}

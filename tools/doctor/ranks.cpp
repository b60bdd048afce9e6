// A few ranks as processes of this host, over one transport after another.
//
// The ranks are forked before this process has any thread; they tell their parent what happened through memory that
// both see, so that a rank that dies or hangs is a finding, too.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/text.hpp"
#include "tools/doctor/checks.hpp"

namespace tutti::doctor {
namespace {

constexpr int kMostRanks = 4;
constexpr int64_t kDeadlineNs = 40'000'000'000;  // beyond the ranks' own, TUTTI_TIMEOUT_MS below
constexpr const char* kTimeoutMs = "15000";
constexpr size_t kLargeBytes = 16 << 20;
constexpr int kSmallCalls = 200, kLargeCalls = 4;

/// What the ranks of one job say.
struct Shared {
  std::atomic<bool> idIsThere;
  tuttiUniqueId id;
  double smallUs, largeGBps;  // rank 0's
  struct Rank {
    std::atomic<bool> done;
    char error[512];  // "": none
  } ranks[kMostRanks];
};

struct OfRank {
  Shared* shared;
  int rank, nRanks;
};

bool failed(const OfRank& me, const char* what, tuttiComm_t comm) {
  std::snprintf(me.shared->ranks[me.rank].error, sizeof Shared::Rank::error, "%s: %s", what, tuttiGetLastError(comm));
  return false;
}

/// calls of count elements; false: an error, or a sum is wrong.
bool reduce(const OfRank& me, tuttiComm_t comm, size_t count, int calls, double* us) {
  std::vector<int32_t> x(count);
  int64_t start = 0;
  for (int call = -1; call < calls; ++call) {  // the first opens links
    if (call == 0) start = nowNs();
    std::fill(x.begin(), x.end(), me.rank + 1);
    if (tuttiAllReduce(x.data(), x.data(), count, tuttiInt32, tuttiSum, comm, nullptr) != tuttiSuccess)
      return failed(me, "AllReduce", comm);
    const int32_t sum = me.nRanks * (me.nRanks + 1) / 2;
    if (std::ranges::all_of(x, [&](int32_t v) { return v == sum; })) continue;
    std::snprintf(me.shared->ranks[me.rank].error, sizeof Shared::Rank::error, "a sum of %zu elements is WRONG", count);
    return false;
  }
  *us = static_cast<double>(nowNs() - start) / 1e3 / calls;
  return true;
}

bool job(const OfRank& me) {
  if (me.rank == 0) {
    if (tuttiGetUniqueId(&me.shared->id) != tuttiSuccess) return failed(me, "the rendezvous", nullptr);
    me.shared->idIsThere.store(true, std::memory_order_release);
  }
  while (!me.shared->idIsThere.load(std::memory_order_acquire)) {
    if (me.shared->ranks[0].done.load(std::memory_order_acquire)) return true;  // it has said why
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitRank(&comm, me.nRanks, me.shared->id, me.rank) != tuttiSuccess)
    return failed(me, "coming up", nullptr);
  double smallUs = 0, largeUs = 0;
  if (!reduce(me, comm, 2, kSmallCalls, &smallUs)) return false;
  if (!reduce(me, comm, kLargeBytes / sizeof(int32_t), kLargeCalls, &largeUs)) return false;
  if (me.rank == 0) {
    me.shared->smallUs = smallUs;
    me.shared->largeGBps = static_cast<double>(kLargeBytes) / largeUs / 1e3 * 2 * (me.nRanks - 1) / me.nRanks;
  }
  return tuttiCommDestroy(comm) == tuttiSuccess || failed(me, "the end", nullptr);
}

pid_t start(const OfRank& me, const std::string& transport) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (!transport.empty()) setenv("TUTTI_TRANSPORTS", transport.c_str(), 1);
  setenv("TUTTI_TIMEOUT_MS", kTimeoutMs, 1);
  job(me);
  me.shared->ranks[me.rank].done.store(true, std::memory_order_release);
  std::fflush(nullptr);
  ::_exit(0);
}

/// Ends with them all: by themselves, or killed at the deadline.
void await(const std::vector<pid_t>& children) {
  const int64_t deadline = nowNs() + kDeadlineNs;
  for (const pid_t child : children) {
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, WNOHANG) == 0) {
      if (nowNs() > deadline) ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

Finding judge(const Shared& shared, int nRanks, const std::string& subject) {
  for (int rank = 0; rank < nRanks; ++rank) {
    const Shared::Rank& of = shared.ranks[rank];
    const bool silent = !of.done.load(std::memory_order_acquire);
    if (!silent && of.error[0] == '\0') continue;
    return {Verdict::Broken, subject, silent ? cat("rank ", rank, " died or hung") : cat("rank ", rank, ": ", of.error),
            "run it again with TUTTI_LOG=info; the other lines here may say why"};
  }
  char text[128];
  std::snprintf(text, sizeof text, "AllReduce of 8 B in %.1f us, of 16 MiB at %.2f GB/s (busbw), right", shared.smallUs,
                shared.largeGBps);
  return {Verdict::Fine, subject, text, ""};
}

Finding tryTransport(const std::string& transport, int nRanks) {
  const std::string subject = cat(nRanks, " ranks", transport.empty() ? "" : cat(", ", transport));
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {Verdict::Broken, subject, cat("no memory: ", std::strerror(errno)), ""};
  auto* const shared = new (memory) Shared();
  std::vector<pid_t> children;
  for (int rank = 0; rank < nRanks; ++rank) children.push_back(start({shared, rank, nRanks}, transport));
  await(children);
  Finding finding = judge(*shared, nRanks, subject);
  ::munmap(memory, sizeof(Shared));
  return finding;
}

}  // namespace

Findings checkRanks() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  const int nRanks = std::clamp(cores, 2, kMostRanks);
  std::fflush(nullptr);  // or the ranks print it once more
  if (configIsSet("TUTTI_TRANSPORTS")) return {tryTransport("", nRanks)};
  return {tryTransport("shm", nRanks), tryTransport("tcp", nRanks)};
}

}  // namespace tutti::doctor

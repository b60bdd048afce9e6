// overhead: what a communicator costs before it moves a byte; see README.md.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "perf/common/small_program.hpp"
#include "tools/version.hpp"

using namespace tutti::perf;

namespace {

constexpr int kRounds = 9;
constexpr int kCallsPerRound = 20'000;

double nowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of the slowest rank, in milliseconds.
double timeMs(const Ranks& w, const std::function<void()>& work) {
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  const double start = nowMs();
  work();
  return overRanks(w, nowMs() - start, tuttiMax);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Pages that this process has in memory, alone or shared, in KiB.  Shared ones count for every process that has
/// touched them.
double residentKiB() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  long size = 0, resident = 0;
  const bool read = file != nullptr && std::fscanf(file, "%ld %ld", &size, &resident) == 2;
  if (file != nullptr) std::fclose(file);
  return read ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024 : 0;
}

struct Birth {
  std::vector<double> join, firstCall, calls, end;  // ms
  std::vector<double> joinedKiB, usedKiB;           // per rank, mean
};

tuttiComm_t joinAnew(const Ranks& w) {
  tuttiUniqueId id;
  if (w.rank == 0) check(tuttiGetUniqueId(&id), "GetUniqueId");
  check(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, w.comm, nullptr), "Broadcast");
  tuttiComm_t comm = nullptr;
  check(tuttiCommInitRank(&comm, w.nRanks, id, w.rank), "CommInitRank");
  return comm;
}

/// One more communicator of all ranks, from the unique id to its end.
void liveOnce(const Ranks& w, Birth* birth) {
  tuttiComm_t comm = nullptr;
  std::vector<float> x(64 * static_cast<size_t>(w.nRanks), 1), y(x.size());
  const double before = residentKiB();
  birth->join.push_back(timeMs(w, [&] { comm = joinAnew(w); }));
  const double joined = residentKiB();
  birth->firstCall.push_back(
      timeMs(w, [&] { check(tuttiAllReduce(x.data(), y.data(), 2, tuttiFloat32, tuttiSum, comm, nullptr), "first"); }));
  birth->calls.push_back(timeMs(w, [&] {
    check(tuttiAllToAll(x.data(), y.data(), 64, tuttiFloat32, comm, nullptr), "AllToAll");
    check(tuttiAllGather(x.data(), y.data(), 64, tuttiFloat32, comm, nullptr), "AllGather");
  }));
  const double used = residentKiB();
  birth->end.push_back(timeMs(w, [&] { check(tuttiCommDestroy(comm), "CommDestroy"); }));
  birth->joinedKiB.push_back(overRanks(w, joined - before, tuttiSum) / w.nRanks);
  birth->usedKiB.push_back(overRanks(w, used - before, tuttiSum) / w.nRanks);
}

/// A call that moves nothing, on a communicator of one rank, in nanoseconds: what every call does before its first
/// byte, and after its last.
double callNs() {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  check(tuttiGetUniqueId(&id), "GetUniqueId");
  check(tuttiCommInitRank(&comm, 1, id, 0), "CommInitRank");
  float x[2] = {1, 1};
  std::vector<double> ns;
  for (int round = 0; round < kRounds; ++round) {
    const double start = nowMs();
    for (int i = 0; i < kCallsPerRound; ++i)
      check(tuttiAllReduce(x, x, 2, tuttiFloat32, tuttiSum, comm, nullptr), "call");
    ns.push_back((nowMs() - start) * 1e6 / kCallsPerRound);
  }
  check(tuttiCommDestroy(comm), "CommDestroy");
  return median(ns);
}

void print(const Ranks& w, const Birth& b, double startMs, double planNs) {
  if (w.rank != 0) return;
  const auto row = [](const char* what, const std::vector<double>& v, const char* unit) {
    std::printf("%-52s %10.2f %10.2f %10.2f  %s\n", what, *std::min_element(v.begin(), v.end()), median(v),
                *std::max_element(v.begin(), v.end()), unit);
  };
  std::printf("# %d ranks, %ld cpus; %d communicators one after the other\n", w.nRanks, sysconf(_SC_NPROCESSORS_ONLN),
              kRounds);
  std::printf("%-52s %10s %10s %10s\n", "", "least", "median", "most");
  std::printf("%-52s %10s %10.2f %10s  ms\n", "first communicator of the processes", "", startMs, "");
  row("another one, with a unique id", b.join, "ms");
  row("its first call (AllReduce of 8 B)", b.firstCall, "ms");
  row("AllToAll, then AllGather, of 256 B blocks", b.calls, "ms");
  row("its end", b.end, "ms");
  row("resident memory of a rank after joining", b.joinedKiB, "KiB");
  row("and after these calls", b.usedKiB, "KiB");
  std::printf("%-52s %10s %10.1f %10s  ns\n", "a call that finds its plan and moves nothing", "", planNs, "");
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const double start = nowMs();
  const Ranks w = joinRanks();
  const double startMs = overRanks(w, nowMs() - start, tuttiMax);
  Birth birth;
  for (int round = 0; round < kRounds; ++round) liveOnce(w, &birth);
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  const double planNs = w.rank == 0 ? callNs() : 0;
  print(w, birth, startMs, planNs);
  check(tuttiCommDestroy(w.comm), "CommDestroy");
}

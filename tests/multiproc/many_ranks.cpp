// One of many ranks as processes: joins, reduces, says on rank 0 how long that took and what memory all took together.
// Exit status 0 if every result was right.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// This process's share of memory, in KiB: a page that n processes map counts 1/n for each.
uint64_t shareKiB() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    uint64_t kib = 0;
    if (word == "Pss:" && file >> kib) return kib;
  }
  return 0;
}

int fail(tuttiComm_t comm, const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, tuttiGetLastError(comm));
  return 1;
}

/// count elements of rank + i % 7 each; true if every sum is right.
bool reduceOnce(tuttiComm_t comm, int rank, int nRanks, size_t count) {
  std::vector<int64_t> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = rank + static_cast<int64_t>(i % 7);
  if (tuttiAllReduce(x.data(), x.data(), count, tuttiInt64, tuttiSum, comm, nullptr) != tuttiSuccess) return false;
  const int64_t ranks = int64_t{nRanks} * (nRanks - 1) / 2;
  for (size_t i = 0; i < count; ++i) {
    if (x[i] == ranks + nRanks * static_cast<int64_t>(i % 7)) continue;
    std::fprintf(stderr, "rank %d: element %zu of %zu is wrong\n", rank, i, count);
    return false;
  }
  return true;
}

}  // namespace

int main() {
  const auto start = std::chrono::steady_clock::now();
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitEnv(&comm, nullptr) != tuttiSuccess) return fail(nullptr, "join");
  const double joinS = secondsSince(start);
  int rank = 0, nRanks = 0;
  tuttiCommUserRank(comm, &rank);
  tuttiCommCount(comm, &nRanks);
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 15}) {
    const auto began = std::chrono::steady_clock::now();
    if (!reduceOnce(comm, rank, nRanks, count)) return fail(comm, "all-reduce");
    const double firstS = secondsSince(began);
    if (!reduceOnce(comm, rank, nRanks, count)) return fail(comm, "all-reduce");
    const double bothS = secondsSince(began);
    if (rank == 0) std::printf("all-reduce of %zu: first %.3f s, then %.3f s\n", count, firstS, bothS - firstS);
  }
  uint64_t kib = shareKiB();
  if (tuttiAllReduce(&kib, &kib, 1, tuttiUint64, tuttiSum, comm, nullptr) != tuttiSuccess) return fail(comm, "memory");
  if (tuttiCommDestroy(comm) != tuttiSuccess) return fail(comm, "destroy");
  if (rank == 0) {
    std::printf("%d ranks: join %.2f s, all %.2f s, memory %.1f MiB in all, %.2f MiB a rank\n", nRanks, joinS,
                secondsSince(start), static_cast<double>(kib) / 1024, static_cast<double>(kib) / 1024 / nRanks);
  }
  return 0;
}

// One of several ranks that call collectives for a while, and check every element of each.
//   steady_ranks SECONDS [BYTES]    for so long, on messages of up to BYTES
// Prints "works" once the first round is over, and at the end "ok, N calls, longest M ms", of rank 0.  Exit status 0 if
// every element was right.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

using Clock = std::chrono::steady_clock;

int64_t valueOf(int rank, uint64_t round, size_t i) {
  return static_cast<int64_t>((round * 1000003 + i * 31 + static_cast<uint64_t>(rank) * 7919) % 1000);
}

/// Round `round`: a sum of `count` elements, and one message around the ring.
std::string once(const Rank& r, uint64_t round, size_t count) {
  std::vector<int64_t> mine(count), sum(count), from(count);
  for (size_t i = 0; i < count; ++i) mine[i] = valueOf(r.rank, round, i);
  RANK_TRY(tuttiAllReduce(mine.data(), sum.data(), count, tuttiInt64, tuttiSum, r.comm, nullptr));
  const int next = (r.rank + 1) % r.nRanks, previous = (r.rank + r.nRanks - 1) % r.nRanks;
  RANK_TRY(tuttiGroupStart());
  RANK_TRY(tuttiSend(mine.data(), count, tuttiInt64, next, r.comm, nullptr));
  RANK_TRY(tuttiRecv(from.data(), count, tuttiInt64, previous, r.comm, nullptr));
  RANK_TRY(tuttiGroupEnd());
  for (size_t i = 0; i < count; ++i) {
    int64_t all = 0;
    for (int rank = 0; rank < r.nRanks; ++rank) all += valueOf(rank, round, i);
    if (sum[i] != all || from[i] != valueOf(previous, round, i)) {
      return "round " + std::to_string(round) + ": element " + std::to_string(i) + " is wrong";
    }
  }
  return "";
}

std::string rounds(const Rank& r, double seconds, size_t mostBytes) {
  const auto begin = Clock::now();
  double longestMs = 0;
  uint64_t round = 0;
  for (int64_t goesOn = 1; goesOn != 0; ++round) {
    const size_t count = round % 3 == 0 ? 1 + round % 50 : 1 + (round * 7919) % (mostBytes / sizeof(int64_t));
    const auto before = Clock::now();
    if (std::string why = once(r, round, count); !why.empty()) return why;
    if (round == 0) {
      std::printf("works\n");
      std::fflush(stdout);
    }
    longestMs = std::max(longestMs, std::chrono::duration<double, std::milli>(Clock::now() - before).count());
    goesOn = std::chrono::duration<double>(Clock::now() - begin).count() < seconds ? 1 : 0;
    RANK_TRY(tuttiBroadcast(&goesOn, &goesOn, 1, tuttiInt64, 0, r.comm, nullptr));
  }
  if (r.rank == 0) std::printf("ok, %lu calls, longest %.0f ms\n", static_cast<unsigned long>(round), longestMs);
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  Rank r{};
  std::string why = failed(tuttiCommInitEnv(&r.comm, nullptr), "join");
  if (why.empty()) {
    tuttiCommUserRank(r.comm, &r.rank);
    tuttiCommCount(r.comm, &r.nRanks);
    why = rounds(r, argc > 1 ? std::atof(argv[1]) : 1, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1 << 20);
  }
  if (why.empty()) why = failed(tuttiCommDestroy(r.comm), "destroy");
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", r.rank, why.c_str());
  return why.empty() ? 0 : 1;
}

// A root that shares its core: what other ranks have read when its call returns.
#include "src/comm/hand_over.hpp"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/ranks.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int kCalls = 200;
// Beside other programs, which would take a slice of the core, nothing is handed on.
constexpr int kAttempts = 100;

bool bindTo(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(core), &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

void stayAway(int64_t ns) {
  for (const int64_t until = nowNs() + ns; nowNs() < until;) {
  }
}

/// Of kCalls Broadcasts among two ranks on one core, how many rank 1 has made when rank 0's return, if that stays away
/// for so long after each.
int madeAtReturn(int64_t awayNs) {
  std::atomic<int> made{0};
  int together = 0;
  const int core = sched_getcpu();
  const std::string complaints = onThreads(2, [&](int rank, const tuttiUniqueId& id) -> std::string {
    if (!bindTo(core)) return "cannot bind";
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.waitMode = TUTTI_WAIT_YIELD;
    return asRank(rank, 2, id, config, [&](const Rank& r) -> std::string {
      std::vector<float> data(1000);
      for (int call = 1; call <= kCalls; ++call) {
        RANK_TRY(tuttiBroadcast(data.data(), data.data(), data.size(), tuttiFloat32, 0, r.comm, nullptr));
        if (rank == 1) made.store(call);
        if (rank == 0) together += made.load() == call ? 1 : 0;
        if (rank == 0 && awayNs > 0) stayAway(awayNs);
      }
      return "";
    });
  });
  CHECK(complaints == "");
  return together;
}

}  // namespace

TEST_CASE("a root that goes on with other work lets ranks of its core read first") {
  bool seen = false;
  for (int attempt = 0; attempt < kAttempts && !seen; ++attempt) seen = madeAtReturn(20'000) > kCalls * 3 / 4;
  CHECK(seen);
}

TEST_CASE("a root that makes the next call at once runs ahead of ranks of its core") {
  CHECK(madeAtReturn(0) < kCalls / 4);
}

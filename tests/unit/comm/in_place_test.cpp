// An AllReduce in place in memory that peers map: what lies where they would read is written by the same call.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "src/comm/handle.hpp"
#include "tests/support/process_ranks.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Whether messages of a call are read in the memory that peers map.  in, out: of `count` numbers.
Result<bool> readsMapped(const Rank& r, const float* in, float* out, size_t count) {
  Call call;
  call.collective = Collective::AllReduce;
  call.count = count;
  call.dtype = tuttiFloat32;
  call.sendbuff = in;
  call.recvbuff = out;
  TUTTI_ASSIGN(const auto entry, r.comm->comm->planner().plan(call));
  return entry->plan->leastMappedBytes < SIZE_MAX;
}

std::string sums(const Rank& r, bool inPlace, bool reads) {
  constexpr size_t kCount = 20'000;
  void* memory = nullptr;
  RANK_TRY(tuttiMemAlloc(&memory, 2 * kCount * sizeof(float)));
  auto* const in = static_cast<float*>(memory);
  float* const out = inPlace ? in : in + kCount;
  for (int call = 1; call <= 20; ++call) {
    std::fill_n(in, kCount, static_cast<float>(call + r.rank));
    RANK_TRY(tuttiAllReduce(in, out, kCount, tuttiFloat32, tuttiSum, r.comm, nullptr));
    const auto sum = static_cast<float>(r.nRanks * call + r.nRanks * (r.nRanks - 1) / 2);
    for (size_t i = 0; i < kCount; ++i) RANK_CHECK(out[i] == sum);
  }
  const Result<bool> found = readsMapped(r, in, out, kCount);
  RANK_CHECK(found.ok() && *found == reads);
  RANK_TRY(tuttiMemFree(memory));
  return "";
}

}  // namespace

TEST_CASE("where every rank sums for itself in place, nothing is read that it writes meanwhile") {
  struct Case {
    std::string algorithm;
    bool inPlace, reads;
  };
  for (const Case& c : {Case{"oneshot", true, false}, Case{"recursivedoubling", true, false},
                        Case{"oneshot", false, true}, Case{"ring", true, true}, Case{"twoshot", true, true}}) {
    CAPTURE(c.algorithm, c.inPlace);
    const Variable choice("TUTTI_ALGO", "allreduce:" + c.algorithm);
    for (const int nRanks : {2, 3})
      CHECK(inProcesses(nRanks, [&c](const Rank& r) { return sums(r, c.inPlace, c.reads); }) == "");
  }
}

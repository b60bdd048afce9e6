// Ranks that share a launch: groups of calls are one launch as far as they can be, and what ranks disagree about is
// found.
#include <catch2/catch.hpp>
#include <deque>
#include <list>

#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr size_t kCount = 700;

/// Floats of one call, and what an AllReduce of them over three ranks makes.
struct Values {
  explicit Values(size_t count = kCount) : x(count, 0, Memory::Other) {}
  void fill(const Rank& r) {
    for (size_t i = 0; i < x.count(); ++i) x.set(i, static_cast<float>(r.rank + 1));
  }
  tuttiResult_t sum(const Rank& r, const GpuRank& own, tuttiRedOp_t op = tuttiSum) {
    return tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, op, r.comm, own.asTutti());
  }
  bool are(float value) const { return x.get(0) == value && x.get(x.count() - 1) == value; }
  FloatBuffer x;
};

int launches() { return FakeCuda::get().calls == nullptr ? 0 : FakeCuda::get().calls("cuLaunchKernel"); }

/// Runs `body` on three ranks of one device; how many kernels that launched.
int launchesOf(const std::function<std::string(const Rank&, GpuRank&)>& body) {
  int seen = 0;
  {
    const Gpu gpu("devices=1;queues=1");
    CHECK(onGpuRanks(3, 1, [&](const Rank& r, GpuRank& own) -> std::string {
            std::string why = body(r, own);
            if (why.empty()) why = own.synchronize();
            return why;
          }) == "");
    seen = launches();
  }
  CHECK(Gpu::complaints() == "");
  return seen;
}

}  // namespace

TEST_CASE("calls of a group that one kernel serves are one launch") {
  const int seen = launchesOf([](const Rank& r, GpuRank& own) -> std::string {
    std::list<Values> all(20);
    for (Values& v : all) v.fill(r);
    Values in, gathered(3 * kCount);
    in.fill(r);
    RANK_TRY(tuttiGroupStart());
    for (Values& v : all) RANK_TRY(v.sum(r, own));
    RANK_TRY(tuttiAllGather(in.x.at(0), gathered.x.at(0), kCount, tuttiFloat, r.comm, own.asTutti()));
    RANK_TRY(tuttiBarrier(r.comm, own.asTutti()));
    RANK_TRY(tuttiGroupEnd());
    RANK_CHECK(own.synchronize().empty());
    for (const Values& v : all) RANK_CHECK(v.are(6));
    RANK_CHECK(gathered.x.get(0) == 1 && gathered.x.get(3 * kCount - 1) == 3);
    return "";
  });
  if (FakeCuda::get().calls != nullptr) CHECK(seen == 1);
}

TEST_CASE("a group of reductions, copies and exchanges is a launch for each change of kernel") {
  const int seen = launchesOf([](const Rank& r, GpuRank& own) -> std::string {
    std::list<Values> sums(2);
    for (Values& v : sums) v.fill(r);
    Values in(3 * kCount), gathered(3 * kCount);
    std::list<Values> exchanged;
    for (int i = 0; i < 2; ++i) exchanged.emplace_back(3 * kCount);
    in.fill(r);
    const auto exchange = [&](Values& to) {
      return tuttiAllToAll(in.x.at(0), to.x.at(0), kCount, tuttiFloat, r.comm, own.asTutti());
    };
    RANK_TRY(tuttiGroupStart());
    RANK_TRY(sums.front().sum(r, own));
    RANK_TRY(exchange(exchanged.front()));  // a kernel that combines does not
    RANK_TRY(tuttiAllGather(in.x.at(0), gathered.x.at(0), kCount, tuttiFloat, r.comm, own.asTutti()));
    RANK_TRY(exchange(exchanged.back()));
    RANK_TRY(sums.back().sum(r, own));
    RANK_TRY(tuttiGroupEnd());
    RANK_CHECK(own.synchronize().empty());
    for (const Values& v : sums) RANK_CHECK(v.are(6));
    for (const Values& v : exchanged)
      RANK_CHECK(v.x.get(0) == 1 && v.x.get(kCount) == 2 && v.x.get(3 * kCount - 1) == 3);
    RANK_CHECK(gathered.x.get(0) == 1 && gathered.x.get(3 * kCount - 1) == 3);
    return "";
  });
  if (FakeCuda::get().calls != nullptr) CHECK(seen == 3);
}

TEST_CASE("calls of a group that use each other's results follow each other") {
  const int seen = launchesOf([](const Rank& r, GpuRank& own) -> std::string {
    Values v, other;
    v.fill(r);
    other.fill(r);
    RANK_TRY(tuttiGroupStart());
    for (int i = 0; i < 3; ++i) RANK_TRY(v.sum(r, own));
    RANK_TRY(other.sum(r, own));
    RANK_TRY(tuttiGroupEnd());
    RANK_CHECK(own.synchronize().empty());
    RANK_CHECK(v.are(54) && other.are(6));
    return "";
  });
  if (FakeCuda::get().calls != nullptr) CHECK(seen == 3);
}

TEST_CASE("ranks may group calls each as it likes, and more than a launch takes") {
  launchesOf([](const Rank& r, GpuRank& own) -> std::string {
    std::deque<Values> all;
    for (size_t i = 0; i < 100; ++i) all.emplace_back(i + 1).fill(r);
    if (r.rank == 1) RANK_TRY(tuttiGroupStart());
    for (size_t i = 0; i < all.size(); ++i) {
      if (r.rank == 0 && i % 7 == 0) RANK_TRY(tuttiGroupStart());
      RANK_TRY(all[i].sum(r, own, i % 11 == 3 ? tuttiMax : tuttiSum));
      if (r.rank == 0 && (i % 7 == 6 || i + 1 == all.size())) RANK_TRY(tuttiGroupEnd());
    }
    if (r.rank == 1) RANK_TRY(tuttiGroupEnd());
    RANK_CHECK(own.synchronize().empty());
    for (size_t i = 0; i < all.size(); ++i) RANK_CHECK(all[i].are(i % 11 == 3 ? 3 : 6));
    return "";
  });
}

TEST_CASE("each PreMulSum of a group has its input scaled, and each average is divided") {
  launchesOf([](const Rank& r, GpuRank& own) -> std::string {
    Values a, b, c, d;
    for (Values* v : {&a, &b, &c, &d}) v->fill(r);
    tuttiRedOp_t twice, thrice;
    float two = 2, three = 3;
    RANK_TRY(tuttiRedOpCreatePreMulSum(&twice, &two, tuttiFloat, tuttiScalarHostImmediate, r.comm));
    RANK_TRY(tuttiRedOpCreatePreMulSum(&thrice, &three, tuttiFloat, tuttiScalarHostImmediate, r.comm));
    RANK_TRY(tuttiGroupStart());
    RANK_TRY(a.sum(r, own, twice));
    RANK_TRY(b.sum(r, own, tuttiAvg));
    RANK_TRY(c.sum(r, own, thrice));
    RANK_TRY(d.sum(r, own, tuttiAvg));
    RANK_TRY(tuttiGroupEnd());
    RANK_CHECK(own.synchronize().empty());
    RANK_CHECK(a.are(12) && b.are(2) && c.are(18) && d.are(2));
    RANK_TRY(tuttiRedOpDestroy(twice, r.comm));
    RANK_TRY(tuttiRedOpDestroy(thrice, r.comm));
    return "";
  });
}

TEST_CASE("a call that differs is found also behind others of a group, which have been carried out") {
  const Gpu gpu;
  std::string texts[2];
  const std::string said = onGpuRanks(2, 1, [&](const Rank& r, GpuRank& own) -> std::string {
    Values same, differs;
    same.fill(r);
    differs.fill(r);
    RANK_TRY(tuttiGroupStart());
    RANK_TRY(same.sum(r, own));
    RANK_TRY(tuttiAllReduce(differs.x.at(0), differs.x.at(0), r.rank == 0 ? 5 : 6, tuttiFloat, tuttiSum, r.comm,
                            own.asTutti()));
    const tuttiResult_t result = tuttiGroupEnd();
    texts[r.rank] = tuttiGetLastError(r.comm);
    RANK_CHECK(result == tuttiInvalidUsage);
    RANK_CHECK(own.synchronize().empty());
    RANK_CHECK(same.are(3));
    return "";
  });
  CAPTURE(texts[0], texts[1], said);
  for (const std::string& text : texts) {
    CHECK(text.find("AllReduce number 2 (count 5, float, sum)") != std::string::npos);
    CHECK(text.find("AllReduce number 2 (count 6, float, sum)") != std::string::npos);
  }
}

// The model beside published measurements: what docs/simulation.md says of it holds.
#include <catch2/catch.hpp>

#include "tools/sim/nccl_fit.hpp"
#include "tools/sim/validate.hpp"

using namespace tutti;
using namespace tutti::sim;

TEST_CASE("predictions from specification only are off by no more than is written") {
  const auto all = ncclErrors(true), sure = ncclErrors(false);
  REQUIRE(all.ok());
  REQUIRE(sure.ok());
  // A little above what tutti-sim --validate prints.
  constexpr double kAll[] = {0.20, 0.15, 0.08}, kSure[] = {0.17, 0.12, 0.05};
  constexpr int kBeyond[] = {1, 2, 0};
  for (size_t range = 0; range < kRanges; ++range) {
    CAPTURE(kRangeNames[range], (*all)[range].text(), (*sure)[range].text());
    CHECK((*all)[range].count >= 40);
    CHECK((*all)[range].mean() < kAll[range]);
    CHECK((*sure)[range].count >= 25);
    CHECK((*sure)[range].mean() < kSure[range]);
    CHECK((*sure)[range].beyond <= kBeyond[range]);
  }
}

TEST_CASE("the constants in use are those that fit all sets best") {
  const std::vector<PublishedSet> sets = publishedSets();
  auto leftOut = LeftOut::make(sets);
  REQUIRE(leftOut.status().message() == "");
  const nccl_model::Fitted best = leftOut->without(""), used;
  CHECK(used.drainBytes == Approx(best.drainBytes).epsilon(0.02));
  CHECK(used.reduceShare == Approx(best.reduceShare).epsilon(0.02));
  CHECK(used.aloneUs == Approx(best.aloneUs).epsilon(0.02));
}

TEST_CASE("leaving a generation out leaves its sets out") {
  std::vector<PublishedSet> sets = publishedSets();
  const auto fittedWithout = [&](const char* generation) {
    auto leftOut = LeftOut::make(sets);
    REQUIRE(leftOut.ok());
    return leftOut->without(generation);
  };
  const nccl_model::Fitted before = fittedWithout("Ampere"), all = fittedWithout("");
  for (PublishedSet& set : sets) {
    if (set.name.find("A100") == std::string::npos) continue;
    for (PublishedPoint& point : set.points) point.us *= 10;
  }
  CHECK(fittedWithout("Ampere").drainBytes == before.drainBytes);
  CHECK(fittedWithout("").drainBytes != all.drainBytes);
}

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
  constexpr double kAll[] = {0.25, 0.19, 0.12}, kSure[] = {0.23, 0.15, 0.10};
  for (size_t range = 0; range < kRanges; ++range) {
    CAPTURE(kRangeNames[range], (*all)[range].text(), (*sure)[range].text());
    CHECK((*all)[range].count >= 40);
    CHECK((*all)[range].mean() < kAll[range]);
    CHECK((*sure)[range].count >= 25);
    CHECK((*sure)[range].mean() < kSure[range]);
  }
}

TEST_CASE("the constants in use are those that fit all sets best") {
  const std::vector<PublishedSet> sets = publishedSets();
  auto leftOut = LeftOut::make(sets);
  REQUIRE(leftOut.status().message() == "");
  const nccl_model::Fitted best = leftOut->without(""), used;
  CHECK(used.launchUs == Approx(best.launchUs).epsilon(0.02));
  CHECK(used.sliceUs == Approx(best.sliceUs).epsilon(0.02));
  CHECK(used.reduceShare == Approx(best.reduceShare).epsilon(0.02));
}

TEST_CASE("leaving a place out leaves its sets out") {
  std::vector<PublishedSet> sets = publishedSets();
  auto leftOut = LeftOut::make(sets);
  REQUIRE(leftOut.ok());
  const nccl_model::Fitted before = leftOut->without("8 x B200");
  for (PublishedSet& set : sets) {
    if (std::string(set.site) != "8 x B200") continue;
    for (PublishedPoint& point : set.points) point.us *= 10;
  }
  auto changed = LeftOut::make(sets);
  REQUIRE(changed.ok());
  CHECK(changed->without("8 x B200").launchUs == before.launchUs);
}

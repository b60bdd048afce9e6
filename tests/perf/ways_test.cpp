// Ways of a call that were measured in turns, compared.
#include "perf/ways/halves.hpp"

#include <catch2/catch.hpp>

#include "perf/ways/nearness.hpp"

using namespace tutti::perf;

namespace {

Way measured(std::vector<double> timesUs) {
  Way way;
  way.timesUs = std::move(timesUs);
  return way;
}

}  // namespace

TEST_CASE("ways are compared round by round, so that slow rounds meet both") {
  const Way a = measured({10, 40, 10, 40, 10, 40, 10, 40}), b = measured({20, 80, 20, 80, 20, 80, 20, 80});
  CHECK(ratioOf(a, b) == Approx(0.5));
  CHECK(ratioOf(b, a) == Approx(2));
  CHECK(ratioOf(a, a) == 1);
}

TEST_CASE("a way that is fast in a few rounds alone is not the faster one") {
  const Way steady = measured({40, 40, 40, 40, 40, 40, 40, 40}), now = measured({31, 75, 75, 32, 70, 72, 74, 33});
  CHECK(now.quantileUs(0.25) < 0.9 * steady.quantileUs(0.25));
  CHECK(ratioOf(now, steady) > 1.3);
}

TEST_CASE("a round that another program disturbed decides nothing") {
  const Way a = measured({10, 10, 900, 10, 10, 10, 10, 10}), b = measured({11, 11, 11, 11, 0.1, 11, 11, 11});
  CHECK(ratioOf(a, b) == Approx(10.0 / 11));  // one round out of four may be
  CHECK(ratioOf(measured({3}), measured({2})) == Approx(1.5));
}

TEST_CASE("ways that were dropped early are compared by the rounds that both had, and none has no ratio") {
  CHECK(ratioOf(measured({4, 4}), measured({2, 2, 9, 9})) == Approx(2));
  CHECK(std::isnan(ratioOf(measured({}), measured({2}))));
}

TEST_CASE("a choice among ways that are alike loses nothing by halves, though some way was faster by luck") {
  const std::vector<Way> alike = {measured({10, 10, 10, 10}), measured({7, 13, 7, 13}), measured({13, 7, 13, 7})};
  const ByHalves halves = judgeByHalves(alike, 0);
  CHECK(halves.loss == Approx(10.0 / 13 - 1));  // either half picks the one that is slow in the other
  CHECK(halves.noise == Approx(13.0 / 7 - 1));
}

TEST_CASE("a choice that is slower in every round loses that by halves") {
  const std::vector<Way> ways = {measured({20, 22, 20, 22}), measured({10, 11, 10, 11}), measured({12, 30, 11, 30})};
  CHECK(judgeByHalves(ways, 0).loss == Approx(1));
  CHECK(judgeByHalves(ways, 0).noise == Approx(0));
  CHECK(judgeByHalves(ways, 1).loss == Approx(0));
}

TEST_CASE("cores are as near if a line takes up to twice as long; what is not known is alike") {
  CHECK(Nearness::alike(0.05, 0.09));
  CHECK_FALSE(Nearness::alike(0.05, 0.2));
  CHECK_FALSE(Nearness::alike(0.2, 0.05));
  CHECK(Nearness::alike(0, 0.2));
}

TEST_CASE("one round has no halves") { CHECK(std::isnan(judgeByHalves(std::vector{measured({1})}, 0).loss)); }

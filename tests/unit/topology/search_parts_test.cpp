// The parts of the search against the slow way: all orders, all packings.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>

#include "tools/topology/search/packing.hpp"
#include "tools/topology/search/simplex.hpp"
#include "tools/topology/search/tour.hpp"

namespace tutti::topology {
namespace {

struct Dice {
  uint32_t state;
  uint32_t next() { return state = state * 1664525u + 1013904223u; }
  double cost() { return static_cast<double>(next() >> 20); }
};

TourCosts randomCosts(size_t n, bool closed, Dice& dice) {
  TourCosts costs;
  costs.n = n;
  for (size_t i = 0; i < n * n; ++i) costs.between.push_back(dice.next() % 5 == 0 ? kNoWay : dice.cost());
  for (size_t i = 0; i < n && !closed; ++i) {
    costs.first.push_back(dice.next() % 4 == 0 ? kNoWay : dice.cost());
    costs.last.push_back(dice.next() % 4 == 0 ? kNoWay : dice.cost());
  }
  return costs;
}

double costOf(const TourCosts& c, const std::vector<int>& order) {
  const auto at = [](int i) { return static_cast<size_t>(i); };
  double sum = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) sum += c.between[at(order[i]) * c.n + at(order[i + 1])];
  if (!c.first.empty()) return sum + c.first[at(order.front())] + c.last[at(order.back())];
  return c.n == 1 ? 0 : sum + c.between[at(order.back()) * c.n + at(order.front())];
}

double cheapestOfAll(const TourCosts& c) {
  std::vector<int> order(c.n);
  std::iota(order.begin(), order.end(), 0);
  double best = kNoWay;
  do best = std::min(best, costOf(c, order));
  while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace

TEST_CASE("the cheapest tour is that of all orders, below a limit or none") {
  Dice dice{20261121};
  for (size_t n = 1; n <= 7; ++n) {
    for (int i = 0; i < 60; ++i) {
      const bool closed = i % 2 == 0;
      const TourCosts costs = randomCosts(n, closed, dice);
      const double best = cheapestOfAll(costs);
      CAPTURE(n, i, closed, best);
      const Tour tour = cheapestTour(costs, kNoWay);
      CHECK(tour.cost == Approx(best));
      CHECK(leastCost(costs) <= best + 1e-9);
      if (best < kNoWay) {
        CHECK(costOf(costs, tour.order) == Approx(best));
        CHECK(cheapestTour(costs, best).cost == kNoWay);
        CHECK(cheapestTour(costs, best + 1).cost == Approx(best));
      }
      const Tour good = goodTour(costs, -1);
      if (good.cost < kNoWay) {
        CHECK(good.cost >= best - 1e-9);
        CHECK(costOf(costs, good.order) == Approx(good.cost));
        CHECK(std::is_permutation(good.order.begin(), good.order.end(), cheapestTour(costs, kNoWay).order.begin()));
      }
    }
  }
}

TEST_CASE("the good tour of many devices with places in a plane is no longer than their order on a circle") {
  TourCosts costs;
  costs.n = 40;
  for (size_t i = 0; i < costs.n; ++i) {
    for (size_t j = 0; j < costs.n; ++j) {
      const size_t apart = (i * 7 + 40 * 7 - j * 7) % 40;
      costs.between.push_back(static_cast<double>(std::min(apart, 40 - apart)));
    }
  }
  CHECK(goodTour(costs, 0).cost == Approx(40));
}

TEST_CASE("the simplex method packs what can be packed") {
  // Three arcs of 10, 4 and 6; columns {0}, {0, 1}, {1, 2 twice}: 10 of the first, 3 of the last.
  Simplex simplex({10, 4, 6});
  const auto column = [](std::vector<std::pair<int, int>> use) { return Column{-1, -1, {}, std::move(use)}; };
  const std::vector<Column> all{column({{0, 1}, {1, 1}}), column({{0, 1}}), column({{1, 1}, {2, 2}})};
  const auto cost = [&](const Column& c) {
    double sum = 0;
    for (const auto& [arc, times] : c.use) sum += times * simplex.prices()[static_cast<size_t>(arc)];
    return sum;
  };
  for (bool better = true; better;) {
    REQUIRE(simplex.settle());
    const auto next = std::find_if(all.begin(), all.end(), [&](const Column& c) { return cost(c) < 1 - 1e-6; });
    better = next != all.end();
    if (better) simplex.enter(*next);
  }
  CHECK(simplex.total() == Approx(13).epsilon(1e-5));
  std::vector<Column> columns;
  std::vector<double> rates;
  simplex.solution(&columns, &rates);
  CHECK(std::accumulate(rates.begin(), rates.end(), 0.0) == Approx(13).epsilon(1e-5));
}

}  // namespace tutti::topology

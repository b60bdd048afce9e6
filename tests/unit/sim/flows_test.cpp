#include "tools/cluster/flows.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>

using namespace tutti::sim;

namespace {

/// Max-min fair rates by raising all of them in small steps: slow and plain.
std::vector<double> raised(const std::vector<double>& capacity, const std::vector<std::vector<int32_t>>& routes,
                           const std::vector<double>& most) {
  std::vector<double> rate(routes.size()), used(capacity.size());
  std::vector<bool> fixed(routes.size());
  for (size_t left = routes.size(); left > 0;) {
    double step = 1e300;
    std::vector<int> users(capacity.size());
    for (size_t f = 0; f < routes.size(); ++f) {
      if (fixed[f]) continue;
      step = std::min(step, most[f] - rate[f]);
      for (const int32_t l : routes[f]) ++users[static_cast<size_t>(l)];
    }
    for (size_t l = 0; l < capacity.size(); ++l) {
      if (users[l] > 0) step = std::min(step, (capacity[l] - used[l]) / users[l]);
    }
    for (size_t f = 0; f < routes.size(); ++f) {
      if (fixed[f]) continue;
      rate[f] += step;
      for (const int32_t l : routes[f]) used[static_cast<size_t>(l)] += step;
    }
    for (size_t f = 0; f < routes.size(); ++f) {
      if (fixed[f]) continue;
      bool stop = rate[f] >= most[f] * (1 - 1e-9);
      for (const int32_t l : routes[f])
        stop |= used[static_cast<size_t>(l)] >= capacity[static_cast<size_t>(l)] * (1 - 1e-9);
      if (stop) {
        fixed[f] = true;
        --left;
      }
    }
  }
  return rate;
}

}  // namespace

TEST_CASE("links are shared max-min fairly, whatever came and went before") {
  const unsigned seed = GENERATE(range(1u, 60u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<double> capacity;
  for (int i = 0; i < 12; ++i) capacity.push_back(1 + below(20));
  Flows flows(capacity);
  struct One {
    std::vector<int32_t> route;
    double most;
  };
  std::map<int32_t, One> live;
  std::vector<std::unique_ptr<std::vector<int32_t>>> routes;
  Picoseconds now = 0;
  for (int round = 0; round < 40; ++round, now += 10) {
    for (int i = below(6); i > 0; --i) {
      auto route = std::make_unique<std::vector<int32_t>>();
      for (int32_t l = 0; l < 12; ++l) {
        if (below(4) == 0) route->push_back(l);
      }
      const double most = 0.5 + below(15);
      const int32_t id = flows.start(*route, 1e12, most, now);
      live[id] = {*route, most};
      routes.push_back(std::move(route));
    }
    for (int i = below(4); i > 0 && !live.empty(); --i) {
      auto it = std::next(live.begin(), below(static_cast<int>(live.size())));
      flows.finish(it->first);
      live.erase(it);
    }
    flows.settle(now);
    std::vector<std::vector<int32_t>> list;
    std::vector<double> most;
    for (const auto& [id, one] : live) {
      list.push_back(one.route);
      most.push_back(one.most);
    }
    const std::vector<double> expected = raised(capacity, list, most);
    size_t i = 0;
    for (const auto& [id, one] : live) {
      CAPTURE(round, id);
      REQUIRE(flows.rateGBps(id) == Approx(expected[i++]).epsilon(1e-5));
    }
  }
}

TEST_CASE("among very many transfers only those near a change get other rates, and no link carries too much") {
  const unsigned seed = GENERATE(range(1u, 10u));
  CAPTURE(seed);
  constexpr int kPorts = 400;
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<std::vector<int32_t>> routes(1000);  // from port to port: all are joined
  for (auto& route : routes) route = {below(kPorts), kPorts + below(kPorts)};
  Flows exact(std::vector<double>(2 * kPorts, 10)), near(std::vector<double>(2 * kPorts, 10), 50);
  std::map<int32_t, size_t> live;
  Picoseconds now = 0;
  double sum = 0, sumExact = 0;
  for (int round = 0; round < 300; ++round, now += 10) {
    const auto one = static_cast<size_t>(below(1000));
    const int32_t id = near.start(routes[one], 1e12, 8, now);
    REQUIRE(exact.start(routes[one], 1e12, 8, now) == id);
    live[id] = one;
    if (round > 250) {
      const auto gone = std::next(live.begin(), below(static_cast<int>(live.size())));
      near.finish(gone->first);
      exact.finish(gone->first);
      live.erase(gone);
    }
    near.settle(now);
    exact.settle(now);
    std::vector<double> carried(2 * kPorts);
    for (const auto& [flow, route] : live) {
      REQUIRE(near.rateGBps(flow) > 0);
      for (const int32_t link : routes[route]) carried[static_cast<size_t>(link)] += near.rateGBps(flow);
      sum += near.rateGBps(flow);
      sumExact += exact.rateGBps(flow);
    }
    for (const double gbps : carried) REQUIRE(gbps <= 10 * (1 + 1e-9));
  }
  CHECK(sum == Approx(sumExact).epsilon(0.02));
}

TEST_CASE("a transfer that shares its link for a while ends when its bytes have passed") {
  Flows flows({10});
  const std::vector<int32_t> route = {0};
  const int32_t first = flows.start(route, 10'000, 100, 0);  // alone: 1 us
  auto endings = flows.settle(0);
  REQUIRE(endings.size() == 1);
  CHECK(endings[0].at == fromUs(1));
  const Flows::Ending told = endings[0];
  const int32_t second = flows.start(route, 2'500, 100, fromUs(0.5));  // half done: now 5 GB/s each
  endings = flows.settle(fromUs(0.5));
  REQUIRE(endings.size() == 2);
  CHECK_FALSE(flows.current(told));
  for (const auto& e : endings) CHECK(e.at == (e.flow == first ? fromUs(1.5) : fromUs(1)));
  flows.finish(second);
  endings = flows.settle(fromUs(1));
  REQUIRE(endings.size() == 1);
  CHECK(endings[0].at == fromUs(1.25));  // 2500 bytes are left, 10 GB/s again
}

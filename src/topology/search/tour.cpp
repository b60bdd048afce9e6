#include "src/topology/search/tour.hpp"

#include <algorithm>
#include <cstdint>

namespace tutti::topology {
namespace {

constexpr double kDear = 1e7, kLeastGain = 1e-7;  // the one stays exact to more than the other
constexpr int kMostSteps = 2000;

double costOf(const TourCosts& c, const std::vector<int>& order) {
  const auto at = [](int i) { return static_cast<size_t>(i); };
  double sum = c.first.empty() ? (c.n > 1 ? c.between[at(order.back()) * c.n + at(order.front())] : 0)
                               : c.first[at(order.front())] + c.last[at(order.back())];
  for (size_t i = 0; i + 1 < order.size(); ++i) sum += c.between[at(order[i]) * c.n + at(order[i + 1])];
  return sum;
}

/// [set] no way through the devices outside of the set is cheaper than this: each has to be come to, and the last left.
template <class Between, class Last>
std::vector<double> cheapestRest(size_t n, size_t nSets, const Between& between, const Last& last) {
  double leave = kNoWay;
  std::vector<double> come(n, kNoWay);
  for (size_t j = 0; j < n; ++j) {
    leave = std::min(leave, last(j));
    for (size_t i = 0; i < n; ++i) come[j] = i == j ? come[j] : std::min(come[j], between(i, j));
  }
  std::vector<double> rest(nSets, leave);
  for (size_t set = nSets - 1; set-- > 0;) {
    size_t j = 0;
    while (set >> j & 1) ++j;
    rest[set] = rest[set | size_t{1} << j] + come[j];
  }
  return rest;
}

std::vector<int> nearestFrom(const TourCosts& c, int start) {
  std::vector<int> order{start};
  std::vector<bool> used(c.n);
  used[static_cast<size_t>(start)] = true;
  while (order.size() < c.n) {
    int next = -1;
    for (size_t j = 0; j < c.n; ++j) {
      if (used[j]) continue;
      const double* row = &c.between[static_cast<size_t>(order.back()) * c.n];
      if (next < 0 || row[j] < row[static_cast<size_t>(next)]) next = static_cast<int>(j);
    }
    used[static_cast<size_t>(next)] = true;
    order.push_back(next);
  }
  return order;
}

/// Takes runs of up to three devices to where the tour gets cheaper, until none does.  The ends of `order` stay: -1 for
/// where a way comes from and goes to, or the device at which a closed tour begins and ends.
class Improver {
 public:
  explicit Improver(const TourCosts& costs) : c_(costs) {}

  void run(std::vector<int>& order) const {
    for (int i = 0; i < kMostSteps && step(order); ++i) {
    }
  }

 private:
  double edge(int a, int b) const {
    if (a < 0) return b < 0 ? 0 : c_.first.empty() ? 0 : c_.first[static_cast<size_t>(b)];
    if (b < 0) return c_.last.empty() ? 0 : c_.last[static_cast<size_t>(a)];
    return c_.between[static_cast<size_t>(a) * c_.n + static_cast<size_t>(b)];
  }

  bool step(std::vector<int>& order) const {
    const size_t n = order.size();
    for (size_t length = 1; length <= 3; ++length) {
      for (size_t from = 1; from + length < n; ++from) {
        const size_t end = from + length;
        const double gain =
            edge(order[from - 1], order[from]) + edge(order[end - 1], order[end]) - edge(order[from - 1], order[end]);
        if (!(gain > kLeastGain)) continue;
        for (size_t to = 0; to + 1 < n; ++to) {
          if (to + 1 >= from && to < end) continue;
          const double price =
              edge(order[to], order[from]) + edge(order[end - 1], order[to + 1]) - edge(order[to], order[to + 1]);
          if (!(gain - price > kLeastGain)) continue;
          const auto at = [&](size_t i) { return order.begin() + static_cast<ptrdiff_t>(i); };
          if (to < from)
            std::rotate(at(to + 1), at(from), at(end));
          else
            std::rotate(at(from), at(end), at(to + 1));
          return true;
        }
      }
    }
    return false;
  }

  const TourCosts& c_;
};

}  // namespace

double leastCost(const TourCosts& c) {
  double sum = 0, dearest = 0;
  for (size_t j = 0; j < c.n && c.n > 1; ++j) {
    double come = kNoWay;
    for (size_t i = 0; i < c.n; ++i) come = i == j ? come : std::min(come, c.between[i * c.n + j]);
    sum += come;
    dearest = std::max(dearest, come);
  }
  if (c.first.empty()) return sum;
  if (dearest == kNoWay) return *std::min_element(c.first.begin(), c.first.end());  // it may be the one to begin with
  return sum - dearest + *std::min_element(c.first.begin(), c.first.end()) +
         *std::min_element(c.last.begin(), c.last.end());
}

Tour cheapestTour(const TourCosts& c, double below) {
  // A closed tour begins at device 0, which needs no place in the sets then.
  const bool closed = c.first.empty();
  const size_t skip = closed && c.n > 1, n = c.n - skip, nSets = size_t{1} << n;
  const auto between = [&](size_t i, size_t j) { return c.between[(i + skip) * c.n + j + skip]; };
  const auto first = [&](size_t i) { return closed ? c.between[i + skip] : c.first[i]; };
  const auto last = [&](size_t i) { return closed ? c.between[(i + skip) * c.n] : c.last[i]; };
  if (c.n == 1) return {closed ? 0 : c.first[0] + c.last[0], {0}};

  const std::vector<double> rest = cheapestRest(n, nSets, between, last);
  std::vector<double> best(nSets * n, kNoWay);  // [set * n + last]: the cheapest way through the set that ends there
  for (size_t i = 0; i < n; ++i) best[(size_t{1} << i) * n + i] = first(i);
  for (size_t set = 1; set < nSets; ++set) {
    for (size_t i = 0; i < n; ++i) {
      const double so = best[set * n + i];
      if (so + rest[set] >= below) continue;
      for (size_t j = 0; j < n; ++j) {
        if (set >> j & 1) continue;
        double& there = best[(set | size_t{1} << j) * n + j];
        there = std::min(there, so + between(i, j));
      }
    }
  }
  Tour tour;
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    const double cost = best[(nSets - 1) * n + i] + last(i);
    if (cost >= std::min(below, tour.cost)) continue;
    tour.cost = cost;
    at = i;
  }
  if (tour.cost == kNoWay) return tour;
  // Backwards along equal sums.
  for (size_t set = nSets - 1;;) {
    tour.order.push_back(static_cast<int>(at + skip));
    const size_t before = set & ~(size_t{1} << at);
    if (before == 0) break;
    const double so = best[set * n + at];
    size_t i = 0;
    while (!(before >> i & 1) || best[before * n + i] + between(i, at) != so) ++i;
    at = i;
    set = before;
  }
  if (skip > 0) tour.order.push_back(0);
  std::reverse(tour.order.begin(), tour.order.end());
  return tour;
}

Tour goodTour(const TourCosts& costs, double below) {
  TourCosts c = costs;  // what must not be is very dear here, so that costs can be compared
  for (double& cost : c.between) cost = std::min(cost, kDear);
  for (double& cost : c.first) cost = std::min(cost, kDear);
  for (double& cost : c.last) cost = std::min(cost, kDear);
  const Improver improver(c);
  Tour best;
  const bool closed = c.first.empty();
  for (size_t start = 0; start < c.n; ++start) {
    std::vector<int> order = nearestFrom(c, static_cast<int>(start));
    if (!closed) order.insert(order.begin(), -1);
    order.push_back(closed ? order.front() : -1);
    improver.run(order);
    order.pop_back();
    if (!closed) order.erase(order.begin());
    const double cost = costOf(c, order);
    if (cost >= best.cost || cost >= kDear) continue;
    best = {cost, std::move(order)};
    if (best.cost < below) return best;
  }
  return best;
}

}  // namespace tutti::topology

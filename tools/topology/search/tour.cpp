#include "tools/topology/search/tour.hpp"

#include <algorithm>
#include <bit>
#include <memory>

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

/// [set] no way through the devices outside of the set is cheaper: each has to be come to, and the last left; or, which
/// is more where devices stand in near pairs, each is come to from one and left for another, half of each step its own.
template <class Between, class Last>
std::vector<double> cheapestRest(size_t n, size_t nSets, const Between& between, const Last& last) {
  double leave = kNoWay;
  std::vector<double> come(n, kNoWay), pass(n, kNoWay);
  for (size_t j = 0; j < n; ++j) {
    leave = std::min(leave, last(j));
    for (size_t i = 0; i < n; ++i) {
      if (i == j) continue;
      come[j] = std::min(come[j], between(i, j));
      pass[j] = std::min(pass[j], (between(i, j) + last(j)) / 2);
      for (size_t k = 0; k < n; ++k) {
        if (k != i && k != j) pass[j] = std::min(pass[j], (between(i, j) + between(j, k)) / 2);
      }
    }
  }
  std::vector<double> rest(nSets, leave), halves(nSets, leave / 2);
  for (size_t set = nSets - 1; set-- > 0;) {
    const size_t j = static_cast<size_t>(std::countr_one(set)), more = set | size_t{1} << j;
    rest[set] = rest[more] + come[j];
    halves[set] = halves[more] + pass[j];
  }
  for (size_t set = 0; set < nSets; ++set) rest[set] = std::max(rest[set], halves[set]);
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
  size_t unreached = 0;
  for (size_t j = 0; j < c.n && c.n > 1; ++j) {
    double come = kNoWay;
    for (size_t i = 0; i < c.n; ++i) come = i == j ? come : std::min(come, c.between[i * c.n + j]);
    unreached += come == kNoWay;
    if (come < kNoWay) dearest = std::max(dearest, come);
    if (come < kNoWay) sum += come;
  }
  if (unreached > (c.first.empty() ? 0 : 1)) return kNoWay;
  if (c.first.empty()) return sum;
  double ends = kNoWay;
  for (size_t i = 0; i < c.n; ++i) {
    for (size_t j = 0; j < c.n; ++j) {
      if (i != j || c.n == 1) ends = std::min(ends, c.first[i] + c.last[j]);
    }
  }
  return ends + sum - (unreached > 0 ? 0 : dearest);  // to the first one no other leads
}

Tour cheapestTour(const TourCosts& c, double below) {
  // A closed tour begins at device 0, which needs no place in the sets then.
  const bool closed = c.first.empty();
  const size_t skip = closed && c.n > 1, n = c.n - skip, nSets = size_t{1} << n;
  const auto between = [&](size_t i, size_t j) { return c.between[(i + skip) * c.n + j + skip]; };
  const auto first = [&](size_t i) { return closed ? c.between[i + skip] : c.first[i]; };
  const auto last = [&](size_t i) { return closed ? c.between[(i + skip) * c.n] : c.last[i]; };
  if (c.n == 1) {
    const double cost = closed ? 0 : c.first[0] + c.last[0];
    return cost < below ? Tour{cost, {0}} : Tour();
  }

  const std::vector<double> rest = cheapestRest(n, nSets, between, last);
  // [set * n + last]: the cheapest way through the set that ends there.  Most rows are never come to, nor touched.
  const std::unique_ptr<double[]> best(new double[nSets * n]);
  std::vector<char> alive(nSets);
  const auto offer = [&](size_t set, size_t j, double cost) {
    if (!(cost + rest[set] < below)) return;
    double* const row = &best[set * n];
    if (!alive[set]) std::fill(row, row + n, kNoWay);
    alive[set] = 1;
    row[j] = std::min(row[j], cost);
  };
  for (size_t i = 0; i < n; ++i) offer(size_t{1} << i, i, first(i));
  for (size_t set = 1; set < nSets; ++set) {
    for (size_t i = 0; alive[set] && i < n; ++i) {
      const double so = best[set * n + i];
      if (so == kNoWay) continue;
      for (size_t left = nSets - 1 - set; left != 0; left &= left - 1) {
        const size_t j = static_cast<size_t>(std::countr_zero(left));
        offer(set | size_t{1} << j, j, so + between(i, j));
      }
    }
  }
  if (!alive[nSets - 1]) return {};
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

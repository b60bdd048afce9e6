#include "tools/topology/search/columns.hpp"

#include <algorithm>
#include <map>

namespace tutti::topology {
namespace {

// Among equal prices the nearer class, the shorter way and the next device in order win.  Far below any real price.
constexpr double kClassBias = 1e-9, kHopBias = 1e-10, kOrderBias = 1e-12;
constexpr double kAllBias = 1e-6;   // above what they add up to in any column
constexpr size_t kQuickExact = 11;  // up to here exact search takes no longer than a good guess

}  // namespace

int treePortUse(int nHosts) { return nHosts < 2 ? 0 : nHosts == 2 ? 1 : 2; }

double ColumnFinder::priceOf(const Route& route, const std::vector<double>& prices, PathClass most) const {
  if (route.type > most || route.type == PathClass::Dis) return kNoWay;
  double sum = kClassBias * static_cast<double>(route.type) + kHopBias * static_cast<double>(route.arcs.size());
  for (const int arc : route.arcs) sum += prices[static_cast<size_t>(arc)];
  return sum;
}

/// `port`: the only one that may be used; -1 for all.
TourCosts ColumnFinder::costsFor(int port, const std::vector<double>& prices, Ends* ends) const {
  const size_t n = m_.nDevices();
  const bool tree = rules_.pattern == Pattern::Tree;
  TourCosts costs;
  costs.n = n;
  costs.between.assign(n * n, kNoWay);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      double& cost = costs.between[i * n + j];
      cost = priceOf(m_.between[i][j], prices, rules_.intra) + kOrderBias * static_cast<double>((j + n - i - 1) % n);
      if (tree) cost += priceOf(m_.between[j][i], prices, rules_.intra);
    }
  }
  ends->entry.assign(n, -1);
  ends->exit.assign(n, -1);
  if (rules_.nHosts < 2 && !tree) return costs;
  const double apart = rules_.nHosts < 2 ? 0 : kNoWay;
  costs.first.assign(n, apart);
  costs.last.assign(n, tree ? 0 : apart);
  const size_t from = port < 0 ? 0 : static_cast<size_t>(port);
  const size_t to = rules_.nHosts < 2 ? 0 : port < 0 ? m_.nPorts() : from + 1;
  for (size_t i = 0; i < n; ++i) {
    const auto take = [&](double cost, size_t p, double* least, int* which) {
      if (cost >= *least) return;
      *least = cost;
      *which = static_cast<int>(p);
    };
    for (size_t p = from; p < to; ++p) {
      const double in = priceOf(m_.fromPort[p][i], prices, rules_.inter);
      const double out = priceOf(m_.toPort[i][p], prices, rules_.inter);
      take(tree ? treePortUse(rules_.nHosts) * (in + out) : in, p, &costs.first[i], &ends->entry[i]);
      if (!tree) take(out, p, &costs.last[i], &ends->exit[i]);
    }
  }
  return costs;
}

Column ColumnFinder::columnOf(int entry, int exit, std::vector<int> order) const {
  std::map<int, int> use;
  const auto take = [&](const Route& route, int times) {
    for (const int arc : route.arcs) use[arc] += times;
  };
  const auto at = [](int i) { return static_cast<size_t>(i); };
  const bool tree = rules_.pattern == Pattern::Tree;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    take(m_.between[at(order[i])][at(order[i + 1])], 1);
    if (tree) take(m_.between[at(order[i + 1])][at(order[i])], 1);
  }
  const size_t front = at(order.front()), back = at(order.back());
  if (entry >= 0) {
    take(m_.fromPort[at(entry)][front], tree ? treePortUse(rules_.nHosts) : 1);
    take(tree ? m_.toPort[front][at(exit)] : m_.toPort[back][at(exit)], tree ? treePortUse(rules_.nHosts) : 1);
  } else if (!tree && order.size() > 1) {
    take(m_.between[back][front], 1);
  }
  return {entry, exit, std::move(order), {use.begin(), use.end()}};
}

double ColumnFinder::costOf(const Column& column, const std::vector<double>& prices) const {
  double sum = 0;
  for (const auto& [arc, times] : column.use) sum += times * prices[static_cast<size_t>(arc)];
  return sum;
}

std::optional<Column> ColumnFinder::through(int port, const std::vector<double>& prices, double below,
                                            bool* proven) const {
  Ends ends;
  const TourCosts costs = costsFor(port, prices, &ends);
  if (proven != nullptr) *proven = true;
  if (!(leastCost(costs) < below + kAllBias)) return {};
  const auto column = [&](const Tour& tour) -> std::optional<Column> {
    if (tour.cost == kNoWay) return {};
    const int entry = ends.entry[static_cast<size_t>(tour.order.front())];
    const int exit = rules_.pattern == Pattern::Tree ? entry : ends.exit[static_cast<size_t>(tour.order.back())];
    Column found = columnOf(entry, exit, tour.order);
    if (!(costOf(found, prices) < below)) return {};
    return found;
  };
  if (costs.n > kQuickExact) {
    if (proven != nullptr) *proven = false;
    if (auto found = column(goodTour(costs, below))) return found;
    if (costs.n > kMostExact || proven == nullptr) return {};
  }
  if (proven != nullptr) *proven = true;
  return column(cheapestTour(costs, below + kAllBias));
}

std::optional<Column> ColumnFinder::any(const std::vector<double>& prices, double below, bool* proven) {
  if (!coupled()) return through(-1, prices, below, proven);
  *proven = true;
  const size_t first = next_;
  for (size_t k = 0; k < m_.nPorts(); ++k) {
    const size_t port = (first + k) % m_.nPorts();
    bool exact = false;
    auto found = through(static_cast<int>(port), prices, below, &exact);
    *proven = *proven && exact;
    if (!found) continue;
    next_ = port + 1;
    return found;
  }
  return {};
}

std::optional<Column> ColumnFinder::best(const std::vector<double>& prices, double below, bool exact) const {
  bool proven = false;
  bool* const prove = exact ? &proven : nullptr;
  if (!coupled()) return through(-1, prices, below, prove);
  std::optional<Column> best;
  for (size_t port = 0; port < m_.nPorts(); ++port) {
    auto found = through(static_cast<int>(port), prices, below, prove);
    if (!found) continue;
    below = costOf(*found, prices);
    best = std::move(found);
  }
  return best;
}

Column reversed(Column column) {
  std::swap(column.entry, column.exit);
  std::reverse(column.order.begin(), column.order.end());
  for (auto& use : column.use) use.first ^= 1;
  std::sort(column.use.begin(), column.use.end());
  return column;
}

}  // namespace tutti::topology

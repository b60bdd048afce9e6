#include "tools/topology/search/packing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "tools/topology/search/simplex.hpp"

namespace tutti::topology {
namespace {

constexpr double kSlack = 1e-6;    // relative; far above the simplex's shifts, far below any link's rounding
constexpr int kMostColumns = 600;  // made in one search; the known machines need at most some fifty

/// Rates so that every arc holds exactly: the simplex works on capacities that are shifted by parts in 10^7.
void fit(const HostModel& model, Packing* packing) {
  std::vector<double> load(model.capacity.size());
  for (size_t c = 0; c < packing->columns.size(); ++c) {
    for (const auto& [arc, times] : packing->columns[c].use)
      load[static_cast<size_t>(arc)] += times * packing->rates[c];
  }
  double over = 1;
  for (size_t a = 0; a < load.size(); ++a) over = std::max(over, load[a] / model.capacity[a]);
  packing->total = 0;
  for (double& rate : packing->rates) packing->total += rate /= over;
}

/// Whole channels in every arc, and what is left of them.
class Room {
 public:
  Room(const HostModel& model, double gbps) {
    for (const double capacity : model.capacity) {
      left_.push_back(static_cast<int>(std::min(1e6, std::floor(capacity / gbps * (1 + kSlack) + kSlack))));
    }
  }
  bool holds(const Column& column) const {
    return std::all_of(column.use.begin(), column.use.end(),
                       [&](const auto& use) { return left_[static_cast<size_t>(use.first)] >= use.second; });
  }
  void take(const Column& column) {
    for (const auto& [arc, times] : column.use) left_[static_cast<size_t>(arc)] -= times;
  }
  /// Scarce arcs are dear, those without room prohibitive.  `seed` shakes the prices; 0 leaves them.
  std::vector<double> prices(uint32_t seed) const {
    std::vector<double> prices;
    for (const int left : left_) {
      double price = left <= 0 ? kClosed : 1.0 / left;
      if (seed != 0) {
        seed = seed * 1664525u + 1013904223u;
        price *= 1 + (seed >> 24) / 128.0;
      }
      prices.push_back(price);
    }
    return prices;
  }
  static constexpr double kClosed = 1e6;

 private:
  std::vector<int> left_;
};

/// Columns one after the other, each where most room is left, until none fits.
void fill(const ColumnFinder& finder, Room& room, uint32_t seed, size_t most, bool exact,
          std::vector<Column>* channels) {
  while (channels->size() < most) {
    const auto column = finder.best(room.prices(seed), Room::kClosed, exact);
    if (!column || !room.holds(*column)) return;
    room.take(*column);
    channels->push_back(*column);
    if (seed != 0) ++seed;
  }
}

}  // namespace

Packing packFractions(const HostModel& model, const ColumnRules& rules) {
  ColumnFinder finder(model, rules);
  Simplex simplex(model.capacity);
  Packing packing;
  double bound = kNoWay;
  bool proven = false;
  for (int made = 0; made < kMostColumns && simplex.settle(); ++made) {
    auto column = finder.any(simplex.prices(), 1 - kSlack, &proven);
    if (!column) {
      // Prices at which no column costs less than 1 bound every packing by what all capacity together costs.
      const std::vector<double> prices = simplex.prices();
      if (proven) bound = std::inner_product(prices.begin(), prices.end(), model.capacity.begin(), 0.0);
      for (size_t a = 0; a < prices.size(); ++a) {
        if (prices[a] > 1e-6) packing.full.push_back(static_cast<int>(a));
      }
      break;
    }
    if (column->use.empty()) break;
    Column back = reversed(*column);
    simplex.enter(std::move(*column));
    const bool fits = rules.pattern == Pattern::Ring && (rules.crossNic || back.entry == back.exit);
    if (fits && finder.costOf(back, simplex.prices()) < 1 - kSlack) simplex.enter(std::move(back));
  }
  simplex.solution(&packing.columns, &packing.rates);
  fit(model, &packing);
  packing.bound = bound == kNoWay ? 0 : bound / (1 - kSlack);
  return packing;
}

std::vector<Column> packChannels(const HostModel& model, const ColumnRules& rules, const Packing& fractions,
                                 double gbps, size_t most, int tries) {
  const ColumnFinder finder(model, rules);
  const size_t goal = std::min(most, static_cast<size_t>(fractions.total / gbps * (1 + kSlack) + 1e-3));
  Room room(model, gbps);
  std::vector<Column> best;
  for (size_t c = 0; c < fractions.columns.size(); ++c) {
    const size_t times = static_cast<size_t>(fractions.rates[c] / gbps * (1 + kSlack) + 1e-3);
    for (size_t i = 0; i < times && best.size() < goal && room.holds(fractions.columns[c]); ++i) {
      room.take(fractions.columns[c]);
      best.push_back(fractions.columns[c]);
    }
  }
  fill(finder, room, 0, goal, /*exact=*/tries > 0, &best);
  for (int attempt = 1; attempt <= tries && best.size() < goal; ++attempt) {
    Room anew(model, gbps);
    std::vector<Column> channels;
    fill(finder, anew, static_cast<uint32_t>(attempt) * 7919u, goal, /*exact=*/false, &channels);
    if (channels.size() > best.size()) best = std::move(channels);
  }
  return best;
}

}  // namespace tutti::topology

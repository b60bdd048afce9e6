// The cheapest order in which to pass all devices of a host once, for given costs of going from one to another.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace tutti::topology {

constexpr double kNoWay = std::numeric_limits<double>::infinity();

struct TourCosts {
  size_t n = 0;
  std::vector<double> between;  // [i * n + j] from i to j; kNoWay where that must not be
  /// Costs of beginning at i and of ending at i.  Both empty: a closed tour.
  std::vector<double> first, last;
};

struct Tour {
  double cost = kNoWay;  // kNoWay: there is none
  std::vector<int> order;
};

/// No tour is cheaper: every device has to be come to from one of the others, and the ends differ.  n^2 steps.
double leastCost(const TourCosts& costs);

/// Beyond this many devices exact search would take seconds.
constexpr size_t kMostExact = 16;

/// By dynamic programming over subsets (Held & Karp 1962): n^2 2^n steps, less those on which no tour of less than
/// `below` can lie.  None if there is no such tour.  n in 1..kMostExact.
Tour cheapestTour(const TourCosts& costs, double below);

/// A good one, without proof: from the nearest neighbours of every start, runs of devices are moved elsewhere.  The
/// first that costs less than `below` is taken.  n >= 1.
Tour goodTour(const TourCosts& costs, double below);

}  // namespace tutti::topology

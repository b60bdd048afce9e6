// How much of rings or chains fits through a host at once: the fractional packing, solved exactly by linear programming
// with columns made on demand, and the packing of channels of one speed that comes nearest to it.
#pragma once

#include <vector>

#include "tools/topology/search/columns.hpp"

namespace tutti::topology {

/// max sum(rate) such that no arc carries more than its capacity.
struct Packing {
  double total = 0;             // GB/s; 0: there is no ring at all
  double bound = 0;             // no packing is above it; 0 if not proven
  std::vector<Column> columns;  // with rates above 0
  std::vector<double> rates;
  std::vector<int> full;  // arcs that bound the total: with a price above 0 at the optimum
};

Packing packFractions(const HostModel& model, const ColumnRules& rules);

/// At most `most` channels of `gbps` each, as many as were found to fit: first as the fractional packing has them,
/// then, if that is not all, `tries` times from nothing with other preferences each time.
std::vector<Column> packChannels(const HostModel& model, const ColumnRules& rules, const Packing& fractions,
                                 double gbps, size_t most, int tries);

}  // namespace tutti::topology

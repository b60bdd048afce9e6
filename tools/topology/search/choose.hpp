// Channels of one speed, equally many through every kind of host, that come near to what the hosts can carry.
#pragma once

#include <vector>

#include "tools/topology/search/host_search.hpp"
#include "tools/topology/search/machine.hpp"

namespace tutti::topology {

struct Chosen {
  double gbps = 0;
  std::vector<std::vector<Column>> columns;  // [model], equally many each
  size_t count() const { return columns.empty() ? 0 : columns.front().size(); }
  double total() const { return gbps * static_cast<double>(count()); }
};

/// `searched`: [model] of the machine, totals above 0.  No channel is faster than `highest` GB/s, nor are there more
/// than `most`.  Channel c of every kind of host is on the same rail where they have it.
Chosen chooseChannels(const Machine& machine, const std::vector<Searched>& searched, double highest, size_t most);

}  // namespace tutti::topology

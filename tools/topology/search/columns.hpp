// What the search may choose from on one host: rings and chains as columns of a packing problem (how often each arc is
// used by one unit of data), found for given prices of the arcs.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/search/host_model.hpp"
#include "tools/topology/search/tour.hpp"

namespace tutti::topology {

/// One ring or chain through a host; devices and ports by their place in the model.
struct Column {
  int entry = -1, exit = -1;
  std::vector<int> order;
  std::vector<std::pair<int, int>> use;  // arc, how often; ascending arcs
};

struct ColumnRules {
  Pattern pattern = Pattern::Ring;
  int nHosts = 1;
  bool crossNic = false;                                     // entry and exit may differ
  PathClass intra = PathClass::Dis, inter = PathClass::Dis;  // no hop of a farther class
};

/// The same ring the other way round: all links carry as much in both directions.
Column reversed(Column column);

/// How often a tree crosses its port in each direction, in the mean of its two forms: of two binary trees every host is
/// a leaf of one (one way up, one down) and has at most two below it in the other.
int treePortUse(int nHosts);

class ColumnFinder {
 public:
  ColumnFinder(const HostModel& model, const ColumnRules& rules) : m_(model), rules_(rules) {}

  /// A column that costs less than `below`; nothing if none was found.  `proven` tells whether there is none then.
  std::optional<Column> any(const std::vector<double>& prices, double below, bool* proven);
  /// The cheapest, over all ports; without `exact` only a good one, or none, where there are many devices.
  std::optional<Column> best(const std::vector<double>& prices, double below, bool exact) const;

  double costOf(const Column& column, const std::vector<double>& prices) const;

 private:
  /// The ends of a way that begins and ends at each device; -1 inside a single host.
  struct Ends {
    std::vector<int> entry, exit;  // [device] the cheapest port
  };
  std::optional<Column> through(int port, const std::vector<double>& prices, double below, bool* proven) const;
  TourCosts costsFor(int port, const std::vector<double>& prices, Ends* ends) const;
  Column columnOf(int entry, int exit, std::vector<int> order) const;
  double priceOf(const Route& route, const std::vector<double>& prices, PathClass most) const;
  /// Whether rings must leave by the port that they came in by: every port is a search of its own then.
  bool coupled() const { return rules_.nHosts > 1 && rules_.pattern == Pattern::Ring && !rules_.crossNic; }

  const HostModel& m_;
  ColumnRules rules_;
  size_t next_ = 0;  // port that any() tries first, so that all get their turn
};

}  // namespace tutti::topology

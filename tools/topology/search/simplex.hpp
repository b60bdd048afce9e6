// The primal simplex method for packing problems whose columns are made on demand:
//   max sum(x), sum(x_c * use_c[a]) <= capacity[a] for every arc a, x >= 0.
// Keeps the inverse of the basis; a step costs (number of arcs)^2.  Capacities are shifted by parts in 10^7, each arc's
// by another, so that no two arcs are exhausted at the same point and the method can't go in circles.
#pragma once

#include <vector>

#include "tools/topology/search/columns.hpp"

namespace tutti::topology {

class Simplex {
 public:
  explicit Simplex(const std::vector<double>& capacity);

  /// What one GB/s on an arc is worth in GB/s of the total.  Never negative after settle().
  std::vector<double> prices() const;
  /// Take a column that costs less than 1 into the solution.
  void enter(Column column);
  /// Give back arcs that cost less than nothing; false if a bound on steps was met.
  bool settle();

  double total() const;
  /// Columns with rates above 0.
  void solution(std::vector<Column>* columns, std::vector<double>* rates) const;

 private:
  void pivot(const std::vector<double>& direction, int variable);

  size_t n_;
  std::vector<double> inverse_;  // [row * n + column]
  std::vector<double> level_;    // [row] value of the basic variable
  std::vector<int> basic_;       // [row] arc (its slack) if below n, else n + index of a column
  std::vector<Column> columns_;
};

}  // namespace tutti::topology

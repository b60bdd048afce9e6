// The list of a model's parameters: what each is called, what part of it this rank holds, what it begins as.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "examples/gpt/layout.hpp"
#include "tutti/parallel/dp.h"

namespace gpt {

/// A parameter is a matrix of rows x columns; this rank holds rows [row0, row1) and columns [column0, column1).
struct Parameter {
  std::string name;
  int64_t rows, columns;
  int64_t row0, row1, column0, column1;
  int unit;       // what is gathered together: embedding, each layer, head
  double spread;  // of the initial values around `middle`
  double middle = 0;
  bool copy = false;  // replicated over the tensor-parallel group, and this is not the first of it
  bool decays = true;
  bool expert = false;  // lies on one of the ranks over experts only
  int64_t like = -1;    // begins as the elements from that position on; -1: its own
  int64_t first = 0;    // position of element 0 in the list of all parameters' elements

  int64_t count() const { return (row1 - row0) * (column1 - column0); }
  int64_t whole() const { return rows * columns; }
  /// Elements [begin, end) of this rank's part as runs: offset in the part, position in the whole, length.
  void runs(int64_t begin, int64_t end, const std::function<void(int64_t, int64_t, int64_t)>& each) const;
};

/// Values that depend on nothing but the parameter and the position: every layout begins with the same model.
template <class T>
std::vector<T> initialValues(const Parameter& p);

}  // namespace gpt

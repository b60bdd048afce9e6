// What finding roles is made of; for roles.cpp and classes.cpp.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "src/sim/roles.hpp"

namespace tutti::sim {

/// shape->rank is set on the way.
std::shared_ptr<const Program> buildProgram(const ProgramSource& source, Shape* shape, int rank);

/// Which edge leads to a rank, -1 if none does, for many questions.
class EdgeIndex {
 public:
  explicit EdgeIndex(const std::vector<int32_t>& edges);
  int of(int rank) const;

 private:
  std::vector<std::pair<int32_t, int32_t>> sorted_;
};

Status unmatched(int from, int to);

}  // namespace tutti::sim

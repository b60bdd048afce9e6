// Shapes to test algorithms on, and the schedules of all their ranks.
#pragma once

#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "src/base/text.hpp"

namespace tutti {

inline std::vector<Schedule> buildAll(const Algorithm& algorithm, Shape shape) {
  std::vector<Schedule> schedules;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) schedules.push_back(algorithm.build(shape));
  return schedules;
}

inline std::string describe(const Algorithm& algorithm, const Shape& shape) {
  std::string text = cat(collectiveKey(algorithm.collective), " ", algorithm.name, " ranks ", shape.nRanks, " root ",
                         shape.root, shape.inPlace ? " in place" : "", " bytes ", shape.bytes, " nodes");
  for (int node : shape.nodeOf) text += cat(" ", node);
  for (const std::vector<int>& level : shape.inner) {
    text += ", groups";
    for (int group : level) text += cat(" ", group);
  }
  if (!shape.railOf.empty()) text += ", rails";
  for (int rail : shape.railOf) text += cat(" ", rail);
  for (LevelPart part : shape.parts) text += cat(" ", levelPartName(part));
  return text;
}

/// Ways to put ranks on nodes: two halves, nodes of 4 (the last smaller), nodes of sizes 1, 2, 3, ..., ranks dealt out
/// to three nodes in turn, a node per rank.
inline std::vector<std::vector<int>> nodeShapes(int nRanks) {
  std::vector<std::vector<int>> shapes(5, std::vector<int>(nRanks));
  for (int r = 0; r < nRanks; ++r) {
    shapes[0][r] = 2 * r / nRanks;
    shapes[1][r] = r / 4;
    int node = 0;
    for (int first = 0; first + node + 1 <= r; ++node) first += node + 1;
    shapes[2][r] = node;
    shapes[3][r] = r % 3;
    shapes[4][r] = r;
  }
  return shapes;
}

}  // namespace tutti

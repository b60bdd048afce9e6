#include "tools/sim/fill.hpp"

#include <cstdio>

#include "src/base/text.hpp"

namespace tutti::sim {

int ranksOf(const PublishedSet& set, const PublishedPoint& point) {
  return point.ranks > 0 ? point.ranks : set.ranksPerNode;
}

std::string filled(const PublishedSet& set, const char* cluster, const std::vector<double>& constants,
                   const PublishedPoint& point) {
  std::string text;
  for (const char* c = cluster; *c != 0; ++c) {
    if (*c != '$') {
      text += *c;
    } else if (*++c == 'N') {
      text += cat(point.nodes);
    } else if (*c == 'R') {
      text += cat(ranksOf(set, point));
    } else {
      char number[32];
      std::snprintf(number, sizeof number, "%.6g", constants[static_cast<size_t>(*c - 'a')]);
      text += number;
    }
  }
  return text;
}

}  // namespace tutti::sim

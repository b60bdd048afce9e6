// A lane as text, for comparing.
#pragma once

#include <string>

#include "src/schedule/schedule.hpp"

namespace tutti {

inline std::string opsOf(const Schedule& schedule, size_t lane = 0) {
  std::string text;
  for (const Op& op : schedule.lanes[lane].ops) text += toString(op) + "; ";
  return text;
}

}  // namespace tutti

// A report as one HTML file that needs no other file and no network.
#pragma once

#include <string>
#include <vector>

#include "tools/report/measure.hpp"

namespace tutti::report {

struct Report {
  Options options;
  Machine machine;
  std::vector<CollectiveResult> collectives;
  std::vector<CopyRate> copies;
};

std::string toHtml(const Report& report);

}  // namespace tutti::report

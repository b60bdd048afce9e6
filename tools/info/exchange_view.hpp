// `tutti-info --import` and `--export`: plans of MSCCL and MSCCL++ in and out.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace tutti {

struct ExchangeQuestion {
  std::string file;  // to import
  std::vector<std::string>
      exported;  // format (msccl, mscclpp) and algorithm (COLLECTIVE:NAME, or a NAME that is unique)
  int ranks = 2;
  bool inPlace = false;

  bool asked() const { return !file.empty() || !exported.empty(); }
};

/// The imported plan's schedules and what it is for; then the text of the exported plan.
/// Errors: InvalidUsage with what is wrong with the question; why the plan is refused; what cannot be expressed.
Result<std::string> exchangeView(const ExchangeQuestion& question);

}  // namespace tutti

// Errors that programs and ranks make, for the golden file of their messages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::errors {

/// Names of mistakes, and what the library says of each.
class Cases {
 public:
  /// A call that is a mistake, on the calling thread.
  void add(const char* name, tuttiResult_t result) {
    said_.emplace_back(name, result == tuttiSuccess ? "no error" : tuttiGetLastError(nullptr));
  }
  void addText(const char* name, std::string text) { said_.emplace_back(name, std::move(text)); }
  const std::vector<std::pair<std::string, std::string>>& all() const { return said_; }

 private:
  std::vector<std::pair<std::string, std::string>> said_;
};

/// Of calls without a communicator.
void addProcessCases(Cases* cases);
/// Wrong arguments on rank 0 of two ranks.
void addArgumentCases(Cases* cases);
/// Ranks that disagree, leave, or never come.
void addRankCases(Cases* cases);

}  // namespace tutti::errors

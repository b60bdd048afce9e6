// All algorithms of a collective over message sizes: a table and a picture.
#pragma once

#include "tools/sim/ask.hpp"

namespace tutti::sim {

struct CompareOptions {
  std::string least = "1K", most = "1G";
  int factor = 4;
  std::string svgFile;
  bool json = false;
};

/// From least to most.  Errors: InvalidUsage.
Result<std::vector<size_t>> sizesOf(const CompareOptions& options);

/// Microseconds, one line a size, the fastest of each marked.  An algorithm that does not work here has no column, and
/// a line that says why.  Errors: InvalidUsage; those of simulations.
Result<std::string> compare(const Network& network, const Asked& asked, const CompareOptions& options);

}  // namespace tutti::sim

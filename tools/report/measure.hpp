// What a report shows, asked of the programs that are installed beside it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace tutti::report {

struct Options {
  std::string out = "tutti-report.html";
  int nRanks = 0;  // 0: one for each core, 2 at least and 8 at most
  size_t least = 8, most = size_t{32} << 20;
  std::vector<std::string> collectives;  // names of perf programs without _perf; empty: all
};

/// What one call of one size took, and what was expected.
struct SizeResult {
  size_t bytes = 0;
  double timeUs = 0, busbw = 0;            // out of place; GB/s
  double p10Us = 0, p90Us = 0;             // 0: not known
  double inPlaceUs = 0, inPlaceBusbw = 0;  // 0: the collective has none
  double expectedUs = 0;
  std::string plan;  // "ring/slots/2"
  size_t wrong = 0;
};
struct CollectiveResult {
  std::string name;     // "all_reduce"
  std::string failure;  // why there are no sizes
  std::vector<SizeResult> sizes;
};

struct Finding {
  std::string verdict, subject, what, remedy;
};

/// GB/s that each rank copies when all do at once, in blocks of so many bytes.
struct CopyRate {
  size_t bytes = 0;
  double gbps = 0;
};

struct Machine {
  std::string host, processor, library, when, topologySvg, topologyText;
  int cores = 0;
  std::vector<Finding> findings;
  std::vector<std::string> settings;  // "TUTTI_ALGO=ring", of those that are set
};

/// Told before each part: how many are done, of how many, and what comes.
using Tell = std::function<void(size_t done, size_t all, const std::string& what)>;

/// All collectives that have a program, in the order of a report.
const std::vector<std::string>& allCollectives();

Machine lookAtMachine();
/// One after the other, each among options.nRanks processes.
std::vector<CollectiveResult> measureCollectives(const Options& options, const Tell& tell);
/// With as many threads as there are ranks.
std::vector<CopyRate> measureCopies(const Options& options);

/// What a program prints; its exit status in `status`.  Errors: SystemError, it cannot be started.
Result<std::string> outputOf(const std::vector<std::string>& command, int* status);
/// The path of a program of Tutti's: beside this one, or in the build folder.
std::string programPath(const std::string& name);

}  // namespace tutti::report

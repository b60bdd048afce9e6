// The command line, with nccl-tests' flags, and the sizes of a sweep.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "perf/common/types.hpp"

namespace tutti::perf {

enum class Average { Rank0 = 0, Mean = 1, Min = 2, Max = 3 };

struct Options {
  int threads = 1;         // -t: ranks as threads of this process
  int ranksPerThread = 1;  // -g: communicators that one thread drives in groups
  size_t minBytes = size_t{32} << 20;
  size_t maxBytes = size_t{32} << 20;
  size_t stepBytes = size_t{1} << 20;
  size_t stepFactor = 1;  // above 1: multiply instead of adding stepBytes
  int iterations = 20;
  int warmup = 1;
  int aggregate = 1;  // -m: calls per group
  int cycles = 1;     // -N: the whole sweep; 0: for ever
  bool parallelInit = true;
  int checks = 1;  // -c: checked calls per row and placement; 0: none
  std::vector<OpInfo> ops;
  std::vector<TypeInfo> types;
  int root = 0;
  bool allRoots = false;
  int blocking = 0;        // -z: above 0: all ranks meet after every call
  bool nullStream = true;  // -y: 0 uses a host stream per rank
  int timeoutS = 0;        // -T: 0: the library's own deadline
  bool cpuTime = false;
  Average average = Average::Mean;
  int registration = 0;  // -R: 1: tuttiMemAlloc and tuttiCommRegister
  bool timestamps = false;
  std::string jsonPath;
  std::string plotPath;
  bool wantsCallTimes() const { return perIteration || !plotPath.empty(); }
  bool reportMemory = false;
  size_t misalignBytes = 0;  // -u: buffers begin this far behind an aligned address
  bool adopt = false;        // buffers of malloc, registered
  bool fresh = false;        // new data before each timed call, outside of the time
  bool perIteration = false;
  int skipIterations = 0;          // -K: of the per-iteration statistics
  std::vector<std::string> notes;  // accepted flags that do nothing on host memory, one sentence each
};

/// What to do after reading the command line.
struct ParsedOptions {
  std::optional<Options> options;
  int exitCode = 0;  // if there are no options: print text (to stderr if exitCode is not 0) and leave
  std::string text;
};
ParsedOptions parseOptions(int argc, char** argv, bool reduces);

/// "32M" -> 33554432; suffixes K, M, G, T are binary, fractions allowed ("1.5M").  Nothing on anything else.
std::optional<size_t> parseSize(const std::string& text);

/// Whose memory the buffers are: "malloc", "libtutti_malloc.so" where that is preloaded, either with ", registered"
/// (--adopt), or "tuttiMemAlloc, registered" (-R).
std::string memoryName(const Options& options);

/// Bytes of every row of a sweep, smallest first.
std::vector<size_t> sweepSizes(const Options& options);

}  // namespace tutti::perf

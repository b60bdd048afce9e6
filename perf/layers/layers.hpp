// What the parts of layer_perf have in common.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "perf/common/small_program.hpp"
#include "tutti/parallel/parallel.hpp"

namespace tutti::perf {

/// A flag's value or what is usual; flags that are not known end the program.
struct LayerOptions {
  int64_t width = 512, layers = 8, rows = 64;  // matrices of width x width, rows of the activation per rank
  int steps = 15, rounds = 3;
  std::vector<int64_t> tokens = {512, 1024, 2048, 4096, 8192};
  bool dpOnly = false;  // a line for scripts
};

/// Time and memory of attention by growing sequences: in tiles, and with all scores at once.
void measureAttention(const LayerOptions& options);
/// Steps of data, sharded, tensor and pipeline parallelism: communication that is waited for, without and with overlap.
void measureSteps(const LayerOptions& options);

inline double nowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The median of `steps` calls, each of which ends on all ranks about together.
template <class Step>
double medianMs(int steps, const Step& step) {
  step();
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    const double start = nowMs();
    step();
    times.push_back(nowMs() - start);
  }
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  return times[static_cast<size_t>(steps / 2)];
}

}  // namespace tutti::perf

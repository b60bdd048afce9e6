#include "perf/ways/halves.hpp"

#include <algorithm>
#include <limits>

namespace tutti::perf {

namespace {

/// Of the even rounds (half 0) or of the odd ones.
double medianUs(const Way& way, size_t half) {
  Way part;
  for (size_t i = half; i < way.timesUs.size(); i += 2) part.timesUs.push_back(way.timesUs[i]);
  return part.medianUs();
}

const Way& bestOf(std::span<const Way> ways, size_t half) {
  return *std::ranges::min_element(ways, {}, [half](const Way& way) { return medianUs(way, half); });
}

}  // namespace

ByHalves judgeByHalves(std::span<const Way> ways, size_t choice) {
  if (ways[choice].timesUs.size() < 2)
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  double logLoss = 0, logNoise = 0;
  for (const size_t half : {0, 1}) {
    const double pickedUs = medianUs(bestOf(ways, 1 - half), half);
    logLoss += std::log(medianUs(ways[choice], half) / pickedUs);
    logNoise += std::log(pickedUs / medianUs(bestOf(ways, half), half));
  }
  return {std::exp(logLoss / 2) - 1, std::exp(logNoise / 2) - 1};
}

}  // namespace tutti::perf

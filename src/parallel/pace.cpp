// Stragglers: medians of step times, and shares by speed.
#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "src/parallel/group.hpp"
#include "tutti/parallel/ft.h"

using namespace tutti::parallel;

struct tuttiPace {
  explicit tuttiPace(tuttiComm_t comm) : device(deviceOf(comm, TUTTI_DEVICE_HOST)), group(comm, *device) {}
  std::shared_ptr<Device> device;  // first: ends last
  Group group;
  tuttiPaceConfig_t config = TUTTI_PACE_CONFIG_INITIALIZER;
  std::deque<double> perUnit;  // milliseconds
};

namespace {
double medianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}
}  // namespace

tuttiResult_t tuttiPaceCreate(tuttiPace_t* pace, tuttiComm_t comm, const tuttiPaceConfig_t* config) {
  return guardedIf(pace != nullptr, "pace is NULL", [&] {
    *pace = nullptr;
    auto made = std::make_unique<tuttiPace>(comm);
    made->config = takeConfig(config, made->config, "config");
    require(made->config.window >= 1 && made->config.ratio >= 1, "window is ", made->config.window, ", ratio ",
            made->config.ratio);
    *pace = made.release();
  });
}

tuttiResult_t tuttiPaceDestroy(tuttiPace_t pace) {
  return guarded([&] { delete pace; });
}

tuttiResult_t tuttiPaceStep(tuttiPace_t pace, double milliseconds, double share) {
  return guarded([&] {
    require(pace != nullptr && milliseconds >= 0 && std::isfinite(milliseconds) && share > 0, "pace is NULL, or ",
            milliseconds, " ms for ", share, " units");
    pace->perUnit.push_back(milliseconds / share);
    if (pace->perUnit.size() > static_cast<size_t>(pace->config.window)) pace->perUnit.pop_front();
  });
}

tuttiResult_t tuttiPaceShares(tuttiPace_t pace, int64_t total, int64_t* cuts, int* slowest, double* ratio) {
  return guarded([&] {
    require(pace != nullptr && cuts != nullptr && total >= 0, "pace or cuts is NULL, or total is ", total);
    const size_t n = static_cast<size_t>(pace->group.size());
    std::vector<double> times(n);
    std::vector<int64_t> ones;
    for (size_t r = 0; r <= n; ++r) ones.push_back(static_cast<int64_t>(r));
    times[static_cast<size_t>(pace->group.rank())] =
        pace->perUnit.empty() ? -1 : medianOf({pace->perUnit.begin(), pace->perUnit.end()});
    pace->group.allGatherHost(times.data(), ones.data(), tuttiFloat64);
    for (size_t r = 0; r < n; ++r) {
      if (times[r] < 0) fail(tuttiInvalidUsage, "rank ", r, " has not reported a step");
    }
    const size_t last = static_cast<size_t>(std::max_element(times.begin(), times.end()) - times.begin());
    const double middle = medianOf(times), most = middle > 0 ? times[last] / middle : 1;
    std::vector<double> speeds;
    for (const double t : times) speeds.push_back(1 / std::max(t, 1e-9));
    const bool uneven = most >= pace->config.ratio;
    if (tuttiSplitEven(total, 1, static_cast<int>(n), uneven ? speeds.data() : nullptr, cuts) != tuttiSuccess) {
      fail(tuttiInvalidArgument, tuttiParallelGetLastError());
    }
    if (slowest != nullptr) *slowest = static_cast<int>(last);
    if (ratio != nullptr) *ratio = most;
  });
}

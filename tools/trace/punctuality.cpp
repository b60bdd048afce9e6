#include "tools/trace/punctuality.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "src/base/text.hpp"

namespace tutti::trace {
namespace {

constexpr int kLeastCalls = 10;
// What a machine does to anybody now and then.
constexpr double kLeastLateNs = 20e3;

/// False: not all ranks have exact times of it.
bool startsOf(const Job& job, const Communicator& c, uint64_t sequence, std::vector<int64_t>* starts) {
  starts->clear();
  for (int rank = 0; rank < c.nRanks; ++rank) {
    const Record* const record = c.find(rank, sequence);
    if (record == nullptr || decodeDetail(record->detail).coarse) return false;
    starts->push_back(job.timeNs(*c.ranks[static_cast<size_t>(rank)], record->startedNs));
  }
  return true;
}

}  // namespace

std::string whoIsLate(const Job& job, const Communicator& c) {
  std::vector<int> timesLast(static_cast<size_t>(c.nRanks));
  std::vector<double> lateNs(static_cast<size_t>(c.nRanks));
  std::vector<int64_t> starts;
  int calls = 0;
  if (c.nRanks < 2) return "";
  for (const auto& [sequence, index] : c.collectives[0]) {
    if (!startsOf(job, c, sequence, &starts)) continue;
    const auto [first, last] = std::minmax_element(starts.begin(), starts.end());
    const auto rank = static_cast<size_t>(last - starts.begin());
    ++calls;
    ++timesLast[rank];
    lateNs[rank] += static_cast<double>(*last - *first);
  }
  const auto worst = static_cast<size_t>(std::max_element(timesLast.begin(), timesLast.end()) - timesLast.begin());
  if (calls < kLeastCalls || timesLast[worst] * 2 <= calls || lateNs[worst] < kLeastLateNs * timesLast[worst])
    return "";
  char average[40];
  std::snprintf(average, sizeof average, "%.3f ms", lateNs[worst] / timesLast[worst] / 1e6);
  return cat("rank ", worst, " came last to ", timesLast[worst], " of ", calls, " calls, ", average,
             " after the first on average");
}

}  // namespace tutti::trace

// What each rank could move at most if a collective were nothing but copies: all copy at once, each in memory of its
// own.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "tools/report/measure.hpp"

namespace tutti::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeastS = 0.02;  // of one size, and a few copies at least

double copyGBps(char* to, const char* from, size_t bytes) {
  size_t times = 0;
  double seconds = 0;
  const auto start = Clock::now();
  while (times < 3 || seconds < kLeastS) {
    for (int i = 0; i < (bytes < 4096 ? 100 : 1); ++i, ++times) {
      std::memcpy(to, from, bytes);
      asm volatile("" : : "r"(to) : "memory");  // every copy is made
    }
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(bytes) * static_cast<double>(times) / seconds / 1e9;
}

}  // namespace

std::vector<CopyRate> measureCopies(const Options& options) {
  std::vector<size_t> sizes;
  for (size_t bytes = options.least; bytes <= options.most; bytes *= 4) sizes.push_back(bytes);
  const auto nRanks = static_cast<size_t>(options.nRanks);
  std::vector<std::vector<double>> rates(nRanks, std::vector<double>(sizes.size()));
  std::barrier together(options.nRanks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < nRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<char> from(options.most, 1), to(options.most, 2);
      for (size_t i = 0; i < sizes.size(); ++i) {
        together.arrive_and_wait();
        rates[rank][i] = copyGBps(to.data(), from.data(), sizes[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<CopyRate> result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& rank : rates) sum += rank[i];
    result.push_back({sizes[i], sum / static_cast<double>(nRanks)});
  }
  return result;
}

}  // namespace tutti::report

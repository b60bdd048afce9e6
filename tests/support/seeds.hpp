// Seeds of randomized tests, and how one of them is run again.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tutti {

/// The seeds to run: TUTTI_TEST_SEED ("17" or "1000-2000") if it is set, else first..first+count-1.
inline std::vector<uint64_t> testSeeds(uint64_t first, int count) {
  uint64_t last = first + static_cast<uint64_t>(count) - 1;
  if (const char* text = std::getenv("TUTTI_TEST_SEED")) {
    char* end = nullptr;
    first = last = std::strtoull(text, &end, 10);
    if (*end == '-') last = std::strtoull(end + 1, nullptr, 10);
  }
  std::vector<uint64_t> seeds;
  for (uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace tutti

// How much memory this process has, of all kinds.
#pragma once

#include <cstdint>
#include <cstdio>

namespace tutti::test {

inline uint64_t residentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  unsigned long total = 0, resident = 0;
  if (std::fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  std::fclose(file);
  return uint64_t{resident} * 4096;
}

}  // namespace tutti::test

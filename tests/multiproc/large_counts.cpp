// Counts beyond 2^31 and buffers beyond 4 GiB, two ranks, every byte checked.  Exit status 77 (skipped) without the
// memory.
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

size_t availableBytes() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  while (info >> word) {
    size_t kib = 0;
    if (word == "MemAvailable:" && info >> kib) return kib * 1024;
  }
  return 0;
}

unsigned char pattern(size_t i, int rank) {
  return static_cast<unsigned char>(i * 31 + (i >> 32) * 7 + static_cast<size_t>(rank));
}

std::string reduceAndSend(const Rank& r, size_t count) {
  std::vector<unsigned char> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = pattern(i, r.rank);
  RANK_TRY(tuttiAllReduce(x.data(), x.data(), count, tuttiUint8, tuttiSum, r.comm, nullptr));
  for (size_t i = 0; i < count; ++i) {
    if (x[i] != static_cast<unsigned char>(pattern(i, 0) + pattern(i, 1)))
      return "AllReduce: element " + std::to_string(i);
  }
  for (size_t i = 0; i < count; ++i) x[i] = r.rank == 0 ? pattern(i, 5) : 0;
  if (r.rank == 0) {
    RANK_TRY(tuttiSend(x.data(), count, tuttiUint8, 1, r.comm, nullptr));
  } else {
    RANK_TRY(tuttiRecv(x.data(), count, tuttiUint8, 0, r.comm, nullptr));
    for (size_t i = 0; i < count; ++i) {
      if (x[i] != pattern(i, 5)) return "Recv: element " + std::to_string(i);
    }
  }
  return "";
}

}  // namespace

int main() {
  const size_t count = (size_t{1} << 32) + 1001;
  if (availableBytes() < 3 * count) {
    std::puts("skipped: needs 12 GiB of free memory");
    return 77;
  }
  const std::string complaints = onRanks(2, [&](const Rank& r) { return reduceAndSend(r, count); });
  std::fputs(complaints.c_str(), stdout);
  return complaints.empty() ? 0 : 1;
}

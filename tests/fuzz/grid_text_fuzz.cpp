// Fuzzes the texts of grids: "tp=2,pp=0".
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/parallel/fail.hpp"
#include "src/parallel/grid_text.hpp"

using namespace tutti::parallel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int nRanks = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    (void)parsePairs(text);
    int64_t product = 1;
    for (const Axis& axis : parseAxes(text, nRanks)) product *= axis.size;
    if (product != nRanks) std::abort();
  } catch (const Failure& failure) {
    if (failure.text.empty()) std::abort();
  }
  return 0;
}

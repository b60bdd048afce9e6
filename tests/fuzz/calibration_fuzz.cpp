// Any bytes as a calibration file: refused with a sentence, or figures that print and read back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/plan/calibration.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = tutti::parseCalibration({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) {
    if (parsed.status().message().empty()) std::abort();
    return 0;
  }
  const auto again = tutti::parseCalibration(tutti::toText(*parsed));
  if (!again.ok() || !(*again == *parsed)) std::abort();
  return 0;
}

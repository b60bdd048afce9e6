// Any bytes as a calibration file, and as one of tuning: refused with a sentence, or figures that print and read back
// the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/cost/calibration.hpp"
#include "src/plan/tuning.hpp"

namespace {

template <class T>
void check(const tutti::Result<T>& parsed, tutti::Result<T> (*parse)(std::string_view)) {
  if (!parsed.ok()) {
    if (parsed.status().message().empty()) std::abort();
    return;
  }
  const auto again = parse(toText(*parsed));
  if (!again.ok() || !(*again == *parsed)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = {reinterpret_cast<const char*>(data), size};
  check(tutti::parseCalibration(text), tutti::parseCalibration);
  check(tutti::parseTuning(text), tutti::parseTuning);
  return 0;
}

// Any bytes as MSCCL's XML: refused with a sentence that names the input, or schedules that verify, and that read back
// from their own XML.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/import/msccl_xml.hpp"
#include "src/schedule/verifier.hpp"

using namespace tutti;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plan = importMscclXml({reinterpret_cast<const char*>(data), size}, "input");
  require(plan.ok() || plan.status().message().starts_with("input"));
  if (!plan.ok()) return 0;
  require(!plan->outOfPlace.empty() || !plan->inPlace.empty());
  for (const bool inPlace : {false, true}) {
    const std::vector<Schedule>& schedules = plan->schedules(inPlace);
    if (schedules.empty()) continue;
    require(verify(schedules, {.slots = 1}).empty());
    const auto text = exportMscclXml(schedules, "again");
    require(text.ok());
    const auto again = importMscclXml(*text, "again");
    require(again.ok() && again->schedules(inPlace).size() == schedules.size());
  }
  return 0;
}

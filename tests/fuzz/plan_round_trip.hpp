// What the fuzz targets of plan formats do: any bytes are refused with a sentence that names the input, or are
// schedules that verify, and that read back from what is written of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/import/imported_plan.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/fuzz/require.hpp"

namespace tutti::test {

/// import: as importMscclXml.  exported: as exportMscclXml.  expressible: whether plans of a collective can be written.
template <class Import, class Export, class Expressible>
void fuzzPlan(const uint8_t* data, size_t size, Import import, Export exported, Expressible expressible) {
  const auto plan = import({reinterpret_cast<const char*>(data), size}, "input");
  require(plan.ok() || plan.status().message().starts_with("input"));
  if (!plan.ok()) return;
  require(!plan->outOfPlace.empty() || !plan->inPlace.empty());
  for (const bool inPlace : {false, true}) {
    const std::vector<Schedule>& schedules = plan->schedules(inPlace);
    if (schedules.empty()) continue;
    require(verify(schedules, {.slots = 1}).empty());
    const auto text = exported(schedules, "again");
    require(text.ok() == expressible(plan->collective));
    if (!text.ok()) continue;
    const auto again = import(*text, "again");
    require(again.ok() && again->schedules(inPlace).size() == schedules.size());
  }
}

}  // namespace tutti::test

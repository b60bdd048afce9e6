// MSCCL's XML.
#include "src/import/msccl_xml.hpp"
#include "tests/fuzz/plan_round_trip.hpp"
#include "tools/export/export.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  test::fuzzPlan(data, size, importMscclXml, exportMscclXml, [](Collective) { return true; });
  return 0;
}

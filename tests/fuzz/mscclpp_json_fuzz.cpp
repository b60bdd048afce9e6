// MSCCL++'s JSON, present and older format.
#include "src/import/mscclpp_json.hpp"
#include "tests/fuzz/plan_round_trip.hpp"
#include "tools/export/export.hpp"

namespace {

bool hasForm(tutti::Collective c) {
  using enum tutti::Collective;
  return c == AllReduce || c == AllGather || c == ReduceScatter || c == AllToAll;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  test::fuzzPlan(data, size, importMscclppJson, exportMscclppJson, hasForm);
  return 0;
}

// Any bytes as a graph file (NCCL's XML): refused with a sentence, or rings and trees that, imposed on one host and on
// two, are refused with a sentence, or pass every device once, print in every form and read back as the same channels.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/topology/one_line.hpp"
#include "tests/fuzz/require.hpp"
#include "tools/topology/search/graph_xml.hpp"
#include "tools/topology/write.hpp"

using namespace tutti::topology;
using tutti::test::require;

namespace {

Graph machine(const char* line) { return parseOneLine(line).value(); }

void imposeOn(const Graph& graph, const GraphFile& file) {
  const auto plan = imposeGraph(graph, {}, file);
  require(plan.ok() || plan.status().message().starts_with("input"));
  if (!plan.ok()) return;
  const auto devices = devicesOf(graph, {});
  for (const ChannelSet* set : {&plan->rings, &plan->trees}) {
    require(check(graph, *devices, *set).empty());
    require(linkLoads(graph, *set).ok());
  }
  require(!toText(graph, *plan).empty() && !toSvg(graph, &*plan).empty());
  const auto again = readGraphXml(writeGraphXml(graph, *plan, graph.all(NodeKind::Host).front()), "again");
  require(again.ok());
  const auto same = imposeGraph(graph, {}, *again);
  require(same.ok() && same->rings.channels == plan->rings.channels && same->trees.channels == plan->trees.channels);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Graph one = machine("gpu:4 nvlink:6x20 nvswitch:0"), two = machine("node:2 gpu:2 nvlink:4x20 nic:2x25");
  const auto file = readGraphXml({reinterpret_cast<const char*>(data), size}, "input");
  require(file.ok() || file.status().message().starts_with("input"));
  if (!file.ok()) return 0;
  imposeOn(one, *file);
  imposeOn(two, *file);
  return 0;
}

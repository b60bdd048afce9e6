// Any bytes as a description of a machine (NCCL's XML, hwloc's of form 3, one line, the compact form): refused with a
// sentence, or a graph that is sound, prints in every form, and reads back from its own XML.  Small graphs are also
// searched for paths, merged, and led rings and trees through.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/topology/compact.hpp"
#include "src/topology/hwloc_form.hpp"
#include "src/topology/merge.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/oddities.hpp"
#include "src/topology/one_line.hpp"
#include "src/topology/paths.hpp"
#include "tests/fuzz/require.hpp"
#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/write.hpp"

using namespace tutti::topology;
using tutti::test::require;

namespace {

constexpr size_t kMostPrinted = 3000, kMostSearched = 120;  // nodes, to keep a run short
constexpr size_t kMostLed = 10;                             // devices that rings are searched for

/// Rings and trees pass every device once, and no link carries more than it can.
void lead(const Graph& graph) {
  const auto devices = devicesOf(graph, {});
  if (!devices.ok() || devices->size() > kMostLed) return;
  const auto plan = planChannels(graph, {});
  require(plan.ok() || !plan.status().message().empty());
  if (!plan.ok()) return;
  for (const ChannelSet* set : {&plan->rings, &plan->trees}) {
    require(check(graph, *devices, *set).empty());
    const auto loads = linkLoads(graph, *set);
    require(loads.ok());
    for (size_t i = 0; i < graph.links.size(); ++i) require((*loads)[i] <= graph.links[i].gbps * 1.0001);
  }
  require(!toText(graph, *plan).empty() && !toSvg(graph, &*plan).empty());
}

void use(const Graph& graph) {
  require(graph.check().empty());
  if (graph.nodes.size() > kMostPrinted) return;
  require(!toText(graph).empty() && !toDot(graph).empty() && !toSvg(graph).empty());
  if (graph.nodes.size() > kMostSearched) return;
  require(!pathTable(graph, Paths(graph)).empty());
  const auto merged = merge({graph, graph});
  require(!merged.ok() || merged->check().empty());
  lead(graph);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = parseOneLine(text);
  require(line.ok() || !line.status().message().empty());
  if (line.ok()) use(*line);
  const auto compact = parseCompact(text);
  require(compact.ok() || !compact.status().message().empty());
  if (compact.ok()) {
    const auto again = parseCompact(toCompact(*compact));
    require(again.ok() && *again == *compact);
    use(*compact);
  }
  const auto form2 = toHwlocForm2(text, "input");
  require(form2.ok() ? !form2->empty() : form2.status().message().starts_with("input"));
  const auto file = readNcclXml(text, "input");
  require(file.ok() || file.status().message().starts_with("input"));
  if (!file.ok()) return 0;
  require(file->leftOut.size() <= Oddities::kMostKinds + 1);
  use(*file);
  const auto again = readNcclXml(writeNcclXml(*file), "again");
  require(again.ok() && again->nodes.size() == file->nodes.size() && again->links.size() == file->links.size());
  return 0;
}

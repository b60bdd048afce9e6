// Any bytes as a description of a machine (NCCL's XML or one line): refused with a sentence, or a graph that is sound,
// prints in every form, and reads back from its own XML.  Small graphs are also searched for paths and merged.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/topology/merge.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/one_line.hpp"
#include "src/topology/paths.hpp"
#include "src/topology/write.hpp"

using namespace tutti::topology;

namespace {

constexpr size_t kMostPrinted = 3000, kMostSearched = 120;  // nodes, to keep a run short

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const Graph& graph) {
  require(graph.check().empty());
  if (graph.nodes.size() > kMostPrinted) return;
  require(!toText(graph).empty() && !toDot(graph).empty() && !toSvg(graph).empty());
  if (graph.nodes.size() > kMostSearched) return;
  require(!pathTable(graph, Paths(graph)).empty());
  const auto merged = merge({graph, graph});
  require(!merged.ok() || merged->check().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = parseOneLine(text);
  require(line.ok() || !line.status().message().empty());
  if (line.ok()) use(*line);
  const auto file = readNcclXml(text, "input");
  require(file.ok() || file.status().message().starts_with("input"));
  if (!file.ok()) return 0;
  use(*file);
  const auto again = readNcclXml(writeNcclXml(*file), "again");
  require(again.ok() && again->nodes.size() == file->nodes.size() && again->links.size() == file->links.size());
  return 0;
}

#include "tools/info/topology_view.hpp"

#include "src/base/log.hpp"
#include "src/topology/detect.hpp"
#include "src/topology/load.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/paths.hpp"
#include "tools/topology/search/graph_xml.hpp"
#include "tools/topology/write.hpp"

namespace tutti {

Result<std::string> topologyView(const TopologyQuestion& q) {
  const int forms = q.dot + q.svg + q.xml + q.paths;
  if (forms > 1) return invalidUsage("--dot, --svg, --xml and --paths: one at a time");
  if (q.rings.asked && (q.dot || q.paths)) return invalidUsage("--rings goes with --svg, --xml or alone");
  TUTTI_ASSIGN(const topology::Graph graph,
               q.file.empty() ? topology::currentTopology() : topology::loadTopology(q.file));
  if (q.dot || q.svg || q.xml) {  // forms without room for it
    for (const std::string& sentence : graph.leftOut) TUTTI_WARN("topology", sentence);
  }
  const std::string leftOut = topology::section("left out", graph.leftOut);
  if (q.rings.asked) {
    TUTTI_ASSIGN(const RingsAnswer answer, ringsOf(graph, q.rings));
    if (q.svg) return topology::toSvg(answer.graph, &answer.plan);
    if (!q.xml) return topology::toText(answer.graph, answer.plan) + leftOut;
    return topology::writeGraphXml(answer.graph, answer.plan, answer.graph.all(topology::NodeKind::Host).front());
  }
  if (q.dot) return topology::toDot(graph);
  if (q.svg) return topology::toSvg(graph);
  if (q.xml) return topology::writeNcclXml(graph);
  if (q.paths) return topology::pathTable(graph, topology::Paths(graph)) + leftOut;
  return topology::toText(graph);
}

}  // namespace tutti

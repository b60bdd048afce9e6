#include "tools/info/topology_view.hpp"

#include "src/base/log.hpp"
#include "src/topology/detect.hpp"
#include "src/topology/load.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/paths.hpp"
#include "tools/json.hpp"
#include "tools/topology/search/graph_xml.hpp"
#include "tools/topology/write.hpp"

namespace tutti {
namespace {

using topology::Graph;

std::string jsonNode(const Graph& graph, size_t number) {
  const topology::Node& n = graph.nodes[number];
  return cat("{\"number\": ", number, ", \"kind\": ", jsonText(topology::kindName(n.kind)), ", \"parent\": ", n.parent,
             ", \"index\": ", n.index, ", \"name\": ", jsonText(n.name), ", \"bus_id\": ", jsonText(n.busId),
             ", \"memory_bytes\": ", n.memoryBytes, ", \"cpus\": ", jsonText(n.cpus.list()),
             ", \"speed_mbps\": ", n.net.speedMbps, ", \"sm\": ", n.gpu.sm, "}");
}

std::string jsonLink(const topology::Link& l) {
  return cat("{\"a\": ", l.a, ", \"b\": ", l.b, ", \"kind\": ", jsonText(topology::kindName(l.kind)),
             ", \"count\": ", l.count, ", \"gbps\": ", jsonNumber(l.gbps), ", \"assumed\": ", jsonFlag(l.assumed), "}");
}

std::string jsonTexts(const std::vector<std::string>& sentences) {
  std::vector<std::string> quoted;
  for (const std::string& sentence : sentences) quoted.push_back(jsonText(sentence));
  return jsonList(quoted);
}

std::string toJson(const Graph& graph) {
  std::vector<std::string> nodes, links;
  for (size_t i = 0; i < graph.nodes.size(); ++i) nodes.push_back(jsonNode(graph, i));
  for (const topology::Link& link : graph.links) links.push_back(jsonLink(link));
  return cat("{\"nodes\": ", jsonList(nodes), ", \"links\": ", jsonList(links), ", \"notes\": ", jsonTexts(graph.notes),
             ", \"left_out\": ", jsonTexts(graph.leftOut), "}\n");
}

}  // namespace

Result<std::string> topologyView(const TopologyQuestion& q) {
  const int forms = q.dot + q.svg + q.xml + q.paths + q.json;
  if (forms > 1) return invalidUsage("--dot, --svg, --xml, --json and --paths: one at a time");
  if (q.rings.asked && (q.dot || q.paths || q.json)) return invalidUsage("--rings goes with --svg, --xml or alone");
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
  if (q.json) return toJson(graph);
  if (q.paths) return topology::pathTable(graph, topology::Paths(graph)) + leftOut;
  return topology::toText(graph);
}

}  // namespace tutti

#include "perf/common/plot.hpp"

#include <algorithm>
#include <set>

#include "perf/common/line_plot.hpp"

namespace tutti::perf {
namespace {

// One pair of lines per (type, operator, root) that was run.
std::vector<PlotLine> linesOf(const std::vector<Row>& rows) {
  std::vector<PlotLine> lines;
  std::set<std::string> variants;
  for (const Row& r : rows) variants.insert(r.type + " " + r.op + " " + std::to_string(r.root));
  const auto add = [&](const std::string& variant, bool inPlace, const Row& r, const Measurement& m) {
    const std::string name = (variants.size() > 1 ? variant + ", " : "") + (inPlace ? "in place" : "out of place");
    auto line = std::find_if(lines.begin(), lines.end(), [&](const PlotLine& l) { return l.name == name; });
    if (line == lines.end()) {
      lines.push_back({name, inPlace, {}});
      line = lines.end() - 1;
    }
    line->points.push_back({static_cast<double>(r.bytes), m.busbw});
  };
  for (const Row& r : rows) {
    if (r.bytes == 0) continue;
    std::string variant = r.type + (r.op != "none" ? " " + r.op : "");
    if (r.root > 0) variant += " root " + std::to_string(r.root);
    if (r.outOfPlace) add(variant, false, r, *r.outOfPlace);
    if (r.inPlace) add(variant, true, r, *r.inPlace);
  }
  return lines;
}

std::string machineText(const std::vector<RankLine>& ranks) {
  std::set<std::string> hosts, processors;
  std::set<int> processes;
  for (const RankLine& r : ranks) {
    hosts.insert(r.host);
    processors.insert(r.processor);
    processes.insert(r.pid);
  }
  std::string text = std::to_string(hosts.size()) + (hosts.size() == 1 ? " host" : " hosts");
  if (hosts.size() == 1) text += " (" + *hosts.begin() + ")";
  if (processors.size() == 1) text += ", " + *processors.begin();
  return text + ", host memory";
}

}  // namespace

std::string plotSvg(const Collective& c, const std::vector<Row>& rows, const std::vector<RankLine>& ranks) {
  return toSvg(
      {.title = std::string(c.name) + ", " + std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank" : " ranks"),
       .subtitle = machineText(ranks),
       .valueName = "bus bandwidth (GB/s)",
       .unit = "GB/s",
       .lines = linesOf(rows)});
}

}  // namespace tutti::perf

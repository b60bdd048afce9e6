#include "perf/common/plot.hpp"

#include <algorithm>
#include <set>

#include "perf/common/line_plot.hpp"

namespace tutti::perf {
namespace {

PlotLine& lineOf(std::vector<PlotLine>* lines, const PlotLine& like) {
  const auto line = std::find_if(lines->begin(), lines->end(), [&](const PlotLine& l) { return l.name == like.name; });
  return line != lines->end() ? *line : lines->emplace_back(like);
}

/// Bandwidth is traffic over time, so that what a measurement had in its time it has in another one's by their ratio.
double busbwOf(const Measurement& m, double timeUs) { return timeUs > 0 ? m.busbw * m.timeUs / timeUs : 0; }

void add(std::vector<PlotLine>* lines, const std::string& name, bool inPlace, double bytes, const Measurement& m) {
  if (m.busbw <= 0) return;
  PlotLine& line = lineOf(lines, {name, inPlace, {}, {}, true});
  line.points.push_back({bytes, m.busbw});
  if (m.spread.p10Us > 0) line.band.push_back({bytes, busbwOf(m, m.spread.p90Us), busbwOf(m, m.spread.p10Us)});
}

// A pair of lines per (type, operator, root) that was run, and what was expected out of place.
std::vector<PlotLine> linesOf(const std::vector<Row>& rows) {
  std::vector<PlotLine> lines;
  std::set<std::string> variants;
  for (const Row& r : rows) variants.insert(r.type + " " + r.op + " " + std::to_string(r.root));
  for (const Row& r : rows) {
    if (r.bytes == 0) continue;
    std::string variant = r.type + (r.op != "none" ? " " + r.op : "");
    if (r.root > 0) variant += " root " + std::to_string(r.root);
    const std::string prefix = variants.size() > 1 ? variant + ", " : "";
    const auto bytes = static_cast<double>(r.bytes);
    if (r.outOfPlace) add(&lines, prefix + "out of place", false, bytes, *r.outOfPlace);
    if (r.inPlace) add(&lines, prefix + "in place", true, bytes, *r.inPlace);
    if (!r.outOfPlace || !r.expected || r.outOfPlace->busbw <= 0 || r.expected->timeUs <= 0) continue;
    PlotLine& expected = lineOf(&lines, {prefix + "expected", true, {}, {}, false});
    expected.points.push_back({bytes, busbwOf(*r.outOfPlace, r.expected->timeUs)});
  }
  return lines;
}

std::string machineText(const std::vector<RankLine>& ranks, const Options& o) {
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
  return text + ", host memory of " + memoryName(o);
}

}  // namespace

std::string plotSvg(const Collective& c, const Options& o, const std::vector<Row>& rows,
                    const std::vector<RankLine>& ranks) {
  const std::vector<PlotLine> lines = linesOf(rows);
  const bool banded = std::any_of(lines.begin(), lines.end(), [](const PlotLine& l) { return !l.band.empty(); });
  return toSvg(
      {.title = std::string(c.name) + ", " + std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank" : " ranks"),
       .subtitle = machineText(ranks, o) + (banded ? "; lines: the mean; shaded: 8 of 10 calls" : ""),
       .valueName = "bus bandwidth",
       .unit = "GB/s",
       .logarithmic = true,
       .lines = lines});
}

}  // namespace tutti::perf

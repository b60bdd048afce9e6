#include "tools/sim/report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "tools/cluster/critical_path.hpp"

namespace tutti::sim {
namespace {

std::string linkTable(const Network& network, const Outcome& outcome, int most) {
  std::vector<size_t> links(outcome.run.linkBytes.size());
  std::iota(links.begin(), links.end(), size_t{0});
  std::stable_sort(links.begin(), links.end(), [&](size_t a, size_t b) { return outcome.load(a) > outcome.load(b); });
  std::string text = "   load       GB/s          bytes  number  link\n";
  for (size_t i = 0; i < links.size() && i < static_cast<size_t>(most); ++i) {
    const size_t link = links[i];
    if (outcome.run.linkBytes[link] <= 0) break;
    // Of classes, a link stands for those like it.
    const int id = static_cast<int>(outcome.classes ? link % static_cast<size_t>(network.linksPerNode()) : link);
    const std::string name = network.name(id);
    char line[256];
    std::snprintf(line, sizeof line, "%5.1f %%  %9.2f  %13.0f  %6d  %s%s\n", 100 * outcome.load(link),
                  outcome.job.capacities[link], outcome.run.linkBytes[link], id, outcome.classes ? "each like " : "",
                  name.c_str());
    text += line;
  }
  return text;
}

}  // namespace

Status writeFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return invalidUsage("cannot write ", path);
  return {};
}

Result<std::string> report(const Network& network, const Asked& asked, const ReportOptions& options) {
  std::string text;
  for (const Algorithm* algorithm : asked.algorithms) {
    SimOptions sim = asked.options;
    sim.record = options.path || !options.traceFile.empty();
    TUTTI_ASSIGN(const Outcome o, simulate(network, asked.taskFor(algorithm, asked.bytes), sim));
    const double bus = busGBps(asked.collective, static_cast<double>(asked.bytes), o.job.nRanks, o.us);
    text += cat(collectiveKey(asked.collective), " ", algorithm->name, ", ", formatBytes(asked.bytes), ", ",
                describe(network.cluster()), ": ", shortNumber(o.us), " us, busbw ", shortNumber(bus), " GB/s\n");
    text += cat("  ", o.channels, o.channels == 1 ? " channel, " : " channels, ", o.loopsRun, " of ", o.loops,
                o.loops == 1 ? " loop, " : " loops, ", o.run.messages, " messages of ", o.members,
                o.classes ? " members that stand for " : " of ", o.job.nRanks, " ranks\n");
    if (options.links > 0) text += linkTable(network, o, options.links);
    if (options.path) text += describePath(network, o, criticalPath(o));
    if (!options.traceFile.empty()) {
      TUTTI_TRY(writeFile(options.traceFile, chromeTrace(o, options.traceMembers)));
      text += cat("trace in ", options.traceFile, ", for chrome://tracing or ui.perfetto.dev\n");
    }
  }
  return text;
}

}  // namespace tutti::sim

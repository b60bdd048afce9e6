#include "tools/sim/report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "perf/common/progress.hpp"
#include "tools/cluster/critical_path.hpp"
#include "tools/json.hpp"

namespace tutti::sim {
namespace {

/// Those that carried something, the most loaded first.
std::vector<size_t> loadedLinks(const Outcome& outcome, int most) {
  std::vector<size_t> links(outcome.run.linkBytes.size());
  std::iota(links.begin(), links.end(), size_t{0});
  std::stable_sort(links.begin(), links.end(), [&](size_t a, size_t b) { return outcome.load(a) > outcome.load(b); });
  links.resize(std::min(links.size(), static_cast<size_t>(most)));
  while (!links.empty() && outcome.run.linkBytes[links.back()] <= 0) links.pop_back();
  return links;
}

/// Of classes, a link stands for those like it.
int linkNumber(const Network& network, const Outcome& outcome, size_t link) {
  return static_cast<int>(outcome.classes ? link % static_cast<size_t>(network.linksPerNode()) : link);
}

std::string linkTable(const Network& network, const Outcome& outcome, int most) {
  std::string text = "   load       GB/s          bytes  number  link\n";
  for (const size_t link : loadedLinks(outcome, most)) {
    const int id = linkNumber(network, outcome, link);
    const std::string name = network.name(id);
    char line[256];
    std::snprintf(line, sizeof line, "%5.1f %%  %9.2f  %13.0f  %6d  %s%s\n", 100 * outcome.load(link),
                  outcome.job.capacities[link], outcome.run.linkBytes[link], id, outcome.classes ? "each like " : "",
                  name.c_str());
    text += line;
  }
  return text;
}

std::string jsonResult(const Network& network, const Algorithm& algorithm, const Outcome& o, double bus,
                       int mostLinks) {
  std::vector<std::string> links;
  for (const size_t link : loadedLinks(o, mostLinks)) {
    const int id = linkNumber(network, o, link);
    links.push_back(cat("{\"number\": ", id, ", \"name\": ", jsonText(network.name(id)),
                        ", \"load\": ", jsonNumber(o.load(link)), ", \"gbps\": ", jsonNumber(o.job.capacities[link]),
                        ", \"bytes\": ", jsonNumber(o.run.linkBytes[link]), "}"));
  }
  return cat("{\"algorithm\": ", jsonText(algorithm.name), ", \"us\": ", jsonNumber(o.us),
             ", \"busbw_gbps\": ", jsonNumber(bus), ", \"channels\": ", o.channels, ", \"loops\": ", o.loops,
             ", \"loops_run\": ", o.loopsRun, ", \"messages\": ", o.run.messages, ", \"members\": ", o.members,
             ", \"classes\": ", jsonFlag(o.classes), ", \"links\": ", jsonList(links), "}");
}

}  // namespace

std::string jsonHead(const Network& network, const Asked& asked) {
  return cat("{\"cluster\": ", jsonText(describe(network.cluster())), ", \"ranks\": ", network.cluster().nRanks(),
             ", \"collective\": ", jsonText(collectiveKey(asked.collective)));
}

std::vector<const Algorithm*> fitting(const Network& network, const Asked& asked) {
  std::vector<const Algorithm*> fit;
  for (const Algorithm* algorithm : asked.algorithms) {
    const Task task = asked.taskFor(algorithm, asked.bytes);
    if (algorithm->supports(shapeOf(task, placesOf(network.cluster(), task), task.bytes))) fit.push_back(algorithm);
  }
  return fit.empty() || asked.algorithms.size() == 1 || asked.byName ? asked.algorithms : fit;
}

Status writeFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return invalidUsage("cannot write ", path);
  return {};
}

Result<std::string> report(const Network& network, const Asked& asked, const ReportOptions& options) {
  std::string text;
  std::vector<std::string> results;
  const std::vector<const Algorithm*> all = fitting(network, asked);
  perf::Progress progress(all.size(), "algorithms");
  for (const Algorithm* const& algorithm : all) {
    progress.show(static_cast<size_t>(&algorithm - all.data()), std::string(algorithm->name));
    SimOptions sim = asked.options;
    sim.record = options.path || !options.traceFile.empty();
    TUTTI_ASSIGN(const Outcome o, simulate(network, asked.taskFor(algorithm, asked.bytes), sim));
    const double bus = busGBps(asked.collective, static_cast<double>(asked.bytes), o.job.nRanks, o.us);
    if (options.json) {
      results.push_back(jsonResult(network, *algorithm, o, bus, options.links));
      continue;
    }
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
  if (options.json)
    return cat(jsonHead(network, asked), ", \"bytes\": ", asked.bytes, ", \"results\": ", jsonList(results), "}\n");
  return text;
}

}  // namespace tutti::sim

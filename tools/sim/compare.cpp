#include "tools/sim/compare.hpp"

#include <algorithm>
#include <cstdio>

#include "perf/common/line_plot.hpp"
#include "perf/common/progress.hpp"
#include "tools/json.hpp"
#include "tools/sim/report.hpp"

namespace tutti::sim {
namespace {

struct Column {
  const Algorithm* algorithm;
  std::vector<double> us;  // [size]
};

std::string table(const std::vector<size_t>& sizes, const std::vector<Column>& columns) {
  std::string text = padded("bytes", 8);
  for (const Column& c : columns) text += "  " + padded(std::string(c.algorithm->name), 9);
  text += "\n";
  for (size_t i = 0; i < sizes.size(); ++i) {
    double best = 1e300;
    for (const Column& c : columns) best = std::min(best, c.us[i]);
    text += padded(formatBytes(sizes[i]), 8);
    for (const Column& c : columns) {
      const std::string number = shortNumber(c.us[i]) + (c.us[i] <= best * (1 + 1e-9) ? "*" : " ");
      text += "  " + padded(number, std::max<size_t>(9, c.algorithm->name.size()));
    }
    text += "\n";
  }
  return text;
}

std::string svg(const Network& network, const Asked& asked, const std::vector<size_t>& sizes,
                const std::vector<Column>& columns) {
  perf::LinePlot plot;
  plot.title = cat(collectiveName(asked.collective), ", ", network.cluster().nRanks(), " ranks, simulated");
  plot.subtitle = describe(network.cluster()) + "; machine " + network.cluster().machineText;
  plot.valueName = "time";
  plot.unit = "us";
  plot.logarithmic = true;
  for (const Column& c : columns) {
    perf::PlotLine line{std::string(c.algorithm->name), false, {}};
    for (size_t i = 0; i < sizes.size(); ++i) line.points.push_back({static_cast<double>(sizes[i]), c.us[i]});
    plot.lines.push_back(std::move(line));
  }
  return perf::toSvg(plot);
}

std::string json(const Network& network, const Asked& asked, const std::vector<size_t>& sizes,
                 const std::vector<Column>& columns, const std::vector<std::string>& without) {
  std::vector<std::string> bytes, results, unfit;
  for (const size_t size : sizes) bytes.push_back(std::to_string(size));
  for (const Column& c : columns) {
    std::vector<std::string> us;
    for (const double value : c.us) us.push_back(jsonNumber(value));
    results.push_back(cat("{\"algorithm\": ", jsonText(c.algorithm->name), ", \"us\": ", jsonList(us), "}"));
  }
  for (const std::string& name : without) unfit.push_back(jsonText(name));
  return cat(jsonHead(network, asked), ", \"sizes\": ", jsonList(bytes), ", \"results\": ", jsonList(results),
             ", \"unfit\": ", jsonList(unfit), "}\n");
}

}  // namespace

Result<std::vector<size_t>> sizesOf(const CompareOptions& options) {
  size_t least = 0, most = 0;
  if (!parseBytes(options.least, &least) || least == 0) return invalidUsage("--min ", options.least, " is not a size");
  if (!parseBytes(options.most, &most) || most < least || most > size_t{1} << 46) {
    return invalidUsage("--max ", options.most, " is not a size of at least --min and at most 64 TB");
  }
  if (options.factor < 2) return invalidUsage("--factor ", options.factor, ": 2 or more");
  std::vector<size_t> sizes;
  for (size_t size = least; size <= most; size *= static_cast<size_t>(options.factor)) sizes.push_back(size);
  return sizes;
}

Result<std::string> compare(const Network& network, const Asked& asked, const CompareOptions& options) {
  TUTTI_ASSIGN(const std::vector<size_t> sizes, sizesOf(options));
  std::vector<Column> columns;
  std::vector<std::string> without;
  perf::Progress progress(asked.algorithms.size() * sizes.size(), "simulations");
  size_t done = 0;
  for (const Algorithm* algorithm : asked.algorithms) {
    const Task task = asked.taskFor(algorithm, sizes.front());
    if (!algorithm->supports(shapeOf(task, placesOf(network.cluster(), task), task.bytes))) {
      without.emplace_back(algorithm->name);
      done += sizes.size();
      continue;
    }
    Column column{algorithm, {}};
    for (const size_t size : sizes) {
      progress.show(done++, cat(algorithm->name, " of ", formatBytes(size)));
      TUTTI_ASSIGN(const Outcome o, simulate(network, asked.taskFor(algorithm, size), asked.options));
      column.us.push_back(o.us);
    }
    columns.push_back(std::move(column));
  }
  if (!options.svgFile.empty()) TUTTI_TRY(writeFile(options.svgFile, svg(network, asked, sizes, columns)));
  if (options.json) return json(network, asked, sizes, columns, without);
  std::string text = cat(collectiveKey(asked.collective), ", ", describe(network.cluster()),
                         ", microseconds; * fastest\n", table(sizes, columns));
  for (const std::string& name : without) text += cat(&name == &without.front() ? "without " : ", ", name);
  if (without.empty()) return text;
  return text + (without.size() == 1 ? ", which does not work here\n" : ", which do not work here\n");
}

}  // namespace tutti::sim

#include "perf/common/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "perf/common/environment.hpp"

namespace tutti::perf {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string spreadText(const Spread& s) {
  return format("  %7s  %7s  %7s  %7s", fitNumber(s.minUs, 7).c_str(), fitNumber(s.maxUs, 7).c_str(),
                fitNumber(s.p99Us, 7).c_str(), fitNumber(s.cvPercent, 6).c_str());
}

std::string measurementText(const std::optional<Measurement>& m, const Options& o) {
  if (!m) {
    std::string text = format("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
    return o.perIteration ? text + format("  %7s  %7s  %7s  %7s", "N/A", "N/A", "N/A", "N/A") : text;
  }
  std::string text = format("  %7s  %6s  %6s", fitNumber(m->timeUs, 7).c_str(), fitNumber(m->algbw, 6).c_str(),
                            fitNumber(m->busbw, 6).c_str());
  text += m->wrong ? format("  %6g", static_cast<double>(*m->wrong)) : format("  %6s", "N/A");
  return o.perIteration ? text + spreadText(m->spread) : text;
}

std::string columnTitles(const Options& o) {
  const auto line = [&](const char* first[5], const char* each[4], const char* spread[4]) {
    std::string text = format("# %10s  %12s  %8s  %6s  %6s", first[0], first[1], first[2], first[3], first[4]);
    for (int placement = 0; placement < 2; ++placement) {
      text += format("  %7s  %6s  %6s  %6s", each[0], each[1], each[2], each[3]);
      if (o.perIteration) text += format("  %7s  %7s  %7s  %7s", spread[0], spread[1], spread[2], spread[3]);
    }
    return text;
  };
  const char* names[5] = {"size", "count", "type", "redop", "root"};
  const char* units[5] = {"(B)", "(elements)", "", "", ""};
  const char* columns[4] = {o.cpuTime ? "cputime" : "time", "algbw", "busbw", "#wrong"};
  const char* columnUnits[4] = {"(us)", "(GB/s)", "(GB/s)", ""};
  const char* spread[4] = {"i_min", "i_max", "i_p99", "i_cv%"};
  const char* spreadUnits[4] = {"(us)", "(us)", "(us)", ""};
  const int wide = o.perIteration ? 67 : 31;
  std::string text = format("# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
  text += format("  %*s  %*s\n", (wide + 12) / 2, "out-of-place", wide / 2 + 10, "in-place");
  text += line(names, columns, spread) + (o.timestamps ? format("  %19s", "timestamp") : "");
  text += format("  %7s  %s\n", "expect", "plan");
  text += line(units, columnUnits, spreadUnits) + (o.timestamps ? format("  %19s", "") : "");
  return text + format("  %7s\n", "(us)");
}

}  // namespace

Spread spreadOf(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  double mean = 0, squares = 0;
  for (double t : times) mean += t / static_cast<double>(times.size());
  for (double t : times) squares += (t - mean) * (t - mean) / static_cast<double>(times.size());
  const auto percentile = [&](size_t p) { return times[(times.size() * p + 99) / 100 - 1]; };
  return {times.front(),  times.back(),  percentile(99), mean > 0 ? 100 * std::sqrt(squares) / mean : 0,
          percentile(10), percentile(90)};
}

void computeBandwidth(const Collective& c, const Layout& layout, int nRanks, Measurement* m) {
  m->algbw = m->timeUs > 0 ? static_cast<double>(layout.trafficBytes) / 1e3 / m->timeUs : 0;
  m->busbw = m->algbw * c.busFactor(nRanks);
}

std::string fitNumber(double value, int width) {
  int digits = 0;
  for (double v = 1; value >= v && digits < 30; v *= 10) ++digits;
  if (digits < width - 2) return format("%*.2f", width, value);
  if (digits < width - 1) return format("%*.1f", width, value);
  if (digits <= width) return format("%*.0f", width, value);
  return format("%*.*e", width, std::max(0, width - 6 - 1), value);
}

std::string versionText(int code) { return format("%d.%d.%d", code / 10000, code / 100 % 100, code % 100); }

std::string headerText(const Collective& c, const Options& o, const std::vector<RankLine>& ranks, int libraryVersion) {
  const bool factor = o.stepFactor > 1;
  std::string text = format("# tutti-tests version %s tutti-headers=%d tutti-library=%d\n",
                            versionText(TUTTI_VERSION_CODE).c_str(), TUTTI_VERSION_CODE, libraryVersion);
  text += format("# Collective test starting: %s\n", c.program);
  text += format(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: %d "
      "validation: %d graph: 0\n",
      o.threads, o.ranksPerThread, o.minBytes, o.maxBytes, factor ? o.stepFactor : o.stepBytes,
      factor ? "factor" : "bytes", o.warmup, o.iterations, o.aggregate, o.checks);
  if (const std::string memory = memoryName(o); memory != "malloc") text += "# buffers: of " + memory + "\n";
  if (o.fresh) text += "# data: written anew before each timed call, outside of the time\n";
  for (const std::string& note : o.notes) text += "# note: " + note + "\n";
  text += "#\n# Using devices\n";
  for (const RankLine& r : ranks) {
    text += format("#  Rank %2d Group %2d Pid %6d on %10s device %2d [host memory] %s\n", r.rank, r.group, r.pid,
                   r.host.c_str(), r.device, r.processor.c_str());
  }
  return text + "#\n" + columnTitles(o);
}

std::string rowText(const Row& row, const Options& o) {
  std::string text =
      format("%12zu  %12zu  %8s  %6s  %6d", row.bytes, row.count, row.type.c_str(), row.op.c_str(), row.root);
  text += measurementText(row.outOfPlace, o) + measurementText(row.inPlace, o);
  if (o.timestamps) text += "  " + row.timestamp;
  if (!row.expected) return text + format("  %7s  N/A\n", "N/A");
  const Expectation& e = *row.expected;
  return text + format("  %7s  %s/%s/%d\n", fitNumber(e.timeUs, 7).c_str(), e.algorithm.c_str(), e.protocol.c_str(),
                       e.channels);
}

Summary summarize(const std::vector<Row>& rows) {
  Summary s;
  size_t measured = 0;
  for (const Row& row : rows) {
    for (const std::optional<Measurement>* m : {&row.outOfPlace, &row.inPlace}) {
      if (!m->has_value()) continue;
      s.wrong += (*m)->wrong.value_or(0);
      s.averageBusbw += (*m)->busbw;
      ++measured;
    }
  }
  if (measured > 0) s.averageBusbw /= static_cast<double>(measured);
  const double wanted = testsNumber("MIN_BW", -1);
  if (wanted >= 0) s.wantedBusbw = wanted;
  return s;
}

std::string footerText(const Collective& c, const Options& o, const Summary& s, double peakMemoryMiB) {
  std::string text = format("# Out of bounds values : %zu %s\n", s.wrong, s.dataOk() ? "OK" : "FAILED");
  text += format("# Avg bus bandwidth    : %g %s\n", s.averageBusbw,
                 !s.wantedBusbw    ? ""
                 : s.bandwidthOk() ? "OK"
                                   : "FAILED");
  if (o.reportMemory) text += format("# Peak memory per process : %.1f MiB\n", peakMemoryMiB);
  return text + format("#\n# Collective test concluded: %s\n#\n", c.program);
}

}  // namespace tutti::perf

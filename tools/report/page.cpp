#include "tools/report/page.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "perf/common/line_plot.hpp"
#include "src/base/text.hpp"

namespace tutti::report {
namespace {

using perf::LinePlot;
using perf::PlotLine;
using perf::readable;
using perf::sizeName;

constexpr const char* kStyle =
    "body{font:16px/1.5 system-ui,'Segoe UI',Arial,sans-serif;color:#222;max-width:1000px;margin:2em auto;padding:0 "
    "1em}\n"
    "h1{margin-bottom:0}h2{margin-top:2em;border-bottom:1px solid #ddd}.small{color:#666}\n"
    "table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.25em .8em;border-bottom:1px solid #eee;text-align:right}th{border-bottom:2px solid #ccc}\n"
    "th:first-child,td:first-child,.left,.facts "
    "td{text-align:left}.bad{color:#b00020;font-weight:600}.slow{color:#a05a00}\n"
    "svg,img{max-width:100%;height:auto}pre{overflow:auto;background:#f6f6f6;padding:1em}\n"
    "details{margin:.5em 0}summary{cursor:pointer}\n"
    "@media (max-width:600px){table{display:block;overflow-x:auto}th,td{padding:.25em .4em;font-size:14px}}\n";

/// A picture in an <img>, so that its styles stay its own.
std::string image(const std::string& svg, const std::string& says) {
  std::string data;
  for (const unsigned char c : svg) {
    const bool plain =
        (c > ' ' && c < 127 && std::string_view("%#<>\"'{}\\^`").find(static_cast<char>(c)) == std::string_view::npos);
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(c));
    data += plain ? std::string(1, static_cast<char>(c)) : code;
  }
  return cat("<img alt=\"", says, "\" src=\"data:image/svg+xml,", data, "\">\n");
}

template <class... Cells>
std::string row(const char* tag, const Cells&... cells) {
  std::string text = "<tr>";
  ((text += cat("<", tag, ">", cells, "</", tag, ">")), ...);
  return text + "</tr>\n";
}

std::optional<double> copyAt(const Report& report, size_t bytes) {
  for (const CopyRate& rate : report.copies)
    if (rate.bytes >= bytes) return rate.gbps;
  return report.copies.empty() ? std::nullopt : std::optional(report.copies.back().gbps);
}

PlotLine limitLine(const Report& report) {
  PlotLine line{"memcpy, all ranks at once", true, {}, {}, false};
  for (const CopyRate& rate : report.copies) line.points.push_back({static_cast<double>(rate.bytes), rate.gbps});
  return line;
}

std::string overview(const Report& report) {
  LinePlot plot;
  plot.title = cat("Bus bandwidth, ", report.options.nRanks, " ranks");
  plot.subtitle = "of all collectives, beside what copies reach";
  plot.valueName = "bus bandwidth";
  plot.unit = "GB/s";
  plot.logarithmic = true;
  for (const CollectiveResult& c : report.collectives) {
    PlotLine line{c.name, false, {}, {}, true};
    for (const SizeResult& s : c.sizes)
      if (s.busbw > 0) line.points.push_back({static_cast<double>(s.bytes), s.busbw});
    if (!line.points.empty()) plot.lines.push_back(std::move(line));
  }
  plot.lines.push_back(limitLine(report));
  return perf::toSvg(plot);
}

std::string pictureOf(const Report& report, const CollectiveResult& c) {
  LinePlot plot;
  plot.title = cat(c.name, ", ", report.options.nRanks, " ranks");
  plot.subtitle =
      cat(report.machine.host, ", ", report.machine.processor, ", host memory; lines: the mean; shaded: 8 of 10 calls");
  plot.valueName = "time of a call";
  plot.unit = "us";
  plot.logarithmic = true;
  PlotLine out{"out of place", false, {}, {}, true}, in{"in place", true, {}, {}, true};
  PlotLine expected{"expected", true, {}, {}, false}, limit{"the same bytes by memcpy", true, {}, {}, false};
  for (const SizeResult& s : c.sizes) {
    const auto bytes = static_cast<double>(s.bytes);
    if (s.timeUs > 0) out.points.push_back({bytes, s.timeUs});
    if (s.p10Us > 0) out.band.push_back({bytes, s.p10Us, s.p90Us});
    if (s.inPlaceUs > 0) in.points.push_back({bytes, s.inPlaceUs});
    if (s.expectedUs > 0) expected.points.push_back({bytes, s.expectedUs});
    const std::optional<double> copies = copyAt(report, s.bytes);
    if (copies && s.busbw > 0) limit.points.push_back({bytes, s.timeUs * s.busbw / *copies});
  }
  for (PlotLine* line : {&out, &in, &expected, &limit})
    if (!line->points.empty()) plot.lines.push_back(std::move(*line));
  return perf::toSvg(plot);
}

std::string summaryTable(const Report& report) {
  std::string text = cat("<table>\n", row("th", "collective", "smallest call", "best bus bandwidth", "at",
                                          "of what copies reach", "wrong elements"));
  for (const CollectiveResult& c : report.collectives) {
    if (c.sizes.empty()) {
      text += cat("<tr><td>", c.name, "</td><td colspan=5 class=bad>", toXml(c.failure), "</td></tr>\n");
      continue;
    }
    const auto best = std::ranges::max_element(c.sizes, {}, &SizeResult::busbw);
    size_t wrong = 0;
    for (const SizeResult& s : c.sizes) wrong += s.wrong;
    const std::optional<double> copies = copyAt(report, best->bytes);
    char share[16] = "";
    if (copies) std::snprintf(share, sizeof share, "%.0f %%", 100 * best->busbw / *copies);
    text += row("td", cat("<a href=\"#", c.name, "\">", c.name, "</a>"), readable(c.sizes.front().timeUs, "us"),
                readable(best->busbw, "GB/s"), sizeName(static_cast<double>(best->bytes)), share,
                wrong == 0 ? cat("0") : cat("<span class=bad>", wrong, "</span>"));
  }
  return text + "</table>\n";
}

std::string planTable(const CollectiveResult& c) {
  std::string text =
      cat("<table>\n", row("th", "size", "time", "expected", "bus bandwidth", "plan (algorithm/protocol/channels)"));
  for (const SizeResult& s : c.sizes)
    text += row("td", sizeName(static_cast<double>(s.bytes)), readable(s.timeUs, "us"),
                s.expectedUs > 0 ? readable(s.expectedUs, "us") : "", readable(s.busbw, "GB/s"), toXml(s.plan));
  return text + "</table>\n";
}

std::string findingsTable(const Machine& machine) {
  std::string text = "<table>\n";
  size_t fine = 0;
  for (const Finding& f : machine.findings) {
    const bool well = f.verdict == "fine" || f.verdict == "note";
    fine += well ? 1 : 0;
    if (well) continue;
    text += cat("<tr><td class=\"", f.verdict == "slow" ? "slow" : "bad", "\">", toXml(f.verdict),
                "</td><td class=left>", toXml(f.subject), "</td><td class=left>", toXml(f.what), "<br><code>",
                toXml(f.remedy), "</code></td></tr>\n");
  }
  return cat(text, "</table>\n<p>", fine, " of ", machine.findings.size(),
             " findings of <code>tutti-doctor</code> are fine.</p>\n");
}

std::string machinePart(const Machine& m) {
  std::string text = cat("<h2>Machine</h2>\n<table class=facts>\n", row("td", "host", toXml(m.host)),
                         row("td", "processor", cat(toXml(m.processor), ", ", m.cores, " cores")),
                         row("td", "library", toXml(m.library)));
  for (const std::string& setting : m.settings) text += row("td", "setting", cat("<code>", toXml(setting), "</code>"));
  text += "</table>\n";
  if (!m.topologySvg.empty()) text += image(m.topologySvg, "the machine as Tutti sees it");
  if (!m.topologyText.empty())
    text += cat("<details><summary>as text</summary><pre>", toXml(m.topologyText), "</pre></details>\n");
  return text + findingsTable(m);
}

}  // namespace

std::string toHtml(const Report& report) {
  const Machine& m = report.machine;
  std::string text = cat("<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n",
                         "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n<title>Tutti on ",
                         toXml(m.host), "</title>\n<style>\n", kStyle, "</style></head><body>\n");
  text += cat("<h1>Tutti on ", toXml(m.host), "</h1>\n<p class=small>", toXml(m.when), ", ", report.options.nRanks,
              " ranks as processes, host memory, every element verified</p>\n");
  text += cat("<h2>Collectives</h2>\n", summaryTable(report), overview(report),
              "<p class=small>Bus bandwidth counts the bytes that each rank has to move in the best case. The dashed "
              "line is what <code>memcpy</code> moves when all ranks copy at once, each in memory of its own. Calls "
              "that read a peer's memory where it lies can come above it; small ones take what it takes to tell "
              "another core.</p>\n");
  text += machinePart(m) + "<h2>Each collective, and its plans</h2>\n";
  for (const CollectiveResult& c : report.collectives) {
    text += cat("<h3 id=\"", c.name, "\">", c.name, "</h3>\n");
    if (c.sizes.empty()) {
      text += cat("<p class=bad>", toXml(c.failure), "</p>\n");
      continue;
    }
    text += cat(pictureOf(report, c), "<details><summary>figures and plans</summary>\n", planTable(c), "</details>\n");
  }
  return text + "</body></html>\n";
}

}  // namespace tutti::report

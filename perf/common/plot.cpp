#include "perf/common/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <set>

namespace tutti::perf {
namespace {

constexpr double kWidth = 960, kHeight = 560;
constexpr double kLeft = 92, kRight = 32, kTop = 88, kBottom = 76;
constexpr const char* kColours[] = {"#0b62a4", "#d9541a", "#2a8c4a", "#7d3c98",
                                    "#b8860b", "#117a8b", "#c2185b", "#555555"};

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string sizeName(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return format("%g %s", bytes, units[unit]);
}

struct Point {
  double bytes, busbw;
};
struct Line {
  std::string name;
  bool inPlace;
  size_t colour;
  std::vector<Point> points;
};

// One pair of lines per (type, operator, root) that was run.
std::vector<Line> linesOf(const std::vector<Row>& rows) {
  std::vector<Line> lines;
  std::set<std::string> variants;
  for (const Row& r : rows) variants.insert(r.type + " " + r.op + " " + std::to_string(r.root));
  const auto add = [&](const std::string& variant, bool inPlace, const Row& r, const Measurement& m) {
    const std::string name = (variants.size() > 1 ? variant + ", " : "") + (inPlace ? "in place" : "out of place");
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.name == name; });
    if (line == lines.end()) {
      lines.push_back({name, inPlace, lines.size() % std::size(kColours), {}});
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

struct Axes {
  double leastLog = 0, mostLog = 1, mostBusbw = 1;
  double x(double bytes) const {
    return kLeft + (std::log2(bytes) - leastLog) / (mostLog - leastLog) * (kWidth - kLeft - kRight);
  }
  double y(double busbw) const { return kHeight - kBottom - busbw / mostBusbw * (kHeight - kTop - kBottom); }
};

std::string drawAxes(const Axes& a, const std::vector<double>& ticks) {
  std::string s;
  for (double t : ticks) {
    s += format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' class='grid'/>\n", kLeft, a.y(t), kWidth - kRight,
                a.y(t));
    s += format("<text x='%.1f' y='%.1f' class='tick' text-anchor='end'>%g</text>\n", kLeft - 10, a.y(t) + 5, t);
  }
  const int first = static_cast<int>(std::ceil(a.leastLog - 1e-9)),
            last = static_cast<int>(std::floor(a.mostLog + 1e-9));
  const int step = std::max(1, (last - first + 8) / 9);  // at most ten labels
  for (int e = first; e <= last; e += step) {
    const double bytes = std::ldexp(1.0, e);
    s += format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' class='grid'/>\n", a.x(bytes), kTop, a.x(bytes),
                kHeight - kBottom);
    s += format("<text x='%.1f' y='%.1f' class='tick' text-anchor='middle'>%s</text>\n", a.x(bytes),
                kHeight - kBottom + 22, sizeName(bytes).c_str());
  }
  s += format("<path d='M%.1f %.1fV%.1fH%.1f' class='axis'/>\n", kLeft, kTop, kHeight - kBottom, kWidth - kRight);
  s += format("<text x='%.1f' y='%.1f' class='label' text-anchor='middle'>message size</text>\n",
              (kLeft + kWidth - kRight) / 2, kHeight - 20);
  return s + format(
                 "<text transform='translate(28 %.1f) rotate(-90)' class='label' text-anchor='middle'>"
                 "bus bandwidth (GB/s)</text>\n",
                 (kTop + kHeight - kBottom) / 2);
}

std::string drawLine(const Axes& a, const Line& line) {
  const char* colour = kColours[line.colour];
  std::string s = format("<polyline fill='none' stroke='%s' stroke-width='2.5'%s points='", colour,
                         line.inPlace ? " stroke-dasharray='8 4'" : "");
  for (const Point& p : line.points) s += format("%.1f,%.1f ", a.x(p.bytes), a.y(p.busbw));
  s += "'/>\n";
  for (const Point& p : line.points) {
    s += format("<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'><title>%s, %s: %.4g GB/s</title></circle>\n",
                a.x(p.bytes), a.y(p.busbw), colour, escape(line.name).c_str(), sizeName(p.bytes).c_str(), p.busbw);
  }
  return s;
}

std::string drawLegend(const std::vector<Line>& lines) {
  size_t longest = 0;
  for (const Line& line : lines) longest = std::max(longest, line.name.size());
  std::string s =
      format("<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' rx='4' fill='#fff' fill-opacity='0.8'/>\n", kLeft + 8,
             kTop + 1, 74 + 7.8 * static_cast<double>(longest), 22.0 * static_cast<double>(lines.size()) + 4);
  double y = kTop + 18;
  for (const Line& line : lines) {
    s += format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='2.5'%s/>\n", kLeft + 16, y - 5,
                kLeft + 56, y - 5, kColours[line.colour], line.inPlace ? " stroke-dasharray='8 4'" : "");
    s += format("<text x='%.1f' y='%.1f' class='legend'>%s</text>\n", kLeft + 66, y, escape(line.name).c_str());
    y += 22;
  }
  return s;
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

std::vector<double> niceTicks(double most, int parts) {
  if (!(most > 0)) most = 1;
  double step = std::pow(10.0, std::floor(std::log10(most / parts)));
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor * parts >= most * (1 - 1e-12)) {
      step *= factor;
      break;
    }
  }
  std::vector<double> ticks;
  for (int i = 0; i == 0 || ticks.back() < most * (1 - 1e-12); ++i) ticks.push_back(i * step);
  return ticks;
}

std::string plotSvg(const Collective& c, const std::vector<Row>& rows, const std::vector<RankLine>& ranks) {
  const std::vector<Line> lines = linesOf(rows);
  double least = 1e300, most = 0, busbw = 0;
  for (const Line& l : lines) {
    for (const Point& p : l.points) {
      least = std::min(least, p.bytes);
      most = std::max(most, p.bytes);
      busbw = std::max(busbw, p.busbw);
    }
  }
  if (lines.empty()) least = most = 1;
  const std::vector<double> ticks = niceTicks(busbw * 1.04, 8);
  Axes a{std::log2(least), std::log2(most), ticks.back()};
  if (a.mostLog - a.leastLog < 1) {  // a single size stands in the middle
    a.leastLog -= 1;
    a.mostLog += 1;
  }
  std::string s = format("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' width='%g' height='%g'>\n",
                         kWidth, kHeight, kWidth, kHeight);
  s += "<style>text{font-family:'Helvetica Neue',Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#222}"
       ".title{font-size:24px;font-weight:600}.sub{font-size:14px;fill:#666}.tick{font-size:14px;fill:#444}"
       ".label{font-size:16px}.legend{font-size:15px}.grid{stroke:#e4e4e4}.axis{stroke:#444;fill:none;stroke-width:1.5}"
       "</style>\n<rect width='100%' height='100%' fill='#fff'/>\n";
  s += format("<text x='%.1f' y='40' class='title'>%s, %zu %s</text>\n", kLeft, c.name, ranks.size(),
              ranks.size() == 1 ? "rank" : "ranks");
  s += format("<text x='%.1f' y='66' class='sub'>%s</text>\n", kLeft, escape(machineText(ranks)).c_str());
  s += drawAxes(a, ticks);
  for (const Line& l : lines) s += drawLine(a, l);
  return s + drawLegend(lines) + "</svg>\n";
}

}  // namespace tutti::perf

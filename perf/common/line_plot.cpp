#include "perf/common/line_plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace tutti::perf {
namespace {

constexpr double kWidth = 960, kHeight = 560;
constexpr double kLeft = 112, kRight = 32, kTop = 88, kBottom = 76;
constexpr const char* kColours[] = {"#0b62a4", "#d9541a", "#2a8c4a", "#7d3c98", "#b8860b", "#117a8b",
                                    "#c2185b", "#555555", "#5dade2", "#f5b041", "#7dcea0", "#c39bd3"};

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

struct Axes {
  double leastLog = 0, mostLog = 1;      // of sizes, base 2
  double leastValue = 0, mostValue = 1;  // their decimal logarithms if `logarithmic`
  bool logarithmic = false;
  double x(double bytes) const {
    return kLeft + (std::log2(bytes) - leastLog) / (mostLog - leastLog) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double at = logarithmic ? std::log10(value) : value;
    return kHeight - kBottom - (at - leastValue) / (mostValue - leastValue) * (kHeight - kTop - kBottom);
  }
};

/// Looks, not identity: lines beyond the twelfth have their colours again, dashed.
const char* colourOf(size_t line) { return kColours[line % std::size(kColours)]; }
const char* dashOf(const PlotLine& line, size_t index) {
  return line.dashed || index >= std::size(kColours) ? " stroke-dasharray='8 4'" : "";
}

/// One label for each tick: all in one unit where the axis is linear.
std::string tickText(double value, const LinePlot& plot) {
  if (plot.logarithmic) return readable(value, plot.unit);
  return format("%g %s", value, plot.unit.c_str());
}

std::string drawAxes(const Axes& a, const std::vector<double>& ticks, const LinePlot& plot) {
  std::string s;
  for (double t : ticks) {
    s += format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' class='grid'/>\n", kLeft, a.y(t), kWidth - kRight,
                a.y(t));
    s += format("<text x='%.1f' y='%.1f' class='tick' text-anchor='end'>", kLeft - 10, a.y(t) + 5);
    s += tickText(t, plot) + "</text>\n";
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
                 "%s</text>\n",
                 (kTop + kHeight - kBottom) / 2, escape(plot.valueName).c_str());
}

std::string drawBand(const Axes& a, const PlotLine& line, size_t index) {
  if (line.band.empty()) return "";
  std::string s = format("<polygon fill='%s' fill-opacity='0.18' points='", colourOf(index));
  for (const PlotRange& r : line.band) s += format("%.1f,%.1f ", a.x(r.bytes), a.y(r.high));
  for (auto r = line.band.rbegin(); r != line.band.rend(); ++r) s += format("%.1f,%.1f ", a.x(r->bytes), a.y(r->low));
  return s + "'/>\n";
}

std::string drawLine(const Axes& a, const PlotLine& line, size_t index, const std::string& unit) {
  const char* colour = colourOf(index);
  std::string s =
      format("<polyline fill='none' stroke='%s' stroke-width='2.5'%s points='", colour, dashOf(line, index));
  for (const PlotPoint& p : line.points) s += format("%.1f,%.1f ", a.x(p.bytes), a.y(p.value));
  s += "'/>\n";
  if (!line.marks) return s;
  for (const PlotPoint& p : line.points) {
    s += format("<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'><title>%s, %s: %s</title></circle>\n", a.x(p.bytes),
                a.y(p.value), colour, escape(line.name).c_str(), sizeName(p.bytes).c_str(),
                readable(p.value, unit).c_str());
  }
  return s;
}

constexpr double kLegendRow = 24;

/// Columns of the legend, which stands below the picture, where it hides nothing.
size_t legendColumns(const std::vector<PlotLine>& lines) {
  size_t longest = 1;
  for (const PlotLine& line : lines) longest = std::max(longest, line.name.size());
  const double width = 70 + 8.2 * static_cast<double>(longest);
  return std::max<size_t>(1, static_cast<size_t>((kWidth - kLeft - kRight) / width));
}

double legendHeight(const std::vector<PlotLine>& lines) {
  const size_t columns = legendColumns(lines), rows = (lines.size() + columns - 1) / columns;
  return kLegendRow * static_cast<double>(rows) + 12;
}

std::string drawLegend(const std::vector<PlotLine>& lines) {
  const size_t columns = legendColumns(lines);
  const double width = (kWidth - kLeft - kRight) / static_cast<double>(columns);
  std::string s;
  for (size_t i = 0; i < lines.size(); ++i) {
    const double x = kLeft + width * static_cast<double>(i % columns);
    const double y = kHeight + 14 + kLegendRow * static_cast<double>(i / columns);
    s += format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='2.5'%s/>\n", x, y - 5, x + 40,
                y - 5, colourOf(i), dashOf(lines[i], i));
    s += format("<text x='%.1f' y='%.1f' class='legend'>%s</text>\n", x + 50, y, escape(lines[i].name).c_str());
  }
  return s;
}

Axes axesOf(const LinePlot& plot, std::vector<double>* ticks) {
  double least = 1e300, most = 0, lowest = 1e300, highest = 0;
  for (const PlotLine& l : plot.lines) {
    for (const PlotPoint& p : l.points) {
      least = std::min(least, p.bytes);
      most = std::max(most, p.bytes);
      lowest = std::min(lowest, p.value);
      highest = std::max(highest, p.value);
    }
    for (const PlotRange& r : l.band) {
      lowest = std::min(lowest, r.low);
      highest = std::max(highest, r.high);
    }
  }
  if (most <= 0) least = most = 1;
  Axes a{std::log2(least), std::log2(most), 0, 1, plot.logarithmic && highest > 0 && lowest > 0};
  if (a.mostLog - a.leastLog < 1) {  // a single size stands in the middle
    a.leastLog -= 1;
    a.mostLog += 1;
  }
  if (a.logarithmic) {
    a.leastValue = std::floor(std::log10(lowest));
    a.mostValue = std::max(a.leastValue + 1, std::ceil(std::log10(highest)));
    const bool few = a.mostValue - a.leastValue <= 2;
    for (double e = a.leastValue; e <= a.mostValue; ++e) {
      for (double factor : {1.0, 2.0, 5.0})
        if (factor < 2 || (few && e < a.mostValue)) ticks->push_back(factor * std::pow(10.0, e));
    }
  } else {
    *ticks = niceTicks(highest * 1.04, 8);
    a.mostValue = ticks->back();
  }
  return a;
}

}  // namespace

std::string sizeName(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return format("%g %s", bytes, units[unit]);
}

std::string readable(double value, const std::string& unit) {
  struct Unit {
    double size;
    const char* name;
  };
  constexpr Unit kTimes[] = {{1e6, "s"}, {1e3, "ms"}, {1, "us"}, {1e-3, "ns"}};
  constexpr Unit kRates[] = {{1e3, "TB/s"}, {1, "GB/s"}, {1e-3, "MB/s"}, {1e-6, "kB/s"}, {1e-9, "B/s"}};
  const auto in = [&](const auto& units) {
    for (const Unit& u : units)
      if (value >= u.size * (1 - 1e-9)) return format("%.4g %s", value / u.size, u.name);
    return format("%.4g %s", value, unit.c_str());
  };
  if (unit == "us") return in(kTimes);
  if (unit == "GB/s") return in(kRates);
  return format("%.4g %s", value, unit.c_str());
}

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

std::string toSvg(const LinePlot& plot) {
  std::vector<double> ticks;
  const Axes a = axesOf(plot, &ticks);
  const double height = kHeight + legendHeight(plot.lines);
  std::string s = format("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' width='%g' height='%g'>\n",
                         kWidth, height, kWidth, height);
  s += "<style>text{font-family:'Helvetica Neue',Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#222}"
       ".title{font-size:24px;font-weight:600}.sub{font-size:14px;fill:#666}.tick{font-size:14px;fill:#444}"
       ".label{font-size:16px}.legend{font-size:15px}.grid{stroke:#e4e4e4}.axis{stroke:#444;fill:none;stroke-width:1.5}"
       "</style>\n<rect width='100%' height='100%' fill='#fff'/>\n";
  s += format("<text x='%.1f' y='40' class='title'>%s</text>\n", kLeft, escape(plot.title).c_str());
  s += format("<text x='%.1f' y='66' class='sub'>%s</text>\n", kLeft, escape(plot.subtitle).c_str());
  s += drawAxes(a, ticks, plot);
  for (size_t i = 0; i < plot.lines.size(); ++i) s += drawBand(a, plot.lines[i], i);
  for (size_t i = 0; i < plot.lines.size(); ++i) s += drawLine(a, plot.lines[i], i, plot.unit);
  return s + drawLegend(plot.lines) + "</svg>\n";
}

}  // namespace tutti::perf

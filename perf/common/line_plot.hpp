// Lines over message size as an SVG picture: logarithmic sizes, axes with units, a legend.
#pragma once

#include <string>
#include <vector>

namespace tutti::perf {

struct PlotPoint {
  double bytes = 0, value = 0;
};

struct PlotLine {
  std::string name;
  bool dashed = false;
  std::vector<PlotPoint> points;  // in order of bytes
};

struct LinePlot {
  std::string title, subtitle;
  std::string valueName;     // with its unit: "bus bandwidth (GB/s)"
  std::string unit;          // of a value, for what is shown when pointing at one
  bool logarithmic = false;  // values too; all above 0
  std::vector<PlotLine> lines;
};

/// Text of an SVG file.
std::string toSvg(const LinePlot& plot);

/// Steps of 1, 2 or 5 times a power of ten that divide 0..most into at most `parts` parts; the last is >= most.
std::vector<double> niceTicks(double most, int parts);

}  // namespace tutti::perf

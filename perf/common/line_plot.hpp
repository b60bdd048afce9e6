// Lines over message size as an SVG picture: logarithmic sizes, axes with units, a legend.
#pragma once

#include <string>
#include <vector>

namespace tutti::perf {

struct PlotPoint {
  double bytes = 0, value = 0;
};

/// Between which values most of what was measured at a size lies.
struct PlotRange {
  double bytes = 0, low = 0, high = 0;
};

struct PlotLine {
  std::string name;
  bool dashed = false;
  std::vector<PlotPoint> points;  // in order of bytes
  std::vector<PlotRange> band;    // shaded in the line's colour; in order of bytes, may be empty
  bool marks = true;              // a dot at each point: something was measured there
};

struct LinePlot {
  std::string title, subtitle;
  std::string valueName;     // "bus bandwidth"
  std::string unit;          // of values: "us" and "GB/s" are shown as "10 ms" and "100 MB/s" where that reads better
  bool logarithmic = false;  // values too; all above 0
  std::vector<PlotLine> lines;
};

/// A value with its unit, as a reader has it at once: 2e7 us is "20 s", 0.002 GB/s is "2 MB/s".
std::string readable(double value, const std::string& unit);

/// Text of an SVG file.
std::string toSvg(const LinePlot& plot);

/// A size of messages: "64 KiB".
std::string sizeName(double bytes);

/// Steps of 1, 2 or 5 times a power of ten that divide 0..most into at most `parts` parts; the last is >= most.
std::vector<double> niceTicks(double most, int parts);

}  // namespace tutti::perf

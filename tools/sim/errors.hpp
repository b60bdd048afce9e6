// How far predictions are off: geometric means and the worst, by ranges of sizes.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tutti::sim {

struct Errors {
  double sumLog = 0, worst = 0;
  int count = 0, beyond = 0;  // beyond: off by more than 1.5 times
  /// predicted / measured.
  void add(double ratio);
  void add(const Errors& others);
  double mean() const;
  std::string text() const;  // "   3.4 %    10.1 %", dashes where there are none
};

constexpr int kRanges = 3;
inline constexpr const char* kRangeNames[kRanges] = {"below 1 MB", "1 to 64 MB", "from 64 MB"};
int rangeOf(double bytes);

using RangeErrors = std::array<Errors, kRanges>;

void add(const RangeErrors& some, RangeErrors* sum);

/// Of one set.
struct SetErrors {
  std::string name;
  bool doubted = false;  // PublishedSet::doubt
  RangeErrors fitted, held, specified;
};

/// Every set by ranges, then all together, with and without those in doubt, and how many points are far off.
std::string summary(const std::vector<SetErrors>& sets);
/// "  WHAT, below 1 MB: mean and worst error ...", a line for each range that has points.
std::string rangeLines(const char* what, const RangeErrors& errors);

}  // namespace tutti::sim

#include "tools/sim/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/base/text.hpp"
#include "tools/sim/ask.hpp"

namespace tutti::sim {
namespace {

constexpr double kPlateau = 64e6;   // bytes from which bandwidth is all
constexpr double kFarOff = 1.5;     // times
constexpr double kSmall = 1 << 20;  // bytes below which latency is most

std::string farOff(const RangeErrors& all, const RangeErrors& sure) {
  Errors every, undoubted;
  for (const Errors& range : all) every.add(range);
  for (const Errors& range : sure) undoubted.add(range);
  return cat("  off by more than ", shortNumber(kFarOff), " times: ", every.beyond, " of ", every.count, " points, ",
             undoubted.beyond, " of the ", undoubted.count, " that nothing contradicts\n");
}

std::string rows(const std::string& name, const RangeErrors& specified, const RangeErrors& held) {
  std::string text = cat("  ", name, "\n");
  for (size_t range = 0; range < kRanges; ++range) {
    if (specified[range].count + held[range].count == 0) continue;
    text +=
        cat("    ", padded(kRangeNames[range], 10), "  ", specified[range].text(), "  | ", held[range].text(), "\n");
  }
  return text;
}

}  // namespace

void Errors::add(double ratio) {
  const double error = std::max(ratio, 1 / ratio) - 1;
  sumLog += std::log1p(error);
  worst = std::max(worst, error);
  beyond += error > kFarOff - 1;
  ++count;
}

void Errors::add(const Errors& others) {
  sumLog += others.sumLog;
  worst = std::max(worst, others.worst);
  count += others.count;
  beyond += others.beyond;
}

double Errors::mean() const { return count == 0 ? 0 : std::expm1(sumLog / count); }

std::string Errors::text() const {
  if (count == 0) return "       -        -";
  char line[64];
  std::snprintf(line, sizeof line, "%6.1f %%  %6.1f %%", 100 * mean(), 100 * worst);
  return line;
}

int rangeOf(double bytes) { return bytes >= kPlateau ? 2 : bytes < kSmall ? 0 : 1; }

void add(const RangeErrors& some, RangeErrors* sum) {
  for (size_t range = 0; range < kRanges; ++range) (*sum)[range].add(some[range]);
}

std::string rangeLines(const char* what, const RangeErrors& errors) {
  std::string text;
  for (size_t range = 0; range < kRanges; ++range) {
    if (errors[range].count == 0) continue;
    text += cat("  ", what, ", ", kRangeNames[range], ": mean and worst error ", errors[range].text(), "\n");
  }
  return text;
}

std::string summary(const std::vector<SetErrors>& sets) {
  std::string text = "mean and worst error by set: from specification only | with the set's constants, held out\n";
  RangeErrors specified, held, sure, sureHeld;
  for (const SetErrors& set : sets) {
    text += rows(set.doubted ? set.name + " (in doubt)" : set.name, set.specified, set.held);
    RangeErrors ofSpecified;
    for (size_t range = 0; range < kRanges; ++range) {
      if (set.specified[range].count > 0) ofSpecified[range] = set.held[range];
    }
    add(set.specified, &specified);
    add(ofSpecified, &held);
    if (set.doubted) continue;
    add(set.specified, &sure);
    add(ofSpecified, &sureHeld);
  }
  text += rows("all sets that have a specification", specified, held);
  return text + rows("of these the sets that nothing contradicts", sure, sureHeld) + farOff(specified, sure);
}

}  // namespace tutti::sim

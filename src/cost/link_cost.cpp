#include "src/cost/link_cost.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr std::array<const char*, kNumProtocols> kProtocols = {"inline", "slots", "direct"};

}  // namespace

const char* protocolName(Protocol protocol) { return kProtocols[static_cast<size_t>(protocol)]; }

bool parseProtocol(std::string_view name, Protocol* out) {
  const auto found = std::find(kProtocols.begin(), kProtocols.end(), name);
  if (found == kProtocols.end()) return false;
  *out = static_cast<Protocol>(found - kProtocols.begin());
  return true;
}

bool isLinkKey(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' && std::ranges::all_of(text, fits);
}

std::optional<double> LinkCost::aloneUsOf(double bytes) const {
  double below = 0, at = 0;
  for (size_t i = 0; i < kMessageSizes.size() && aloneUs[i] > 0; ++i) {
    const auto above = static_cast<double>(kMessageSizes[i]);
    if (bytes <= above && i == 0) return aloneUs[i];
    if (bytes <= above) {
      return at * std::pow(aloneUs[i] / at, std::log(bytes / below) / std::log(above / below));
    }
    below = above;
    at = aloneUs[i];
  }
  return std::nullopt;
}

// Memory that is far is in no cache, whoever wrote it.
double LinkCost::freshUsPerByte(double farness) const {
  if (freshGBps <= 0 || near.bothWays <= 0) return 0;
  return std::max(0.0, perByte(freshGBps) - perByte(near.bothWays)) * (1 - farness);
}

// Between the sizes that were measured, along a straight line of logarithms.
LinearCost LinkCost::costIn(double bytes, double farness, bool bothWays) const {
  LinearCost result = cost;
  if (near.oneWay <= 0) return result;
  // Messages that follow each other overlap, the more of them the better; but where both ends are busy with two
  // messages at once nothing is left to overlap, and a few are as slow as many.
  const bool overlaps = !bothWays || near.bothWays >= cost.bandwidthGBps;
  const double aloneBytes = overlaps ? 64 * 1024 : 8 * 1024;
  const double streamBytes = overlaps ? kNearBytes : 64 * 1024;
  // Single messages were measured one way; whoever sends and receives at once has the work of both.
  const double alone = bothWays ? cost.bandwidthGBps * std::min(1.0, near.bothWays / near.oneWay) : cost.bandwidthGBps;
  const double nearGBps = bothWays ? near.bothWays : near.oneWay;
  const double farGBps = bothWays ? far.bothWays : far.oneWay;
  const double streams =
      std::clamp(std::log(std::max(bytes, 1.0) / aloneBytes) / std::log(streamBytes / aloneBytes), 0.0, 1.0);
  result.bandwidthGBps = alone * std::pow(nearGBps / alone, streams) * std::pow(farGBps / nearGBps, farness);
  return result;
}

}  // namespace tutti

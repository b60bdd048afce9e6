#include "src/cost/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cost/kept_text.hpp"

namespace tutti {
namespace {

constexpr double kLeastGBps = 1e-4, kMostGBps = 1e5, kMostLatencyUs = 1e7;

/// The link that a line of `count` words is about, which begins with its kind and protocol; null if it is no such line.
LinkCost* linkOf(const std::vector<std::string>& words, size_t count, Calibration* into) {
  Protocol protocol{};
  if (words.size() != count || !isLinkKey(words[0]) || !parseProtocol(words[1], &protocol)) return nullptr;
  return &into->at(words[0], protocol);
}

bool parseLink(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  LinkCost* const found = linkOf(words, 5, into);
  if (found == nullptr) return false;
  LinkCost& link = *found;
  if (link.available) return false;  // twice
  link.available = true;
  return parseNumber(words[2], 0.0, kMostLatencyUs, &link.cost.latencyUs) &&
         parseNumber(words[3], kLeastGBps, kMostGBps, &link.cost.bandwidthGBps) &&
         parseNumber(words[4], uint64_t{1}, UINT64_MAX, &link.mostBytes);
}

bool parseStream(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  LinkCost* const found = linkOf(words, 6, into);
  if (found == nullptr) return false;
  LinkCost& link = *found;
  if (!link.available || link.near.oneWay > 0) return false;  // before its link, or twice
  size_t word = 2;
  for (double* rate : {&link.near.oneWay, &link.near.bothWays, &link.far.oneWay, &link.far.bothWays}) {
    if (!parseNumber(words[word++], kLeastGBps, kMostGBps, rate)) return false;
  }
  return true;
}

bool parseMeasured(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  if (words.size() != 3 || (words[2] != "complete" && words[2] != "first" && words[2] != "cut")) return false;
  into->complete = words[2] != "cut";
  into->whole = words[2] != "first";
  return parseNumber(words[0], 0, 1 << 20, &into->times) && parseNumber(words[1], 0.0, 1.0, &into->disturbed);
}

bool parseHere(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  LinkCost* const found = linkOf(words, 4, into);
  if (found == nullptr) return false;
  LinkCost& link = *found;
  if (!link.available || link.here.bandwidthGBps > 0) return false;  // before its link, or twice
  return parseNumber(words[2], 0.0, kMostLatencyUs, &link.here.latencyUs) &&
         parseNumber(words[3], kLeastGBps, kMostGBps, &link.here.bandwidthGBps);
}

bool parseAlone(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  LinkCost* const found = linkOf(words, 2 + kMessageSizes.size(), into);
  if (found == nullptr || !found->available || found->aloneUs[0] > 0) return false;  // before its link, or twice
  for (size_t i = 0; i < kMessageSizes.size(); ++i) {
    if (!parseNumber(words[2 + i], 0.0, kMostLatencyUs, &found->aloneUs[i])) return false;
  }
  return found->aloneUs[0] > 0;
}

bool parseFresh(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  LinkCost* const found = linkOf(words, 3, into);
  if (found == nullptr) return false;
  LinkCost& link = *found;
  return link.available && link.freshGBps <= 0 && parseNumber(words[2], kLeastGBps, kMostGBps, &link.freshGBps);
}

bool parseCaches(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  if (words.size() != into->caches.size()) return false;
  double least = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!parseNumber(words[i], least, 1.0, &into->caches[i])) return false;
    least = into->caches[i];
  }
  return true;
}

bool parseLoops(std::string_view rest, Calibration* into) {
  const std::vector<std::string> words = split(rest, ' ');
  if (words.size() != into->copyLoops.size()) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "0" && words[i] != "1") return false;
    into->copyLoops[i] = words[i] == "1";
  }
  return true;
}

bool parseNearAndFar(std::string_view rest, double* near, double* far) {
  const std::vector<std::string> words = split(rest, ' ');
  return words.size() == 2 && parseNumber(words[0], kLeastGBps, kMostGBps, near) &&
         parseNumber(words[1], kLeastGBps, kMostGBps, far);
}

/// One line "key rest".
bool parseLine(std::string_view key, std::string_view rest, Calibration* into) {
  if (isOfMachine(key)) return parseMachineLine(key, rest, &into->machine);
  if (key == "measured") return parseMeasured(rest, into);
  if (key == "copy-gbps") return parseNearAndFar(rest, &into->copyGBps, &into->copyFarGBps);
  if (key == "reduce-gbps") return parseNearAndFar(rest, &into->reduceGBps, &into->reduceFarGBps);
  if (key == "caches") return parseCaches(rest, into);
  if (key == "copy-loops") return parseLoops(rest, into);
  if (key == "stream-from-bytes") return parseNumber(rest, uint64_t{0}, UINT64_MAX, &into->streamFromBytes);
  if (key == "hand-over-us") return parseNumber(rest, 0.0, kMostLatencyUs, &into->handOverUs);
  if (key == "stream") return parseStream(rest, into);
  if (key == "alone") return parseAlone(rest, into);
  if (key == "here") return parseHere(rest, into);
  if (key == "fresh") return parseFresh(rest, into);
  return key == "link" && parseLink(rest, into);
}

}  // namespace

double Calibration::copyGBpsIn(double footprint) const {
  return copyGBps * std::pow(copyFarGBps / copyGBps, farness(footprint));
}

double Calibration::reduceGBpsIn(double footprint) const {
  return reduceGBps * std::pow(reduceFarGBps / reduceGBps, farness(footprint));
}

// Between the footprints that were measured, along a straight line of their logarithms.
double Calibration::farness(double footprint) const {
  double below = kNearFootprint, at = 0;
  for (size_t i = 0; i <= caches.size(); ++i) {
    const double above = static_cast<double>(i < caches.size() ? kCacheFootprints[i] : kFarFootprint);
    const double there = i < caches.size() ? caches[i] : 1;
    if (footprint <= above) return std::lerp(at, there, tutti::farness(footprint, below, above));
    below = above;
    at = there;
  }
  return 1;
}

const ProtocolCosts* Calibration::find(std::string_view key) const {
  const auto found = std::ranges::find(links, key, &Link::key);
  return found == links.end() ? nullptr : &found->costs;
}

const LinkCost& Calibration::at(std::string_view key, Protocol protocol) const {
  static const ProtocolCosts none = {};
  const ProtocolCosts* const found = find(key);
  return (found != nullptr ? *found : none)[protocol];
}

LinkCost& Calibration::at(std::string_view key, Protocol protocol) {
  const auto found = std::ranges::find(links, key, &Link::key);
  if (found != links.end()) return found->costs[protocol];
  links.push_back({std::string(key), {}});
  return links.back().costs[protocol];
}

Calibration defaultCalibration(const MachineIdentity& machine, const LinkKinds& kinds) {
  Calibration c;
  c.machine = machine;
  c.copyGBps = 10;
  c.copyFarGBps = 5;
  c.reduceGBps = 20;
  c.reduceFarGBps = 10;
  for (size_t i = 0; i < c.caches.size(); ++i) {
    c.caches[i] = tutti::farness(static_cast<double>(kCacheFootprints[i]), kNearFootprint, kFarFootprint);
  }
  (void)addMissing(kinds, &c);
  return c;
}

bool addMissing(const LinkKinds& kinds, Calibration* calibration) {
  const size_t before = calibration->links.size();
  for (const LinkDescription& kind : kinds) {
    if (calibration->find(kind.profile.key) != nullptr) continue;
    calibration->links.push_back({std::string(kind.profile.key), kind.builtIn()});
  }
  return calibration->links.size() > before;
}

namespace {

/// whose: "shm-threads slots ".
std::string linesOf(const std::string& whose, const LinkCost& link) {
  if (!link.available) return "";
  std::string out =
      cat("link ", whose, number(link.cost.latencyUs), " ", number(link.cost.bandwidthGBps), " ", link.mostBytes, "\n");
  if (link.aloneUs[0] > 0) {
    out += cat("alone ", whose.substr(0, whose.size() - 1));
    for (const double us : link.aloneUs) out += cat(" ", number(us));
    out += "\n";
  }
  if (link.near.oneWay > 0) {
    out += cat("stream ", whose, number(link.near.oneWay), " ", number(link.near.bothWays), " ",
               number(link.far.oneWay), " ", number(link.far.bothWays), "\n");
  }
  if (link.here.bandwidthGBps > 0) {
    out += cat("here ", whose, number(link.here.latencyUs), " ", number(link.here.bandwidthGBps), "\n");
  }
  if (link.freshGBps > 0) out += cat("fresh ", whose, number(link.freshGBps), "\n");
  return out;
}

}  // namespace

std::string toText(const Calibration& c) {
  const char* const state = !c.complete ? " cut" : c.whole ? " complete" : " first";
  std::string out =
      cat("tutti-calibration ", Calibration::kVersion, "\n", machineLines(c.machine), "measured ", c.times, " ",
          number(c.disturbed), state, "\ncopy-gbps ", number(c.copyGBps), " ", number(c.copyFarGBps), "\nreduce-gbps ",
          number(c.reduceGBps), " ", number(c.reduceFarGBps), "\ncaches");
  for (const double part : c.caches) out += cat(" ", number(part));
  out += "\ncopy-loops";
  for (const bool loop : c.copyLoops) out += loop ? " 1" : " 0";
  out += cat("\nstream-from-bytes ", c.streamFromBytes, "\nhand-over-us ", number(c.handOverUs), "\n");
  for (const Calibration::Link& link : c.links) {
    for (const Protocol p : kAllProtocols) out += linesOf(cat(link.key, " ", protocolName(p), " "), link.costs[p]);
  }
  return out + "end\n";
}

namespace {

struct Faster {
  StreamRate operator()(const StreamRate& x, const StreamRate& y) const {
    return {std::max(x.oneWay, y.oneWay), std::max(x.bothWays, y.bothWays)};
  }
  LinearCost operator()(const LinearCost& x, const LinearCost& y) const {
    return {std::min(x.latencyUs, y.latencyUs), std::max(x.bandwidthGBps, y.bandwidthGBps)};
  }
  /// best: one of the two, in all but what is compared.
  LinkCost operator()(const LinkCost& x, const LinkCost& y, LinkCost best) const {
    if (!x.available || !y.available) return x.available ? x : y;
    best.cost = (*this)(x.cost, y.cost);
    for (size_t i = 0; i < best.aloneUs.size(); ++i) best.aloneUs[i] = std::min(x.aloneUs[i], y.aloneUs[i]);
    if (x.here.bandwidthGBps > 0 && y.here.bandwidthGBps > 0) best.here = (*this)(x.here, y.here);
    best.freshGBps = std::max(x.freshGBps, y.freshGBps);
    best.near = (*this)(x.near, y.near);
    best.far = (*this)(x.far, y.far);
    return best;
  }
};

}  // namespace

void takeBetterMemory(const Calibration& other, Calibration* into) {
  if (other.copyGBps > into->copyGBps) into->caches = other.caches;
  into->copyGBps = std::max(into->copyGBps, other.copyGBps);
  into->copyFarGBps = std::max(into->copyFarGBps, other.copyFarGBps);
  into->reduceGBps = std::max(into->reduceGBps, other.reduceGBps);
  into->reduceFarGBps = std::max(into->reduceFarGBps, other.reduceFarGBps);
}

Calibration bestOf(const Calibration& a, const Calibration& b) {
  constexpr Faster faster;
  Calibration best = (a.complete != b.complete ? a.complete : a.disturbed <= b.disturbed) ? a : b;
  best.times = a.times + b.times;
  for (const auto* all : {&a, &b}) {
    for (const Calibration::Link& link : all->links) {
      if (best.find(link.key) != nullptr) continue;
      best.links.push_back(link);
      best.complete = best.complete && all->complete;
    }
  }
  if (!a.complete || !b.complete) return best;
  if (!best.whole) best.streamFromBytes = a.whole ? a.streamFromBytes : b.streamFromBytes;
  best.whole = a.whole || b.whole;
  for (const auto* all : {&a, &b}) {
    if (all->handOverUs > 0 && (best.handOverUs <= 0 || all->handOverUs < best.handOverUs)) {
      best.handOverUs = all->handOverUs;
    }
    takeBetterMemory(*all, &best);
    for (const Calibration::Link& link : all->links) {
      if (a.find(link.key) == nullptr || b.find(link.key) == nullptr) continue;
      for (const Protocol p : kAllProtocols) {
        best.at(link.key, p) = faster(a.at(link.key, p), b.at(link.key, p), best.at(link.key, p));
      }
    }
  }
  return best;
}

Result<Calibration> parseCalibration(std::string_view text) {
  if (text.size() > kMostCalibrationBytes)
    return invalidArgument(ErrorCode::KeptFigures, "longer than any calibration");
  Calibration c;
  c.machine.cores = 0;
  TUTTI_TRY(parseKeptText(text, cat("tutti-calibration ", Calibration::kVersion),
                          [&](std::string_view key, std::string_view rest) { return parseLine(key, rest, &c); }));
  TUTTI_TRY(saysWhose(c.machine));
  return c;
}

}  // namespace tutti

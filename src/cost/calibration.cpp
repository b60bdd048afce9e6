#include "src/cost/calibration.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "src/base/config.hpp"
#include "src/cost/kept_text.hpp"
#include "src/walk/memory.hpp"

namespace tutti {
namespace {

constexpr std::array<const char*, kNumLinkKinds> kKinds = {"shm-threads", "shm-processes", "tcp-local", "tcp-remote"};
constexpr std::array<const char*, kNumProtocols> kProtocols = {"inline", "slots", "direct"};

template <class E, size_t n>
bool parseName(const std::array<const char*, n>& names, std::string_view name, E* out) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return false;
  *out = static_cast<E>(found - names.begin());
  return true;
}

/// Bytes that go in one control line beside its flag.
constexpr uint64_t kInlineBytes = 48;
constexpr uint64_t kSlotBytes = 128 * 1024;

/// Mbit/s of the fastest interface that is up and says so; 0 if none does.
double fastestInterfaceMbit() {
  double most = 0;
  DIR* folder = opendir("/sys/class/net");
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "lo" || name.starts_with('.')) continue;
    std::string state;
    double mbit = 0;
    std::ifstream(cat("/sys/class/net/", name, "/operstate")) >> state;
    std::ifstream(cat("/sys/class/net/", name, "/speed")) >> mbit;
    if (state == "up" && mbit > 0 && mbit < 1e7) most = std::max(most, mbit);
  }
  closedir(folder);
  return most;
}

constexpr double kLeastGBps = 1e-4, kMostGBps = 1e5, kMostLatencyUs = 1e7;

/// The link that a line of `count` words is about, which begins with its kind and protocol; null if it is no such line.
LinkCost* linkOf(const std::vector<std::string>& words, size_t count, Calibration* into) {
  LinkKind kind{};
  Protocol protocol{};
  if (words.size() != count || !parseLinkKind(words[0], &kind) || !parseProtocol(words[1], &protocol)) return nullptr;
  return &into->at(kind, protocol);
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
  if (words.size() != 3 || (words[2] != "complete" && words[2] != "cut")) return false;
  into->complete = words[2] == "complete";
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
  if (key == "stream-from-bytes") return parseNumber(rest, uint64_t{0}, UINT64_MAX, &into->streamFromBytes);
  if (key == "stream") return parseStream(rest, into);
  if (key == "alone") return parseAlone(rest, into);
  if (key == "here") return parseHere(rest, into);
  if (key == "fresh") return parseFresh(rest, into);
  return key == "link" && parseLink(rest, into);
}

}  // namespace

const char* linkKindName(LinkKind kind) { return kKinds[static_cast<size_t>(kind)]; }
const char* protocolName(Protocol protocol) { return kProtocols[static_cast<size_t>(protocol)]; }
bool parseLinkKind(std::string_view name, LinkKind* out) { return parseName(kKinds, name, out); }
bool parseProtocol(std::string_view name, Protocol* out) { return parseName(kProtocols, name, out); }

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
    if (footprint <= above) return std::lerp(at, there, walk::farness(footprint, below, above));
    below = above;
    at = there;
  }
  return 1;
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

Calibration defaultCalibration(const MachineIdentity& machine) {
  Calibration c;
  c.machine = machine;
  c.copyGBps = 10;
  c.copyFarGBps = 5;
  c.reduceGBps = 20;
  c.reduceFarGBps = 10;
  for (size_t i = 0; i < c.caches.size(); ++i) {
    c.caches[i] = walk::farness(static_cast<double>(kCacheFootprints[i]), kNearFootprint, kFarFootprint);
  }
  const auto set = [&](LinkKind kind, Protocol protocol, double latencyUs, double gbps, uint64_t mostBytes) {
    c.at(kind, protocol) = {.available = true, .cost = {latencyUs, gbps}, .mostBytes = mostBytes};
  };
  for (const LinkKind kind : {LinkKind::ShmThreads, LinkKind::ShmProcesses}) {
    set(kind, Protocol::Inline, 0.15, 1, kInlineBytes);
    set(kind, Protocol::Slots, 0.25, 7, kSlotBytes);
  }
  set(LinkKind::ShmThreads, Protocol::Direct, 0.4, 11, UINT64_MAX);
  set(LinkKind::ShmProcesses, Protocol::Direct, 0.8, 11, UINT64_MAX);
  for (const LinkKind kind : {LinkKind::ShmThreads, LinkKind::ShmProcesses}) {
    c.at(kind, Protocol::Slots).near = {10, 5};
    c.at(kind, Protocol::Slots).far = {8, 4};
    c.at(kind, Protocol::Inline).here = {0.1, 1};
    c.at(kind, Protocol::Slots).here = {0.1, 10};
    c.at(kind, Protocol::Direct).freshGBps = 6;
  }
  c.at(LinkKind::ShmThreads, Protocol::Direct).near = {20, 20};
  c.at(LinkKind::ShmThreads, Protocol::Direct).far = {9, 5};
  c.at(LinkKind::ShmProcesses, Protocol::Direct).near = {12, 12};
  c.at(LinkKind::ShmProcesses, Protocol::Direct).far = {4, 4.2};
  set(LinkKind::TcpLocal, Protocol::Slots, 4, 4, kSlotBytes);
  const double mbit = fastestInterfaceMbit();
  // 94 % of the wire is payload with 1500-byte frames; 10 Gbit/s where nothing is known.
  set(LinkKind::TcpRemote, Protocol::Slots, 20, (mbit > 0 ? mbit : 10000) / 8e3 * 0.94, kSlotBytes);
  return c;
}

std::string toText(const Calibration& c) {
  std::string out =
      cat("tutti-calibration ", Calibration::kVersion, "\n", machineLines(c.machine), "measured ", c.times, " ",
          number(c.disturbed), c.complete ? " complete" : " cut", "\ncopy-gbps ", number(c.copyGBps), " ",
          number(c.copyFarGBps), "\nreduce-gbps ", number(c.reduceGBps), " ", number(c.reduceFarGBps), "\ncaches");
  for (const double part : c.caches) out += cat(" ", number(part));
  out += cat("\nstream-from-bytes ", c.streamFromBytes, "\n");
  for (size_t kind = 0; kind < kNumLinkKinds; ++kind) {
    for (size_t protocol = 0; protocol < kNumProtocols; ++protocol) {
      const LinkCost& link = c.links[kind][protocol];
      if (!link.available) continue;
      out += cat("link ", kKinds[kind], " ", kProtocols[protocol], " ", number(link.cost.latencyUs), " ",
                 number(link.cost.bandwidthGBps), " ", link.mostBytes, "\n");
      const std::string whose = cat(kKinds[kind], " ", kProtocols[protocol], " ");
      if (link.aloneUs[0] > 0) {
        out += cat("alone ", kKinds[kind], " ", kProtocols[protocol]);
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
    }
  }
  return out + "end\n";
}

Calibration bestOf(const Calibration& a, const Calibration& b) {
  struct Faster {
    StreamRate operator()(const StreamRate& x, const StreamRate& y) const {
      return {std::max(x.oneWay, y.oneWay), std::max(x.bothWays, y.bothWays)};
    }
    LinearCost operator()(const LinearCost& x, const LinearCost& y) const {
      return {std::min(x.latencyUs, y.latencyUs), std::max(x.bandwidthGBps, y.bandwidthGBps)};
    }
  };
  constexpr Faster faster;
  Calibration best = (a.complete != b.complete ? a.complete : a.disturbed <= b.disturbed) ? a : b;
  best.times = a.times + b.times;
  if (!a.complete || !b.complete) return best;
  best.copyGBps = std::max(a.copyGBps, b.copyGBps);
  best.copyFarGBps = std::max(a.copyFarGBps, b.copyFarGBps);
  best.reduceGBps = std::max(a.reduceGBps, b.reduceGBps);
  best.reduceFarGBps = std::max(a.reduceFarGBps, b.reduceFarGBps);
  for (size_t kind = 0; kind < kNumLinkKinds; ++kind) {
    for (size_t protocol = 0; protocol < kNumProtocols; ++protocol) {
      const LinkCost &x = a.links[kind][protocol], &y = b.links[kind][protocol];
      LinkCost& link = best.links[kind][protocol];
      if (!x.available || !y.available) {
        link = x.available ? x : y;
        continue;
      }
      link.cost = faster(x.cost, y.cost);
      for (size_t i = 0; i < link.aloneUs.size(); ++i) link.aloneUs[i] = std::min(x.aloneUs[i], y.aloneUs[i]);
      link.here = x.here.bandwidthGBps > 0 && y.here.bandwidthGBps > 0 ? faster(x.here, y.here) : link.here;
      link.freshGBps = std::max(x.freshGBps, y.freshGBps);
      link.near = faster(x.near, y.near);
      link.far = faster(x.far, y.far);
    }
  }
  return best;
}

Result<Calibration> parseCalibration(std::string_view text) {
  if (text.size() > kMostCalibrationBytes) return invalidArgument("longer than any calibration");
  Calibration c;
  c.machine.cores = 0;
  TUTTI_TRY(parseKeptText(text, cat("tutti-calibration ", Calibration::kVersion),
                          [&](std::string_view key, std::string_view rest) { return parseLine(key, rest, &c); }));
  TUTTI_TRY(saysWhose(c.machine));
  return c;
}

}  // namespace tutti

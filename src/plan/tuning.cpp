#include "src/plan/tuning.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "src/base/log.hpp"
#include "src/cost/kept_text.hpp"
#include "src/plan/planner.hpp"

namespace tutti {
namespace {

std::string_view linkText(const std::string& key) { return key.empty() ? "-" : std::string_view(key); }

bool parseLinkText(std::string_view text, std::string* key) {
  if (text == "-") return true;
  *key = text;
  return isLinkKey(text);
}

std::string linkKey(const std::optional<LinkProfile>& link) { return link ? std::string(link->key) : ""; }

bool parseRanks(std::string_view rest, Tuning* into) {
  const std::vector<std::string> words = split(rest, ' ');
  TunedRanks ranks;
  constexpr int kMost = 1 << 20;
  if (words.size() < 5 || words.size() > 6 || !parseNumber(words[0], 1, kMost, &ranks.nRanks) ||
      !parseNumber(words[1], 1, kMost, &ranks.nHosts) || !parseLinkText(words[2], &ranks.intra) ||
      !parseLinkText(words[3], &ranks.inter) || !parseNumber(words[4], 1.0, 1e6, &ranks.perCore)) {
    return false;
  }
  into->sets.push_back({ranks, {}});
  return true;
}

/// ways: of the last set, those that the line adds to.
bool parseWay(std::string_view rest, Tuning* into, std::vector<TunedWay> Tuning::Set::*ways) {
  const std::vector<std::string> words = split(rest, ' ');
  TunedWay way;
  if (into->sets.empty() || words.size() < 5 || words.size() > 6 || !parseCollective(words[0], &way.collective) ||
      !parseNumber(words[1], size_t{0}, SIZE_MAX, &way.bytes) || words[2].empty() ||
      !parseProtocol(words[3], &way.protocol) || !parseNumber(words[4], 1e-6, 1e12, &way.us)) {
    return false;
  }
  way.joined = words.size() == 6;
  if (way.joined && words[5] != "joined") return false;
  way.algorithm = words[2];
  (into->sets.back().*ways).push_back(std::move(way));
  return true;
}

/// sends: of the last set, those that the line adds to.
bool parseSend(std::string_view rest, Tuning* into, std::vector<TunedSend> Tuning::Set::*sends) {
  const std::vector<std::string> words = split(rest, ' ');
  TunedSend send;
  if (into->sets.empty() || words.size() != 3 || !parseNumber(words[0], size_t{1}, SIZE_MAX, &send.bytes) ||
      !parseProtocol(words[1], &send.protocol) || !parseNumber(words[2], 1e-6, 1e12, &send.us)) {
    return false;
  }
  (into->sets.back().*sends).push_back(send);
  return true;
}

bool parseLearned(std::string_view rest, Tuning* into) {
  constexpr std::string_view kSend = "send ";
  if (rest.starts_with(kSend)) return parseSend(rest.substr(kSend.size()), into, &Tuning::Set::learnedSends);
  return parseWay(rest, into, &Tuning::Set::learned);
}

std::string sendText(const TunedSend& send) {
  return cat("send ", send.bytes, " ", protocolName(send.protocol), " ", number(send.us));
}

std::string wayText(const TunedWay& way) {
  return cat(collectiveKey(way.collective), " ", way.bytes, " ", way.algorithm, " ", protocolName(way.protocol), " ",
             number(way.us), way.joined ? " joined" : "");
}

double logOf(size_t bytes) { return std::log(static_cast<double>(bytes)); }

/// Along a straight line of logarithms.
template <class Figure>
double usBetween(const Figure& a, const Figure& b, size_t bytes) {
  const double part = (logOf(bytes) - logOf(a.bytes)) / (logOf(b.bytes) - logOf(a.bytes));
  return std::exp(std::lerp(std::log(a.us), std::log(b.us), part));
}

/// The figure of the nearest size, with the time for this one.  TunedWay or TunedSend, of those that `counts`.
template <class Figure, class Counts>
std::optional<Figure> nearest(const std::vector<Figure>& figures, size_t bytes, const Counts& counts) {
  const Figure *below = nullptr, *above = nullptr;
  for (const Figure& figure : figures) {
    if (figure.bytes == 0 || !counts(figure)) continue;
    if (figure.bytes <= bytes && (below == nullptr || figure.bytes > below->bytes)) below = &figure;
    if (figure.bytes >= bytes && (above == nullptr || figure.bytes < above->bytes)) above = &figure;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  if (below == nullptr || above == nullptr || below == above) {
    Figure only = below != nullptr ? *below : *above;
    // Beyond the largest it is a matter of bandwidth; below the smallest one of latency.
    if (above == nullptr) only.us *= static_cast<double>(bytes) / static_cast<double>(only.bytes);
    return only;
  }
  Figure one = logOf(bytes) - logOf(below->bytes) < logOf(above->bytes) - logOf(bytes) ? *below : *above;
  one.us = usBetween(*below, *above, bytes);
  return one;
}

/// A job learns of the sizes that it uses, which say little of others.
constexpr double kAboutThisSize = 1.25;

/// The learned figure whose size is the nearest, within kAboutThisSize, of those that `counts`.
template <class Figure, class Counts>
std::optional<Figure> learnedFor(const std::vector<Figure>& learned, size_t bytes, const Counts& counts) {
  const auto apart = [&](const Figure& figure) { return std::abs(logOf(figure.bytes) - logOf(bytes)); };
  const Figure* nearest = nullptr;
  for (const Figure& figure : learned) {
    if (figure.bytes == 0 || !counts(figure) || apart(figure) > std::log(kAboutThisSize)) continue;
    if (nearest == nullptr || apart(figure) < apart(*nearest)) nearest = &figure;
  }
  return nearest == nullptr ? std::nullopt : std::optional(*nearest);
}

auto setOf(auto& tuning, const TunedRanks& ranks) {
  return std::ranges::find_if(tuning.sets, [&](const Tuning::Set& set) { return set.ranks == ranks; });
}

}  // namespace

std::optional<TunedRanks> tunedRanks(const PlanRequest& r) {
  std::vector<int> onHost(r.shape.nodeOf.empty() ? 1 : size_t(*std::ranges::max_element(r.shape.nodeOf)) + 1);
  if (r.shape.nodeOf.empty()) onHost[0] = r.shape.nRanks;
  for (const int node : r.shape.nodeOf) ++onHost[static_cast<size_t>(node)];
  if (std::ranges::any_of(onHost, [&](int ranks) { return ranks != onHost[0]; })) return std::nullopt;
  return TunedRanks{r.shape.nRanks, static_cast<int>(onHost.size()), linkKey(r.links.intra), linkKey(r.links.inter),
                    r.links.ranksPerCore};
}

void Tuning::put(Set set) {
  std::erase_if(sets, [&](const Set& other) { return other.ranks == set.ranks; });
  sets.push_back(std::move(set));
}

Tuning::Set& Tuning::latest(const TunedRanks& ranks) {
  const auto found = setOf(*this, ranks);
  if (found != sets.end()) {
    std::rotate(found, found + 1, sets.end());
  } else {
    if (sets.size() == kMostLearnedSets) sets.erase(sets.begin());
    sets.push_back({ranks, {}, {}});
  }
  return sets.back();
}

void Tuning::learn(const TunedRanks& ranks, const TunedWay& way) {
  std::vector<TunedWay>& learned = latest(ranks).learned;
  std::erase_if(learned,
                [&](const TunedWay& other) { return other.collective == way.collective && other.bytes == way.bytes; });
  if (learned.size() == kMostLearned) learned.erase(learned.begin());
  learned.push_back(way);
}

void Tuning::learn(const TunedRanks& ranks, const TunedSend& send) {
  std::vector<TunedSend>& learned = latest(ranks).learnedSends;
  std::erase_if(learned, [&](const TunedSend& other) { return other.bytes == send.bytes; });
  if (learned.size() == kMostLearned) learned.erase(learned.begin());
  learned.push_back(send);
}

std::string toText(const Tuning& tuning) {
  std::string out = cat("tutti-tuning ", Tuning::kVersion, "\n", machineLines(tuning.machine));
  for (const Tuning::Set& set : tuning.sets) {
    out += cat("ranks ", set.ranks.nRanks, " ", set.ranks.nHosts, " ", linkText(set.ranks.intra), " ",
               linkText(set.ranks.inter), " ", number(set.ranks.perCore), "\n");
    for (const TunedWay& way : set.ways) out += cat("best ", wayText(way), "\n");
    for (const TunedWay& way : set.learned) out += cat("learned ", wayText(way), "\n");
    for (const TunedSend& send : set.sends) out += sendText(send) + "\n";
    for (const TunedSend& send : set.learnedSends) out += cat("learned ", sendText(send), "\n");
  }
  return out + "end\n";
}

Result<Tuning> parseTuning(std::string_view text) {
  if (text.size() > kMostTuningBytes) return invalidArgument(ErrorCode::KeptFigures, "longer than any tuning");
  Tuning tuning;
  tuning.machine.cores = 0;
  TUTTI_TRY(
      parseKeptText(text, cat("tutti-tuning ", Tuning::kVersion), [&](std::string_view key, std::string_view rest) {
        if (isOfMachine(key)) return parseMachineLine(key, rest, &tuning.machine);
        if (key == "ranks") return parseRanks(rest, &tuning);
        if (key == "best") return parseWay(rest, &tuning, &Tuning::Set::ways);
        if (key == "learned") return parseLearned(rest, &tuning);
        return key == "send" && parseSend(rest, &tuning, &Tuning::Set::sends);
      }));
  TUTTI_TRY(saysWhose(tuning.machine));
  return tuning;
}

std::optional<TunedWay> tunedFor(const Tuning& tuning, const PlanRequest& r) {
  const size_t bytes = r.shape.bytes;
  const std::optional<TunedRanks> ranks = tunedRanks(r);
  if (!ranks || r.shape.uneven || bytes == 0) return std::nullopt;
  const auto set = setOf(tuning, *ranks);
  if (set == tuning.sets.end()) return std::nullopt;
  const auto counts = [&](const TunedWay& way) { return way.collective == r.shape.collective; };
  if (auto learned = learnedFor(set->learned, bytes, counts)) return learned;
  return nearest(set->ways, bytes, counts);
}

std::optional<TunedSend> tunedSend(const Tuning& tuning, const TunedRanks& ranks, size_t bytes) {
  const auto set = setOf(tuning, ranks);
  if (set == tuning.sets.end() || bytes == 0) return std::nullopt;
  const auto all = [](const TunedSend&) { return true; };
  if (auto learned = learnedFor(set->learnedSends, bytes, all)) return learned;
  return nearest(set->sends, bytes, all);
}

bool keepsSend(const Tuning& tuning, const TunedRanks& ranks, size_t bytes) {
  const auto set = setOf(tuning, ranks);
  return set != tuning.sets.end() &&
         std::ranges::find(set->learnedSends, bytes, &TunedSend::bytes) != set->learnedSends.end();
}

std::string tuningPath(const MachineIdentity& machine, TuningFile file) {
  const std::string path = calibrationPath(machine);
  return path.empty() ? "" : path + (file == TuningFile::Tuned ? ".tuned" : ".learned");
}

Tuning tuningIn(const MachineIdentity& machine, TuningFile file) {
  const Tuning none{machine, {}};
  const std::string path = tuningPath(machine, file);
  if (path.empty() || access(path.c_str(), F_OK) != 0) return none;
  const auto text = readKeptFile(path, "tuning", kMostTuningBytes);
  auto kept = text.ok() ? parseTuning(*text) : Result<Tuning>(text.status());
  if (kept.ok() && kept->machine == machine) return std::move(*kept);
  TUTTI_WARN("plan", "tuning ", path, ": ", kept.ok() ? "is of another machine" : kept.status().text(),
             "; choices go by what links cost");
  return none;
}

Tuning keptTuning(const MachineIdentity& machine) {
  Tuning kept = tuningIn(machine, TuningFile::Tuned);
  for (Tuning::Set& set : tuningIn(machine, TuningFile::Learned).sets) {
    const auto tuned = setOf(kept, set.ranks);
    if (tuned == kept.sets.end()) {
      kept.sets.push_back(std::move(set));
    } else {
      tuned->learned = std::move(set.learned);
      tuned->learnedSends = std::move(set.learnedSends);
    }
  }
  return kept;
}

Status keepLearned(const MachineIdentity& machine, const TunedRanks& ranks, const std::vector<TunedWay>& ways,
                   const std::vector<TunedSend>& sends) {
  const std::string path = tuningPath(machine, TuningFile::Learned);
  if (path.empty() || (ways.empty() && sends.empty())) return {};
  Tuning kept = tuningIn(machine, TuningFile::Learned);
  for (const TunedWay& way : ways) kept.learn(ranks, way);
  for (const TunedSend& send : sends) kept.learn(ranks, send);
  return writeKeptFile(path, toText(kept));
}

Status forgetLearned(const MachineIdentity& machine, const TunedRanks& ranks) {
  Tuning kept = tuningIn(machine, TuningFile::Learned);
  if (std::erase_if(kept.sets, [&](const Tuning::Set& set) { return set.ranks == ranks; }) == 0) return {};
  return writeKeptFile(tuningPath(machine, TuningFile::Learned), toText(kept));
}

}  // namespace tutti

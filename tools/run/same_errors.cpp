#include "tools/run/same_errors.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tutti::run {
namespace {

constexpr size_t kMostKept = 64;

/// "TUTTI-5201" if the line has such a code in brackets, else empty.
std::string codeIn(std::string_view line) {
  constexpr std::string_view kOpens = "[TUTTI-";
  constexpr size_t kDigits = 4;
  const size_t at = line.rfind(kOpens);
  if (at == std::string_view::npos || line.size() < at + kOpens.size() + kDigits + 1) return "";
  const std::string_view digits = line.substr(at + kOpens.size(), kDigits);
  const bool number = std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!number || line[at + kOpens.size() + kDigits] != ']') return "";
  return std::string(line.substr(at + 1, kOpens.size() - 1 + kDigits));
}

/// The line without the number that a rank gives itself.
std::string withoutOwnNumber(std::string line, int rank, int nRanks) {
  const std::string own = "(rank " + std::to_string(rank) + " of " + std::to_string(nRanks) + ")";
  if (const size_t at = line.find(own); at != std::string::npos) line.replace(at, own.size(), "(rank)");
  return line;
}

}  // namespace

std::string listedRanks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2) {
      parts.push_back(std::to_string(ranks[i]) + " to " + std::to_string(ranks[end - 1]));
    } else {
      for (size_t k = i; k < end; ++k) parts.push_back(std::to_string(ranks[k]));
    }
    i = end;
  }
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

bool SameErrors::repeats(int rank, std::string_view line, Clock::time_point now) {
  std::string code = codeIn(line);
  if (code.empty()) return false;
  std::string key = withoutOwnNumber(std::string(line), rank, nRanks_);
  const auto found = std::find_if(said_.begin(), said_.end(), [&](const Said& s) { return s.line == key; });
  const auto index = static_cast<size_t>(rank);
  if (found != said_.end() && !found->by[index]) {
    if (found->unnamed.empty()) found->since = now;
    found->by[index] = true;
    found->unnamed.push_back(rank);
    return true;
  }
  if (found != said_.end()) {  // again: a new error that looks the same
    if (!found->unnamed.empty()) return false;
    said_.erase(found);
  }
  const auto named = std::find_if(said_.begin(), said_.end(), [](const Said& s) { return s.unnamed.empty(); });
  if (said_.size() >= kMostKept && named == said_.end()) return false;
  if (said_.size() >= kMostKept) said_.erase(named);
  Said& said = said_.emplace_back();
  said.line = std::move(key);
  said.code = std::move(code);
  said.first = rank;
  said.by.resize(static_cast<size_t>(nRanks_));
  said.by[index] = true;
  return false;
}

std::optional<SameErrors::Clock::time_point> SameErrors::due() const {
  std::optional<Clock::time_point> first;
  for (const Said& said : said_) {
    if (said.unnamed.empty()) continue;
    if (!first || said.since + kSettleMs < *first) first = said.since + kSettleMs;
  }
  return first;
}

std::string SameErrors::summary(Said* said) const {
  std::vector<int> ranks = std::exchange(said->unnamed, {});
  std::sort(ranks.begin(), ranks.end());
  const bool one = ranks.size() == 1;
  return "tutti-run: rank" + std::string(one ? " " : "s ") + listedRanks(ranks) + (one ? " says" : " say") +
         " the same as rank " + std::to_string(said->first) + " [" + said->code + "]\n";
}

std::string SameErrors::summaries(Clock::time_point now, bool all) {
  std::string lines;
  for (Said& said : said_) {
    const bool everybody = static_cast<int>(said.unnamed.size()) == nRanks_ - 1;
    if (said.unnamed.empty()) continue;
    if (all || everybody || now >= said.since + kSettleMs) lines += summary(&said);
  }
  return lines;
}

}  // namespace tutti::run

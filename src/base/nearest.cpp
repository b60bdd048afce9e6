#include "src/base/nearest.hpp"

#include <algorithm>

#include "src/base/text.hpp"
#include "src/base/types.hpp"

namespace tutti {
namespace {

constexpr size_t kLongest = 64;   // names are shorter, and a long text is none of them
constexpr size_t kShortened = 3;  // letters that say what an abbreviation stands for

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

/// Letters to change, insert, leave out or swap with their neighbour.
/// Source: optimal string alignment; Boytsov, "Indexing methods for approximate dictionary searching", JEA 16, 2011.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

/// One begins with the other: "transport" and "transports", "algorithm" and "algo".
bool shortened(const std::string& a, const std::string& b) {
  const size_t common = std::min(a.size(), b.size());
  return common >= kShortened && a.compare(0, common, b, 0, common) == 0;
}

}  // namespace

std::string didYouMean(std::string_view text, const std::vector<std::string>& names, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  if (text.size() < 2 || text.size() > kLongest) return "";
  const std::string asked = lower(text);
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(1, asked.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::string known = lower(std::string_view(name).substr(prefix.size()));
    size_t wrong = distance(asked, known);
    if (shortened(asked, known)) wrong = std::min<size_t>(wrong, 1);
    if (wrong >= least || wrong >= known.size()) continue;
    least = wrong;
    nearest = &name;
  }
  return nearest == nullptr ? "" : " (did you mean " + *nearest + "?)";
}

std::string notACollective(std::string_view text) {
  std::vector<std::string> names;
  std::string all;
  for (int i = 0; i < kNumCollectives; ++i) {
    names.emplace_back(collectiveKey(static_cast<Collective>(i)));
    all += cat(i == 0 ? "" : ", ", names.back());
  }
  return cat("'", text, "' is not a collective", didYouMean(text, names), "; the collectives are ", all);
}

}  // namespace tutti

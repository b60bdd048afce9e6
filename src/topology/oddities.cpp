#include "src/topology/oddities.hpp"

#include "src/base/text.hpp"

namespace tutti::topology {
namespace {

constexpr size_t kNamedLines = 3;

}  // namespace

void Oddities::add(int line, const std::string& subject, const std::string& sentence, const std::string& kind) {
  auto found = known_.find(kind);
  if (found == known_.end()) {
    if (kinds_.size() == kMostKinds) {
      ++uncounted_;
      return;
    }
    found = known_.emplace(kind, kinds_.size()).first;
    kinds_.push_back({cat("line ", line, ": ", subject, " ", sentence), {}, 0, 0});
  }
  Kind& of = kinds_[found->second];
  ++of.count;
  if (of.count > 1 && line != of.last && of.lines.size() <= kNamedLines) of.lines.push_back(line);
  of.last = line;
}

std::vector<std::string> Oddities::sentences() const {
  std::vector<std::string> all;
  for (const Kind& of : kinds_) {
    std::string text = of.first;
    if (of.count > 1) {
      text += cat(" (and ", of.count - 1, " more");
      for (size_t i = 0; i < of.lines.size() && i < kNamedLines; ++i) {
        text += cat(i > 0 ? ", " : of.lines.size() > 1 ? ": lines " : ": line ", of.lines[i]);
      }
      text += of.lines.size() > kNamedLines ? ", ...)" : ")";
    }
    all.push_back(std::move(text));
  }
  if (uncounted_ > 0) all.push_back(cat("and ", uncounted_, " oddities of further kinds"));
  return all;
}

}  // namespace tutti::topology

#include "src/topology/cpu_set.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>

namespace tutti::topology {

int CpuSet::count() const {
  int n = 0;
  for (const uint64_t word : words_) n += std::popcount(word);
  return n;
}

bool CpuSet::has(int pu) const {
  const auto word = static_cast<size_t>(pu) / 64;
  return pu >= 0 && word < words_.size() && (words_[word] >> (pu % 64) & 1) != 0;
}

void CpuSet::add(int pu) {
  const auto word = static_cast<size_t>(pu) / 64;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= uint64_t{1} << (pu % 64);
}

void CpuSet::add(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
}

bool CpuSet::contains(const CpuSet& other) const {
  if (other.words_.size() > words_.size()) return false;
  for (size_t i = 0; i < other.words_.size(); ++i) {
    if ((other.words_[i] & ~words_[i]) != 0) return false;
  }
  return true;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::string CpuSet::mask() const {
  std::string text;
  const size_t halves = std::max<size_t>(1, words_.size() * 2);
  for (size_t i = halves; i-- > 0;) {
    const uint64_t word = i / 2 < words_.size() ? words_[i / 2] : 0;
    char part[16];
    std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(word >> (i % 2 * 32) & 0xffffffffU));
    text += text.empty() ? cat(part) : cat(",", part);
  }
  return text;
}

std::string CpuSet::list() const {
  std::string text;
  const int most = static_cast<int>(words_.size()) * 64;
  for (int first = 0; first < most; ++first) {
    if (!has(first)) continue;
    int last = first;
    while (has(last + 1)) ++last;
    text += cat(text.empty() ? "" : ",", first);
    if (last > first) text += cat("-", last);
    first = last;
  }
  return text;
}

Result<CpuSet> CpuSet::parseMask(std::string_view text) {
  CpuSet set;
  if (text.empty()) return set;
  int bit = 0;
  const std::vector<std::string> parts = split(text, ',');
  for (size_t i = parts.size(); i-- > 0; bit += 32) {
    uint32_t value = 0;
    if (!parseNumber(parts[i], &value, 16)) {
      return invalidArgument(ErrorCode::TopologyFile, "'", text, "' is not a mask such as 00000000,0000ffff");
    }
    if (bit + 32 > kMost)
      return invalidArgument(ErrorCode::TopologyTooLarge, "a mask of more than ", kMost, " processing units");
    for (int j = 0; j < 32; ++j) {
      if ((value >> j & 1) != 0) set.add(bit + j);
    }
  }
  set.trim();
  return set;
}

Result<CpuSet> CpuSet::parseList(std::string_view text) {
  CpuSet set;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return set;
  for (const std::string& part : split(text, ',')) {
    int first = 0, last = 0;
    const char* end = part.data() + part.size();
    auto [next, error] = std::from_chars(part.data(), end, first);
    last = first;
    if (error == std::errc() && next != end && *next == '-') {
      const auto second = std::from_chars(next + 1, end, last);
      next = second.ptr;
      error = second.ec;
    }
    if (error != std::errc() || next != end || first < 0 || last < first || last >= kMost) {
      return invalidArgument(ErrorCode::TopologyFile, "'", text, "' is not a list such as 0-3,8");
    }
    for (int pu = first; pu <= last; ++pu) set.add(pu);
  }
  return set;
}

}  // namespace tutti::topology

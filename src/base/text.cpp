#include "src/base/text.hpp"

#include <charconv>
#include <limits>

namespace tutti {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string formatBytes(size_t bytes) {
  static constexpr const char* kSuffix[] = {"", "K", "M", "G", "T"};
  int power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < 4) {
    bytes /= 1024;
    ++power;
  }
  return std::to_string(bytes) + kSuffix[power];
}

bool parseBytes(std::string_view text, size_t* bytes) {
  size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || next == text.data()) return false;
  int shift = 0;
  if (next != end) {
    switch (*next | 0x20) {
      case 'k': shift = 10; break;
      case 'm': shift = 20; break;
      case 'g': shift = 30; break;
      case 't': shift = 40; break;
      default: return false;
    }
    const std::string_view rest(next + 1, static_cast<size_t>(end - next - 1));
    if (!rest.empty() && rest != "B" && rest != "b" && rest != "iB") return false;
  }
  if (value > (std::numeric_limits<size_t>::max() >> shift)) return false;
  *bytes = value << shift;
  return true;
}

std::string formatSpan(int64_t ns) {
  const int64_t ms = ns / 1'000'000;
  if (ms < 1000) return cat(ms, " ms");
  return ms < 10'000 ? cat(ms / 1000, ".", ms / 100 % 10, " s") : cat(ms / 1000, " s");
}

std::string toXml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\t': out += "&#9;"; break;
      case '\n': out += "&#10;"; break;
      case '\r': out += "&#13;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML has no way to write the others
    }
  }
  return out;
}

static constexpr char kHexDigits[] = "0123456789abcdef";

std::string toHex(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::string hex;
  hex.reserve(2 * bytes);
  for (size_t i = 0; i < bytes; ++i) {
    hex += kHexDigits[p[i] >> 4];
    hex += kHexDigits[p[i] & 15];
  }
  return hex;
}

std::string toHex(uint64_t number) {
  std::string hex(16, '0');
  for (size_t i = hex.size(); i-- > 0; number >>= 4) hex[i] = kHexDigits[number & 15];
  return hex;
}

uint64_t hashText(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

bool fromHex(std::string_view hex, std::vector<unsigned char>* out) {
  if (hex.size() % 2 != 0) return false;
  out->clear();
  out->reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    if (!parseNumber(hex.substr(i, 2), &value, 16)) return false;
    out->push_back(static_cast<unsigned char>(value));
  }
  return true;
}

}  // namespace tutti

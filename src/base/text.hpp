// Text made from values, for messages.
#pragma once

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tutti {

/// The arguments as text, one behind the other: cat("rank ", 3).
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

/// "a,b,,c" -> {"a", "b", "", "c"}; an empty text gives no parts.
std::vector<std::string> split(std::string_view text, char separator);

/// 65536 -> "64K", 1000 -> "1000".  Binary suffixes, only where exact.
std::string formatBytes(size_t bytes);

/// "64K", "1M", "2g", "123" -> bytes.  Returns false on anything else or on overflow.
bool parseBytes(std::string_view text, size_t* bytes);

/// How long something took, for people: "300 ms", "2.5 s", "40 s".
std::string formatSpan(int64_t ns);

/// What stands for this text in XML, between tags or in an attribute: &<>" and control characters as entities.
std::string toXml(std::string_view text);

/// The whole text as a number, without blanks or a leading plus; false: it is none, or there is no room for it.
template <class T>
bool parseNumber(std::string_view text, T* value, [[maybe_unused]] int base = 10) {
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<T>) {
    read = std::from_chars(text.data(), end, *value);
  } else {
    read = std::from_chars(text.data(), end, *value, base);
  }
  return read.ec == std::errc() && read.ptr == end;
}

/// FNV-1a, 64 bits: names things, protects nothing.  Goes on from `hash`.
uint64_t hashText(std::string_view text, uint64_t hash = 0xcbf29ce484222325);

/// Lower-case hexadecimal, two digits a byte.
std::string toHex(const void* data, size_t bytes);
/// A number as 16 digits, the highest first.
std::string toHex(uint64_t number);
/// The reverse of toHex; false on odd length or another character.
bool fromHex(std::string_view hex, std::vector<unsigned char>* out);

}  // namespace tutti

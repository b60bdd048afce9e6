// Text made from values, for messages.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
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

/// What stands for this text in XML, between tags or in an attribute: &<>" and control characters as entities.
std::string toXml(std::string_view text);

/// Lower-case hexadecimal, two digits a byte.
std::string toHex(const void* data, size_t bytes);
/// The reverse of toHex; false on odd length or another character.
bool fromHex(std::string_view hex, std::vector<unsigned char>* out);

}  // namespace tutti

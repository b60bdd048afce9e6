// JSON as text, for tools that print little of it.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

namespace tutti {

/// A string in quotes, with what JSON does not allow in one escaped.
inline std::string jsonText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

/// null for what JSON has no number for.
inline std::string jsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

inline const char* jsonFlag(bool value) { return value ? "true" : "false"; }

/// "[a, b]" of texts that are JSON already.
template <class Texts>
std::string jsonList(const Texts& texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() == 1 ? "" : ", ") + text;
  return list + "]";
}

}  // namespace tutti

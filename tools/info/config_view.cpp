#include "tools/info/config_view.hpp"

#include <algorithm>

#include "src/base/config.hpp"

namespace tutti {
namespace {

std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

/// A text for a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

const char* kindName(VariableKind kind) {
  switch (kind) {
    case VariableKind::Integer: return "whole number";
    case VariableKind::Bytes: return "size (64K, 1M)";
    case VariableKind::Flag: return "0 or 1";
    case VariableKind::Text: break;
  }
  return "text";
}

/// As it may be shown.
std::string shown(const Variable& v) {
  const std::string text = configText(v.name);
  return isSecret(v.name) && !text.empty() ? "(set, not shown)" : text;
}

constexpr const char* kHead =
    "# Environment\n"
    "Written by `tutti-info --config --markdown` from the table in `src/base/config.cpp`.\n"
    "\n"
    "`tutti-info --config` prints the values in force. A value that cannot be honoured is an error that says why; an\n"
    "unknown `TUTTI_` name is warned about. Fields of `tuttiConfig_t` that a program sets come before the "
    "environment.\n"
    "\n"
    "| variable | kind | default | unit | meaning |\n"
    "|---|---|---|---|---|\n";

}  // namespace

std::string configView() {
  size_t name = 8, value = 5;
  for (const Variable& v : variables()) {
    name = std::max(name, std::string(v.name).size());
    value = std::max(value, shown(v).size());
  }
  value = std::min<size_t>(value, 24);
  const auto line = [&](const char* mark, const char* n, const std::string& text, const char* unit,
                        const std::string& meaning) {
    return cat(mark, " ", padded(n, name), "  ", padded(text, value), "  ", padded(unit, 5), "  ", meaning, "\n");
  };
  std::string all = line(" ", "variable", "value", "unit", "meaning");
  for (const Variable& v : variables()) {
    const std::string text = shown(v);
    const bool set = text != v.defaultValue;
    const std::string usual = *v.defaultValue == '\0' ? "unset" : v.defaultValue;
    all += line(set ? "*" : " ", v.name, text.empty() ? "-" : text, v.unit,
                set ? cat(v.meaning, " (default: ", usual, ")") : v.meaning);
  }
  return all;
}

std::string configMarkdown() {
  std::string all = kHead;
  for (const Variable& v : variables()) {
    const std::string usual = *v.defaultValue == '\0' ? "unset" : cat("`", v.defaultValue, "`");
    all += cat("| `", v.name, "` | ", kindName(v.kind), " | ", usual, " | ", v.unit, " | ", cell(v.meaning), " |\n");
  }
  return all;
}

}  // namespace tutti

#include "perf/common/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace tutti::perf {
namespace {

constexpr std::string_view kPrefixes[] = {"TUTTI_TESTS_", "NCCL_TESTS_"};

bool isNumber(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(number);
}

bool isShare(const std::string& text) {
  return isNumber(text) && std::strtod(text.c_str(), nullptr) >= 0 && std::strtod(text.c_str(), nullptr) <= 1;
}

bool isWhole(const std::string& text, int base) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, base);
  return !text.empty() && *end == '\0' && number >= 0;
}

bool isRule(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos || !isWhole(text.substr(space + 1), 0)) return false;
  const std::string name = text.substr(0, space);
  if (name == "AND" || name == "OR") return true;
  return (name == "MOD" || name == "DIV") && std::strtol(text.c_str() + space, nullptr, 0) > 0;
}

struct TestsVariable {
  const char* name;
  bool (*right)(const std::string& value);
  const char* wants;
};
constexpr TestsVariable kVariables[] = {
    {"MIN_BW", isNumber, "a number of GB/s"},
    {"SPLIT", isRule, "AND, OR, MOD or DIV and a number, as 'MOD 2'"},
    {"SPLIT_MASK", [](const std::string& text) { return isWhole(text, 16); }, "a hexadecimal number"},
    {"ALLTOALLV_SPREAD", isShare, "a number from 0 to 1"},
    {"ALLTOALLV_MATRIX_FILE", [](const std::string& path) { return std::ifstream(path).good(); },
     "a file that can be read"},
    {"ALLTOALLV_MATRIX_SCALE", isNumber, "a number"},
};

std::string allNames() {
  std::string names;
  for (const TestsVariable& v : kVariables) names += (names.empty() ? "" : ", ") + std::string(v.name);
  return names;
}

/// nccl-tests has more of its own than Tutti knows of.
std::string checkOne(const std::string& name, const std::string& value) {
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const auto* const known = std::find_if(std::begin(kVariables), std::end(kVariables), [&](const TestsVariable& v) {
      return name.substr(prefix.size()) == v.name;
    });
    if (known == std::end(kVariables)) {
      if (prefix == kPrefixes[1]) return "";
      return name + " is no variable of these programs; behind TUTTI_TESTS_ there are " + allNames();
    }
    if (!value.empty() && !known->right(value)) return name + "='" + value + "' is not " + known->wants;
  }
  return "";
}

}  // namespace

std::string testsVariable(const std::string& name) {
  for (const std::string_view prefix : kPrefixes) {
    const char* value = std::getenv((std::string(prefix) + name).c_str());
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

double testsNumber(const std::string& name, double otherwise) {
  const std::string text = testsVariable(name);
  return text.empty() ? otherwise : std::strtod(text.c_str(), nullptr);
}

std::string checkTestsVariables() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    if (std::string complaint = checkOne(text.substr(0, equals), text.substr(equals + 1)); !complaint.empty()) {
      return complaint;
    }
  }
  return "";
}

}  // namespace tutti::perf

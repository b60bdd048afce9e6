// Environment variables of the perf programs: TUTTI_TESTS_name, or nccl-tests' NCCL_TESTS_name if that is not set.
#pragma once

#include <cstdlib>
#include <string>

namespace tutti::perf {

/// "" if neither is set.
inline std::string testsVariable(const std::string& name) {
  for (const char* prefix : {"TUTTI_TESTS_", "NCCL_TESTS_"}) {
    const char* value = std::getenv((prefix + name).c_str());
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

/// `otherwise` if not set or not a number.
inline double testsNumber(const std::string& name, double otherwise) {
  const std::string text = testsVariable(name);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? otherwise : number;
}

}  // namespace tutti::perf

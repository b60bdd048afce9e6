// Fuzzes values of configuration variables: the first byte picks one, the rest is its value.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/comm/settings.hpp"
#include "src/comm/variables.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto all = tutti::variables();
  const tutti::Variable& variable = all[data[0] % all.size()];
  const std::string value(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string why;
  if (!tutti::checkLogSpec(value, &why) && why.empty()) std::abort();
  const tutti::Status checked = tutti::checkValue(variable.name, value);
  if (!checked.ok() && checked.message().empty()) std::abort();
  if (value.find('\0') != std::string::npos) return 0;  // no value of an environment
  // What is accepted is what everybody then gets.
  if (tutti::setVariable(variable.name, value.c_str()).ok()) {
    if (std::getenv(variable.name) == nullptr && !value.empty() && tutti::configText(variable.name) != value)
      std::abort();
    (void)tutti::resolveSettings(nullptr, nullptr);
    if (!tutti::setVariable(variable.name, nullptr).ok()) std::abort();
  }
  return 0;
}

#include "transport/verbs/options.hpp"

#include <algorithm>

#include "src/base/config.hpp"
#include "src/base/log.hpp"

namespace tutti::verbs {

Result<Options> Options::fromConfig() {
  Options options;
  options.adapters = configText("TUTTI_IB_HCA");
  const auto read = [](const char* name, auto* value) -> Status {
    TUTTI_ASSIGN(const int64_t number, configInteger(name));
    *value = static_cast<std::remove_pointer_t<decltype(value)>>(number);
    return {};
  };
  TUTTI_TRY(read("TUTTI_IB_GID_INDEX", &options.gidIndex));
  TUTTI_TRY(read("TUTTI_IB_TC", &options.trafficClass));
  TUTTI_TRY(read("TUTTI_IB_SL", &options.serviceLevel));
  TUTTI_TRY(read("TUTTI_IB_TIMEOUT", &options.timeout));
  TUTTI_TRY(read("TUTTI_IB_RETRY_CNT", &options.retries));
  TUTTI_TRY(read("TUTTI_IB_MTU", &options.mtu));
  TUTTI_TRY(read("TUTTI_SLOTS", &options.slots));
  TUTTI_TRY(read("TUTTI_SLOT_BYTES", &options.slotBytes));
  TUTTI_DEBUG("verbs", "ports '", options.adapters, "', GID index ", options.gidIndex, ", traffic class ",
              options.trafficClass, ", service level ", options.serviceLevel, ", timeout ", options.timeout, ", ",
              options.retries, " retries, MTU ", options.mtu);
  return options;
}

bool allowsPort(std::string_view list, std::string_view device, int port) {
  const auto take = [&list](char sign) {
    const bool there = list.starts_with(sign);
    if (there) list.remove_prefix(1);
    return there;
  };
  const bool exclude = take('^');
  const bool exact = take('=');
  if (list.empty()) return true;
  const auto names = split(list, ',');
  const bool named = std::ranges::any_of(names, [&](std::string_view name) {
    const auto parts = split(name, ':');
    if (parts.size() > 1 && parts[1] != std::to_string(port)) return false;
    name = name.substr(0, name.find(':'));
    return !name.empty() && (exact ? device == name : device.starts_with(name));
  });
  return named != exclude;
}

}  // namespace tutti::verbs

#include "transport/verbs/options.hpp"

#include <algorithm>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "transport/verbs/gid.hpp"

namespace tutti::verbs {
namespace {

/// TUTTI_IB_HCA, taken apart.
struct PortList {
  bool exclude = false, exact = false;
  std::vector<std::string> names;

  explicit PortList(std::string_view list) {
    const auto take = [&list](char sign) {
      const bool there = list.starts_with(sign);
      if (there) list.remove_prefix(1);
      return there;
    };
    exclude = take('^');
    exact = take('=');
    if (!list.empty()) names = split(list, ',');
  }
  /// The entry that names the port; names.size(): none does.
  size_t find(std::string_view device, int port) const {
    const auto at = std::ranges::find_if(names, [&](std::string_view name) {
      const auto parts = split(name, ':');
      if (parts.size() > 1 && parts[1] != std::to_string(port)) return false;
      name = name.substr(0, name.find(':'));
      return !name.empty() && (exact ? device == name : device.starts_with(name));
    });
    return static_cast<size_t>(at - names.begin());
  }
};

}  // namespace

Result<Options> Options::fromConfig() {
  Options options;
  options.adapters = configText("TUTTI_IB_HCA");
  options.addressFamily = configText("TUTTI_IB_ADDR_FAMILY");
  options.addressRange = configText("TUTTI_IB_ADDR_RANGE");
  TUTTI_TRY(asStatus(GidFilter::parse(options.addressFamily, options.addressRange, 0)));
  const auto read = [](const char* name, auto* value) -> Status {
    TUTTI_ASSIGN(const int64_t number, configInteger(name));
    *value = static_cast<std::remove_pointer_t<decltype(value)>>(number);
    return {};
  };
  TUTTI_TRY(read("TUTTI_IB_RAILS", &options.rails));
  TUTTI_TRY(read("TUTTI_IB_QPS_PER_CONNECTION", &options.queuePairs));
  TUTTI_TRY(read("TUTTI_IB_SPLIT_DATA_ON_QPS", &options.splits));
  TUTTI_TRY(read("TUTTI_IB_GID_INDEX", &options.gidIndex));
  TUTTI_TRY(read("TUTTI_IB_ROCE_VERSION_NUM", &options.roceVersion));
  TUTTI_TRY(read("TUTTI_IB_PKEY", &options.partition));
  TUTTI_TRY(read("TUTTI_IB_TC", &options.trafficClass));
  TUTTI_TRY(read("TUTTI_IB_SL", &options.serviceLevel));
  TUTTI_TRY(read("TUTTI_IB_TIMEOUT", &options.timeout));
  TUTTI_TRY(read("TUTTI_IB_RETRY_CNT", &options.retries));
  TUTTI_TRY(read("TUTTI_IB_MTU", &options.mtu));
  TUTTI_TRY(read("TUTTI_IB_PCI_RELAXED_ORDERING", &options.relaxedOrdering));
  TUTTI_TRY(read("TUTTI_IB_ADAPTIVE_ROUTING", &options.adaptiveRouting));
  TUTTI_TRY(read("TUTTI_IB_AR_THRESHOLD", &options.adaptiveAbove));
  TUTTI_ASSIGN(const size_t level, configChoice("TUTTI_NET_GDR_LEVEL"));
  options.farthest = static_cast<PciDistance>(level);
  TUTTI_TRY(read("TUTTI_SLOTS", &options.slots));
  TUTTI_TRY(read("TUTTI_SLOT_BYTES", &options.slotBytes));
  TUTTI_DEBUG("verbs", "ports '", options.adapters, "', GID index ", options.gidIndex, ", traffic class ",
              options.trafficClass, ", service level ", options.serviceLevel, ", timeout ", options.timeout, ", ",
              options.retries, " retries, MTU ", options.mtu);
  TUTTI_DEBUG("verbs", "rails ", options.rails, ", queue pairs ", options.queuePairs, ", split ", int{options.splits},
              ", address family '", options.addressFamily, "', address range '", options.addressRange,
              "', RoCE version ", options.roceVersion, ", partition ", options.partition, ", relaxed ordering ",
              options.relaxedOrdering, ", adaptive routing ", options.adaptiveRouting, " above ", options.adaptiveAbove,
              " bytes, memory of devices up to ", nameOf(options.farthest));
  return options;
}

bool allowsPort(std::string_view list, std::string_view device, int port) {
  const PortList ports(list);
  if (ports.names.empty()) return true;
  return (ports.find(device, port) < ports.names.size()) != ports.exclude;
}

size_t placeInList(std::string_view list, std::string_view device, int port) {
  const PortList ports(list);
  return ports.exclude ? 0 : ports.find(device, port);
}

}  // namespace tutti::verbs

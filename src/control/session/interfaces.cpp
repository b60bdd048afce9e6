#include "src/control/session/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "src/base/config.hpp"
#include "src/base/interface_speed.hpp"

namespace tutti {
namespace {

/// TUTTI_SOCKET_IFNAME, taken apart.
struct NameFilter {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  explicit NameFilter(std::string_view spec) {
    if (spec.starts_with('^')) {
      exclude = true;
      spec.remove_prefix(1);
    }
    if (spec.starts_with('=')) {
      exact = true;
      spec.remove_prefix(1);
    }
    for (const std::string& name : split(spec, ',')) {
      if (!name.empty()) names.push_back(name);
    }
  }
  bool allows(const std::string& interface) const {
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return exact ? interface == name : interface.starts_with(name);
    });
    return named != exclude;
  }
  /// The position in an including list, so that the user's order is kept.
  size_t position(const std::string& interface) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (exact ? interface == names[i] : interface.starts_with(names[i])) return i;
    }
    return names.size();
  }
};

bool isVirtual(const std::string& interface) {
  // Bridges and pairs that container and virtual machine managers make: the same address exists on every host.
  static constexpr const char* kPrefixes[] = {"docker", "virbr", "veth", "br-", "cni", "lxc", "lxdbr", "podman"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return interface.starts_with(prefix); });
}

bool isLinkLocal(const SocketAddress& address) {
  if (address.family() == AF_INET6) {
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  }
  const uint32_t v4 = ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr);
  return (v4 >> 16) == 0xa9fe;
}

enum Preference { Real, RealLinkLocal, NoCarrierOrVirtual, Loopback };

Preference preference(const InterfaceAddress& a) {
  if (a.loopback) return Loopback;
  if (!a.running || isVirtual(a.interface)) return NoCarrierOrVirtual;
  return isLinkLocal(a.address) ? RealLinkLocal : Real;
}

std::string describe(const std::vector<InterfaceAddress>& all) {
  std::string text;
  for (const InterfaceAddress& a : all) {
    const std::string address = a.address.text();
    text += cat(text.empty() ? "" : ", ", a.interface, " (", address.substr(0, address.rfind(':')), ")");
  }
  return text.empty() ? "none at all" : text;
}

bool familyAllowed(const SocketAddress& address, const std::string& family) {
  return family.empty() || (family == "inet") == (address.family() == AF_INET);
}

}  // namespace

Result<std::vector<InterfaceAddress>> listInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return errnoError(errno, ErrorCode::SocketRefused, "cannot list the network interfaces");
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    InterfaceAddress a;
    a.interface = i->ifa_name;
    a.address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&a.address.storage, i->ifa_addr, a.address.bytes);
    a.loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
    a.running = (i->ifa_flags & IFF_RUNNING) != 0;
    all.push_back(a);
  }
  freeifaddrs(list);
  return all;
}

Result<std::vector<SocketAddress>> chooseAddresses(const std::vector<InterfaceAddress>& all, const std::string& names,
                                                   const std::string& family) {
  if (!family.empty() && family != "inet" && family != "inet6") {
    return invalidUsage(ErrorCode::VariableValue, "TUTTI_SOCKET_FAMILY='", family,
                        "' is neither inet nor inet6; set one of them, or leave it unset");
  }
  const NameFilter filter(names);
  if (!names.empty() && filter.names.empty()) {
    return invalidUsage(ErrorCode::VariableValue, "TUTTI_SOCKET_IFNAME='", names, "' names no interface");
  }
  std::vector<InterfaceAddress> chosen;
  for (const InterfaceAddress& a : all) {
    const bool named = filter.names.empty() || filter.allows(a.interface);
    if (named && familyAllowed(a.address, family)) chosen.push_back(a);
  }
  if (chosen.empty()) {
    return invalidUsage(ErrorCode::NoInterfaceMatches, "no network interface matches TUTTI_SOCKET_IFNAME='", names,
                        "' and TUTTI_SOCKET_FAMILY='", family,
                        "'; name one that is up, or leave both unset; up are: ", describe(all));
  }
  const bool userOrder = !filter.names.empty() && !filter.exclude;
  const auto rank = [&](const InterfaceAddress& a) {
    return std::tuple(userOrder ? filter.position(a.interface) : 0, preference(a), a.address.family() == AF_INET6);
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const InterfaceAddress& a, const InterfaceAddress& b) { return rank(a) < rank(b); });
  const Preference best = preference(chosen.front());
  std::vector<SocketAddress> addresses;
  for (const InterfaceAddress& a : chosen) {
    const bool lesser = !userOrder && best <= RealLinkLocal && preference(a) > best;
    if (!lesser && addresses.size() < (userOrder ? kMaxNamedAddresses : kMaxListenAddresses))
      addresses.push_back(a.address);
  }
  return addresses;
}

int spreadPaths(const std::vector<SocketAddress>& addresses, const std::string& names) {
  const NameFilter filter(names);
  if (filter.names.empty() || filter.exclude) return 1;
  return static_cast<int>(std::count_if(addresses.begin(), addresses.end(), [&](const SocketAddress& address) {
    const auto ofLink = [](const SocketAddress& a) { return a.family() == AF_INET6 && isLinkLocal(a); };
    return address.family() == addresses.front().family() && ofLink(address) == ofLink(addresses.front());
  }));
}

Result<std::vector<SocketAddress>> listenAddresses(Reach reach) {
  TUTTI_ASSIGN(std::vector<InterfaceAddress> all, listInterfaces());
  const std::string names = configText("TUTTI_SOCKET_IFNAME");
  const auto leaves = [](const InterfaceAddress& a) { return !isLoopback(a.address); };
  const bool hasLoopback = !std::all_of(all.begin(), all.end(), leaves);
  if (reach == Reach::Host && names.empty() && hasLoopback) std::erase_if(all, leaves);
  return chooseAddresses(all, names, configText("TUTTI_SOCKET_FAMILY"));
}

bool staysOnHost(const ControlAddress& controlAddress) {
  const Result<std::vector<SocketAddress>> addresses = parseControlAddress(controlAddress);
  return addresses.ok() && std::all_of(addresses->begin(), addresses->end(), isLoopback);
}

uint32_t totalMbps(const std::vector<InterfaceAddress>& all, const std::vector<SocketAddress>& addresses,
                   const std::function<uint32_t(const std::string& interface)>& speedOf) {
  std::set<std::string> interfaces;
  for (const InterfaceAddress& a : all) {
    const auto chosen = [&](const SocketAddress& address) { return address.text() == a.address.text(); };
    if (std::any_of(addresses.begin(), addresses.end(), chosen)) interfaces.insert(a.interface);
  }
  uint32_t total = 0;
  for (const std::string& interface : interfaces) {
    const uint32_t mbps = speedOf(interface);
    if (mbps == 0) return 0;
    total += mbps;
  }
  return total;
}

uint32_t listenMbps(size_t nPaths) {
  const auto all = listInterfaces();
  auto addresses = listenAddresses();
  if (!all.ok() || !addresses.ok() || addresses->empty()) return 0;
  if (nPaths > 1) return totalMbps(*all, *addresses, [](const std::string& name) { return statedMbps(name); });
  addresses->resize(1);
  return totalMbps(*all, *addresses, [](const std::string& name) { return knownMbps(name); });
}

}  // namespace tutti

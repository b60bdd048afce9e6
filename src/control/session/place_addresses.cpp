#include "src/control/session/place_addresses.hpp"

#include <netinet/in.h>

#include <algorithm>

namespace tutti {
namespace {

/// "Any address" of the families that this host has.
Result<std::vector<SocketAddress>> everyAddress(int port) {
  TUTTI_ASSIGN(const std::vector<InterfaceAddress> interfaces, listInterfaces());
  std::vector<SocketAddress> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    if (std::none_of(interfaces.begin(), interfaces.end(),
                     [&](const InterfaceAddress& a) { return a.address.family() == family; })) {
      continue;
    }
    SocketAddress any;
    any.storage.ss_family = static_cast<sa_family_t>(family);
    any.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    any.setPort(port);
    addresses.push_back(any);
  }
  if (addresses.empty()) return systemError(ErrorCode::NoInterface, "this host has no network interface that is up");
  return addresses;
}

bool amongHosts(const std::vector<std::string>& hosts, const char* any) {
  return std::find(hosts.begin(), hosts.end(), any) != hosts.end();
}

/// The addresses of this host, beyond loopback, that these names lead to.
std::vector<SocketAddress> ownAmong(const std::vector<std::string>& hosts, int port,
                                    const std::vector<InterfaceAddress>& interfaces) {
  std::vector<SocketAddress> own;
  for (const std::string& host : hosts) {
    const Result<std::vector<SocketAddress>> found = resolveHost(host, port);
    if (!found.ok()) continue;
    for (const SocketAddress& address : *found) {
      const bool here = std::any_of(interfaces.begin(), interfaces.end(), [&](const InterfaceAddress& a) {
        SocketAddress mine = a.address;
        mine.setPort(port);
        return !a.loopback && mine == address;
      });
      if (here && std::find(own.begin(), own.end(), address) == own.end()) own.push_back(address);
    }
  }
  return own;
}

}  // namespace

Result<std::vector<SocketAddress>> loopbackAddresses(int port) {
  TUTTI_ASSIGN(const std::vector<InterfaceAddress> interfaces, listInterfaces());
  std::vector<SocketAddress> addresses;
  for (const InterfaceAddress& a : interfaces) {
    if (!isLoopback(a.address)) continue;
    addresses.push_back(a.address);
    addresses.back().setPort(port);
  }
  if (addresses.empty())
    return systemError(ErrorCode::NoInterface,
                       "this host has no loopback address that is up; as root: ip link set lo up");
  return addresses;
}

Result<std::vector<SocketAddress>> placeAddresses(const std::vector<std::string>& hosts, int port, Reach reach) {
  if (amongHosts(hosts, "0.0.0.0") || amongHosts(hosts, "::")) return everyAddress(port);
  Result<std::vector<SocketAddress>> loopback = loopbackAddresses(port);
  if (reach == Reach::Host) return loopback;
  std::vector<SocketAddress> addresses = loopback.ok() ? *loopback : std::vector<SocketAddress>();
  TUTTI_ASSIGN(const std::vector<InterfaceAddress> interfaces, listInterfaces());
  std::vector<SocketAddress> own = ownAmong(hosts, port, interfaces);
  if (own.empty()) {
    TUTTI_ASSIGN(own, listenAddresses());
  }
  for (SocketAddress& address : own) {
    address.setPort(port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace tutti

// The network interfaces of this host, and which of their addresses a rank listens on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/control/session/address.hpp"

namespace tutti {

/// Who is to reach what is listened on: processes of this host, or of others, too.
enum class Reach : uint8_t { Host, Network };

/// One address of one interface that is up.
struct InterfaceAddress {
  std::string interface;
  SocketAddress address;  // port 0
  bool loopback = false;
  bool running = true;  // has a carrier
};

/// Everything that is up, in the system's order.  Errors: SystemError.
Result<std::vector<InterfaceAddress>> listInterfaces();

/// Those to listen on, best first, at most kMaxListenAddresses.
///   names   as TUTTI_SOCKET_IFNAME: "eth,ib" prefixes, "=eth0,ib0" exact names, "^docker" or "^=eth0" all but these
///   family  as TUTTI_SOCKET_FAMILY: "", "inet" or "inet6"
/// Without names: real interfaces; link-local addresses, then bridges of containers and virtual machines and the
/// loopback interface, only where there is nothing better.  An address of this host also reaches it from itself.
/// Errors: InvalidUsage: nothing matches; lists what there is.
Result<std::vector<SocketAddress>> chooseAddresses(const std::vector<InterfaceAddress>& all, const std::string& names,
                                                   const std::string& family);
/// Where interfaces are named: up to kMaxNamedAddresses, so that each of them is among those.
inline constexpr size_t kMaxListenAddresses = 4;
inline constexpr size_t kMaxNamedAddresses = 8;

/// How many of these addresses connections between two ranks are spread over: all of the first one's kind (beginWith of
/// dial.hpp) where `names` says which interfaces to take, so that somebody wants them all; else one.
int spreadPaths(const std::vector<SocketAddress>& addresses, const std::string& names);

/// Mbit/s that the interfaces of these addresses carry together, as speedOf tells; 0: one of them does not say.
uint32_t totalMbps(const std::vector<InterfaceAddress>& all, const std::vector<SocketAddress>& addresses,
                   const std::function<uint32_t(const std::string& interface)>& speedOf);
/// The same of what `listenAddresses` gives on this host: for one path of the first, if its speed is known (knownMbps);
/// for several of all, as they state.
uint32_t listenMbps(size_t nPaths);

/// chooseAddresses with this host's interfaces and configuration; for this host alone the loopback addresses, where
/// nobody has named interfaces.
Result<std::vector<SocketAddress>> listenAddresses(Reach reach = Reach::Network);

/// Whether nobody but processes of the same host can dial this.
bool staysOnHost(const ControlAddress& controlAddress);

}  // namespace tutti

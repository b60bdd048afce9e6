// Socket addresses as text and back, and the list of them that a ControlAddress is.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/control/network.hpp"

namespace tutti {

/// An IPv4 or IPv6 address with a port.  A value.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  int family() const { return storage.ss_family; }
  int port() const;
  void setPort(int port);
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// "10.0.0.7:4021", "[fd00::7]:4021", "[fe80::7%eth0]:4021".
  std::string text() const;
};

bool operator==(const SocketAddress& a, const SocketAddress& b);
/// 127.0.0.0/8 or ::1.
bool isLoopback(const SocketAddress& address);

/// Numeric addresses only, as text() writes them; nothing is looked up.
/// Errors: InvalidArgument: not an address; SystemError: its interface (behind %) does not exist on this host.
Result<SocketAddress> parseAddress(std::string_view text);

inline constexpr size_t kControlAddressMostBytes = 1024;
inline constexpr size_t kControlAddressMostAddresses = 16;

/// What to dial, in this order.  Addresses on interfaces that only another host has are left out.
/// Errors: InvalidArgument: not a control address; SystemError: nothing in it can be dialed from here.
Result<std::vector<SocketAddress>> parseControlAddress(const ControlAddress& controlAddress);

/// All addresses of a host name or numeric address, with this port.  May block in the resolver.
/// Works when only the loopback interface is up.  Errors: SystemError naming the host.
Result<std::vector<SocketAddress>> resolveHost(const std::string& host, int port);

/// Whether this names the host it is read on, whichever that is: "localhost", or a loopback address.
bool isThisHost(const std::string& host);

/// The addresses as a ControlAddress, the first ones first, as many as fit in maxBytes.
ControlAddress makeControlAddress(const std::vector<SocketAddress>& addresses, size_t maxBytes);

}  // namespace tutti

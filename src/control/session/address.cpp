#include "src/control/session/address.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

namespace tutti {
namespace {

sockaddr_in* v4(sockaddr_storage* s) { return reinterpret_cast<sockaddr_in*>(s); }
const sockaddr_in* v4(const sockaddr_storage* s) { return reinterpret_cast<const sockaddr_in*>(s); }
sockaddr_in6* v6(sockaddr_storage* s) { return reinterpret_cast<sockaddr_in6*>(s); }
const sockaddr_in6* v6(const sockaddr_storage* s) { return reinterpret_cast<const sockaddr_in6*>(s); }

bool parsePort(std::string_view text, int* port) { return parseNumber(text, port) && *port >= 1 && *port <= 65535; }

Status notAnAddress(std::string_view text) {
  return invalidArgument(ErrorCode::AddressMalformed, "'", text.substr(0, 100),
                         "' is not an address such as 10.0.0.7:4021 or [fd00::7]:4021");
}

/// The index of the interface named behind '%', by name or number.
unsigned scopeOf(const std::string& name) {
  if (const unsigned index = if_nametoindex(name.c_str()); index != 0) return index;
  unsigned index = 0;
  char ignored[IF_NAMESIZE];
  return parseNumber(name, &index) && if_indextoname(index, ignored) != nullptr ? index : 0;
}

Result<SocketAddress> parseV6(std::string_view text, std::string_view host, int port) {
  SocketAddress address;
  const size_t percent = host.find('%');
  const std::string numeric(host.substr(0, percent));
  if (inet_pton(AF_INET6, numeric.c_str(), &v6(&address.storage)->sin6_addr) != 1) return notAnAddress(text);
  if (percent != std::string_view::npos) {
    const std::string scope(host.substr(percent + 1));
    v6(&address.storage)->sin6_scope_id = scopeOf(scope);
    if (v6(&address.storage)->sin6_scope_id == 0) {
      return systemError(ErrorCode::NoInterface, "address ", text.substr(0, 100), ": this host has no interface '",
                         scope.substr(0, 32), "'");
    }
  }
  address.storage.ss_family = AF_INET6;
  address.bytes = sizeof(sockaddr_in6);
  address.setPort(port);
  return address;
}

}  // namespace

int SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? v6(&storage)->sin6_port : v4(&storage)->sin_port);
}

void SocketAddress::setPort(int port) {
  const in_port_t network = htons(static_cast<uint16_t>(port));
  if (family() == AF_INET6) {
    v6(&storage)->sin6_port = network;
  } else {
    v4(&storage)->sin_port = network;
  }
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &v4(&storage)->sin_addr, host, sizeof host);
    return cat(host, ":", port());
  }
  inet_ntop(AF_INET6, &v6(&storage)->sin6_addr, host, sizeof host);
  char name[IF_NAMESIZE];
  const unsigned scope = v6(&storage)->sin6_scope_id;
  if (scope == 0) return cat("[", host, "]:", port());
  if (if_indextoname(scope, name) == nullptr) return cat("[", host, "%", scope, "]:", port());
  return cat("[", host, "%", name, "]:", port());
}

bool isLoopback(const SocketAddress& address) {
  if (address.family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(&address.storage)->sin6_addr) != 0;
  return (ntohl(v4(&address.storage)->sin_addr.s_addr) >> 24) == 127;
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  if (a.family() == AF_INET) return v4(&a.storage)->sin_addr.s_addr == v4(&b.storage)->sin_addr.s_addr;
  return std::memcmp(&v6(&a.storage)->sin6_addr, &v6(&b.storage)->sin6_addr, sizeof(in6_addr)) == 0 &&
         v6(&a.storage)->sin6_scope_id == v6(&b.storage)->sin6_scope_id;
}

Result<SocketAddress> parseAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string_view::npos || !parsePort(text.substr(colon + 1), &port)) return notAnAddress(text);
  const std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return parseV6(text, host.substr(1, host.size() - 2), port);
  }
  SocketAddress address;
  if (inet_pton(AF_INET, std::string(host).c_str(), &v4(&address.storage)->sin_addr) != 1) return notAnAddress(text);
  address.storage.ss_family = AF_INET;
  address.bytes = sizeof(sockaddr_in);
  address.setPort(port);
  return address;
}

Result<std::vector<SocketAddress>> parseControlAddress(const ControlAddress& controlAddress) {
  if (controlAddress.empty())
    return invalidArgument(ErrorCode::AddressMalformed, "a control address without any address");
  if (controlAddress.size() > kControlAddressMostBytes) {
    return invalidArgument(ErrorCode::AddressMalformed, "a control address of ", controlAddress.size(),
                           " bytes; the most is ", kControlAddressMostBytes);
  }
  const std::vector<std::string> parts = split(controlAddress, ',');
  if (parts.size() > kControlAddressMostAddresses)
    return invalidArgument(ErrorCode::AddressMalformed, "a control address of ", parts.size(), " addresses");
  std::vector<SocketAddress> addresses;
  Status elsewhere;  // an interface of another host: the other addresses may still do
  for (const std::string& part : parts) {
    Result<SocketAddress> address = parseAddress(part);
    if (address.ok()) {
      addresses.push_back(*address);
    } else if (address.status().code() == tuttiInvalidArgument) {
      return address.status();
    } else if (elsewhere.ok()) {
      elsewhere = address.status();
    }
  }
  if (addresses.empty()) return elsewhere;
  return addresses;
}

Result<std::vector<SocketAddress>> resolveHost(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  // Not AI_ADDRCONFIG: it hides ::1 and 127.0.0.1 on a host where only the loopback interface is up.
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), cat(port).c_str(), &hints, &found);
  if (error != 0)
    return systemError(ErrorCode::HostUnknown, "cannot find the address of host '", host, "': ", gai_strerror(error));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.bytes = a->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  if (addresses.empty())
    return systemError(ErrorCode::HostUnknown, "host '", host, "' has neither an IPv4 nor an IPv6 address");
  return addresses;
}

bool isThisHost(const std::string& host) {
  if (host == "localhost") return true;
  for (const std::string& text : {host + ":1", "[" + host + "]:1"}) {
    const Result<SocketAddress> address = parseAddress(text);
    if (address.ok()) return isLoopback(*address);
  }
  return false;
}

ControlAddress makeControlAddress(const std::vector<SocketAddress>& addresses, size_t maxBytes) {
  ControlAddress controlAddress;
  size_t listed = 0;
  for (const SocketAddress& address : addresses) {
    const std::string text = address.text();
    if (listed == kControlAddressMostAddresses || controlAddress.size() + text.size() + 1 > maxBytes) continue;
    if (!controlAddress.empty()) controlAddress += ',';
    controlAddress += text;
    ++listed;
  }
  return controlAddress;
}

}  // namespace tutti

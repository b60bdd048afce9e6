// How fast a network interface is, as far as the system knows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

inline constexpr const char* kInterfaces = "/sys/class/net";

/// Mbit/s that the interface states, true or not: virtual ones state what their drivers made up.  0: nothing.
uint32_t statedMbps(const std::string& interface, const std::string& folder = kInterfaces);

/// The same where it can be believed: of an adapter, and of a bond or VLAN of adapters.  0: unknown, as of veth pairs,
/// bridges, tunnels, and adapters of virtual machines, whose hosts may shape them.
uint32_t knownMbps(const std::string& interface, const std::string& folder = kInterfaces);

/// Mbit/s of the fastest interface that is up and not the loopback: of those that can be believed, else of those that
/// state a speed; 0: none does.
uint32_t fastestMbps(const std::string& folder = kInterfaces);

}  // namespace tutti

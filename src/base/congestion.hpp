// Congestion control of TCP connections that may stay inside a host.
//
// BBR sends at the pace that it believes a wire to have, inside a host as well, where a timer of the kernel then stands
// between the pieces of a message.  A socket that once had BBR keeps a pace for good, whatever it is changed to (Linux:
// sk_pacing_status is never taken back), so a connection that is to have none must begin without.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

/// For a socket that neither listens nor is connected yet: where the system's control is BBR, begin with Reno, which is
/// part of every kernel and open to every user.  What a listener accepts has the listener's control, and what a
/// connection is for is known only later: links of the bootstrap, which carry little, stay so wherever they go.
void beginUnpaced(int fd);

/// Give a connection that began so, and leaves the host, the system's control; but not BBR's where the other end is
/// near (kNearUs).  What a connection of a collective sends comes in bursts, beside others on the same wire, and BBR
/// takes what that delivered for what the wire can do (perf/results/hosts-2core-vm.txt).  A loss on a near wire is
/// mended at once, so a control that goes by losses keeps it full: Cubic, or Reno, which it has.
void followSystemPace(int fd);

/// Round trips of less than this, microseconds, are within a data centre.
inline constexpr unsigned kNearUs = 1000;

/// Whether the other end of a connection is near, by what its handshake took; false where that is not known.
bool isNear(int fd);

/// The name of a socket's control; "" where it has none: not a TCP socket.
std::string congestionControlOf(int fd);

/// Give a TCP socket the control of this name.  Errors: InvalidUsage: the system has none of that name, or keeps it
/// from this user; it says which ones there are.
Status setCongestionControl(int fd, const std::string& name);

/// Whether the system gives sockets what TUTTI_TCP_CONGESTION asks for.  Errors: the same, naming the variable.
Status checkCongestionControl(const std::string& name);

}  // namespace tutti

// Where rank 0 listens at a place that ranks have agreed on beforehand.
#pragma once

#include <string>
#include <vector>

#include "src/control/session/interfaces.hpp"

namespace tutti {

/// The loopback addresses of this host with this port.  Errors: SystemError: it has none that is up.
Result<std::vector<SocketAddress>> loopbackAddresses(int port);

/// hosts: names or addresses by which ranks reach rank 0.
///   Reach::Host           the loopback addresses alone
///   "0.0.0.0" or "::"     every address, as it was asked for
///   else                  loopback, and the addresses of this host that the names lead to; where they lead to none of
///                         them (a translated address, 127.0.1.1 in /etc/hosts), those of listenAddresses()
Result<std::vector<SocketAddress>> placeAddresses(const std::vector<std::string>& hosts, int port, Reach reach);

}  // namespace tutti

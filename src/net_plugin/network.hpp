// The one device that the plugin has: adapters by verbs where there is one, else the host's sockets.
#pragma once

#include <memory>
#include <string>

#include "src/net_plugin/handle.hpp"
#include "transport/services.hpp"
#include "transport/transport.hpp"

namespace tutti::net_plugin {

/// What is said of the device.  Any thread.
struct Network {
  bool verbs = false;   // else tcp
  std::string name;     // "tutti-verbs"
  std::string pciPath;  // "": none
  uint64_t guid = 0;
  int mbitPerSecond = 10'000;

  /// By TUTTI_PLUGIN_TRANSPORT.  Errors: InvalidUsage: there is none of the kind, or a variable is wrong.
  static Result<Network> find();
  /// A listener's handle, without secret and addresses.  Errors: InvalidUsage.
  Result<Handle> offer() const;
};

/// A transport of the kind that a handle names, set like the handle's listener, for one connection.
/// Errors: InvalidUsage: there is none such here; SystemError.
Result<std::unique_ptr<Transport>> makeTransport(const Handle& handle, StreamExchange& streams);
/// Its address at the other end.
Address peerAddress(const Handle& handle, const Transport& here);

}  // namespace tutti::net_plugin

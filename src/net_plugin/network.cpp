#include "src/net_plugin/network.hpp"

#include <dirent.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/control/session/interfaces.hpp"
#include "transport/tcp/transport.hpp"
#if TUTTI_HAVE_VERBS
#include "transport/verbs/transport.hpp"
#endif

namespace tutti::net_plugin {
namespace {

constexpr int kSelf = 0;

std::string realPath(const std::string& path) {
  char* const found = ::realpath(path.c_str(), nullptr);
  if (found == nullptr) return "";
  const std::string real = found;
  std::free(found);
  return real;
}

uint64_t numberOf(const std::string& name) {
  char host[HOST_NAME_MAX + 1] = {};
  (void)::gethostname(host, sizeof host - 1);
  return hashText(cat(host, "/", name));
}

#if TUTTI_HAVE_VERBS
int mbitOf(const ibv_port_attr& port) {
  const int perLane = port.active_speed >= 64   ? 50'000
                      : port.active_speed >= 32 ? 25'000
                      : port.active_speed >= 16 ? 14'000
                      : port.active_speed >= 4  ? 10'000
                      : port.active_speed == 2  ? 5'000
                                                : 2'500;
  const int lanes = port.active_width == 8 ? 12 : port.active_width == 4 ? 8 : port.active_width == 2 ? 4 : 1;
  return perLane * lanes;
}

Result<Network> findVerbs() {
  TUTTI_ASSIGN(const verbs::Options options, verbs::Options::fromConfig());
  TUTTI_ASSIGN(const std::vector<std::shared_ptr<verbs::Device>> devices, verbs::Device::open(options));
  const verbs::Device* const device = devices.front().get();
  const std::string name = device->name();
  Network network{.verbs = true, .name = "tutti-verbs"};
  network.pciPath = realPath(cat("/sys/class/infiniband/", name.substr(0, name.find(':')), "/device"));
  network.guid = device->attributes().node_guid;
  network.mbitPerSecond = mbitOf(device->portAttributes());
  return network;
}
#else
Result<Network> findVerbs() { return invalidUsage(ErrorCode::NotInBuild, "this build has no verbs"); }
#endif

/// The first interface that sockets use.
Result<std::string> interfaceOf() {
  TUTTI_ASSIGN(const std::vector<SocketAddress> listening, listenAddresses());
  TUTTI_ASSIGN(const std::vector<InterfaceAddress> all, listInterfaces());
  for (const InterfaceAddress& one : all) {
    if (!listening.empty() && one.address == listening.front()) return one.interface;
  }
  return std::string("lo");
}

Result<Network> findTcp() {
  TUTTI_TRY(asStatus(TcpOptions::fromConfig()));
  TUTTI_ASSIGN(const std::string interface, interfaceOf());
  Network network{.verbs = false, .name = "tutti-tcp"};
  network.pciPath = realPath(cat("/sys/class/net/", interface, "/device"));
  network.guid = numberOf(interface);
  int mbit = 0;
  std::ifstream(cat("/sys/class/net/", interface, "/speed")) >> mbit;
  if (mbit > 0) network.mbitPerSecond = mbit;
  return network;
}

}  // namespace

Result<Network> Network::find() {
  for (const char* name : {"TUTTI_ENCRYPT", "TUTTI_INTEGRITY"}) {
    if (const std::string value = configText(name); value == "1" || value == "mac")
      return invalidUsage(ErrorCode::NotHonoured, name, "=", value,
                          " cannot be had in libnccl-net-tutti.so, which neither encrypts nor tags; ",
                          "unset it, or let ranks meet by libnccl.so.2 of Tutti");
  }
  const std::string asked = configText("TUTTI_PLUGIN_TRANSPORT");
  if (asked == "tcp") return findTcp();
  if (!asked.empty() && asked != "verbs")
    return invalidUsage(ErrorCode::VariableValue, "TUTTI_PLUGIN_TRANSPORT='", asked, "' is neither verbs nor tcp");
  Result<Network> verbs = findVerbs();
  if (verbs.ok()) return verbs;
  if (asked == "verbs") return invalidUsage("TUTTI_PLUGIN_TRANSPORT=verbs: ", verbs.status().text());
  TUTTI_DEBUG("net_plugin", "verbs is not used: ", verbs.status().message());
  return findTcp();
}

Result<Handle> Network::offer() const {
  Handle handle;
  handle.verbs = verbs;
  if (verbs) return handle;
  TUTTI_ASSIGN(const TcpOptions options, TcpOptions::fromConfig());
  handle.nSockets = static_cast<uint32_t>(options.nSockets);
  handle.slotBytes = static_cast<uint32_t>(options.slotBytes);
  return handle;
}

// Of verbs both ends say all else of themselves when they open: the address tells the version alone.
Address peerAddress(const Handle& handle, const Transport& here) {
  if (handle.verbs) return here.address();
  return encodeTcpAddress({static_cast<int>(handle.nSockets), handle.slotBytes});
}

Result<std::unique_ptr<Transport>> makeTransport(const Handle& handle, StreamExchange& streams) {
  if (!handle.verbs) {
    const TcpOptions options{static_cast<int>(handle.nSockets), handle.slotBytes};
    TUTTI_ASSIGN(auto made, TcpTransport::create(streams, kSelf, options));
    return std::unique_ptr<Transport>(std::move(made));
  }
#if TUTTI_HAVE_VERBS
  TUTTI_ASSIGN(const verbs::Options options, verbs::Options::fromConfig());
  return std::unique_ptr<Transport>(std::make_unique<VerbsTransport>(streams, kSelf, options));
#else
  return invalidUsage(ErrorCode::NotInBuild, "the peer uses verbs, which this build does not have");
#endif
}

}  // namespace tutti::net_plugin

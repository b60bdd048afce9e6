#include "transport/tcp/entry.hpp"

#include <dirent.h>

#include <algorithm>
#include <fstream>

#include "src/base/text.hpp"
#include "transport/tcp/transport.hpp"

namespace tutti {
namespace {

/// Mbit/s of the fastest interface that is up and says so; 0 if none does.
double fastestInterfaceMbit() {
  double most = 0;
  DIR* folder = opendir("/sys/class/net");
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "lo" || name.starts_with('.')) continue;
    std::string state;
    double mbit = 0;
    std::ifstream(cat("/sys/class/net/", name, "/operstate")) >> state;
    std::ifstream(cat("/sys/class/net/", name, "/speed")) >> mbit;
    if (state == "up" && mbit > 0 && mbit < 1e7) most = std::max(most, mbit);
  }
  closedir(folder);
  return most;
}

ProtocolCosts slotCosts(double latencyUs, double bandwidthGBps) {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {latencyUs, bandwidthGBps}, .mostBytes = 128 * 1024};
  return costs;
}

ProtocolCosts overLoopback() { return slotCosts(4, 4); }

// 94 % of the wire is payload with 1500-byte frames; 10 Gbit/s where nothing is known.
ProtocolCosts overWire() {
  const double mbit = fastestInterfaceMbit();
  return slotCosts(20, (mbit > 0 ? mbit : 10000) / 8e3 * 0.94);
}

constexpr LinkDescription kTcpLinks[] = {{kTcpLocal, overLoopback}, {kTcpRemote, overWire}};

Result<std::unique_ptr<Transport>> createTcp(const TransportContext& context) {
  TUTTI_ASSIGN(TcpOptions options, TcpOptions::fromConfig());
  options.hostId = context.self.hostId;
  TUTTI_ASSIGN(auto made, TcpTransport::create(context.streams, context.self.rank, options));
  return std::unique_ptr<Transport>(std::move(made));
}

}  // namespace

constinit const TransportEntry kTcpEntry = {.name = "tcp", .links = kTcpLinks, .create = createTcp};

}  // namespace tutti

#include "transport/tcp/entry.hpp"

#include "src/base/interface_speed.hpp"
#include "transport/tcp/transport.hpp"

namespace tutti {
namespace {

ProtocolCosts slotCosts(double latencyUs, double bandwidthGBps) {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {latencyUs, bandwidthGBps}, .mostBytes = 128 * 1024};
  return costs;
}

ProtocolCosts overLoopback() { return slotCosts(4, 4); }

// 94 % of the wire is payload with 1500-byte frames; 10 Gbit/s where nothing is known.
ProtocolCosts overWire() {
  const double mbit = fastestMbps();
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

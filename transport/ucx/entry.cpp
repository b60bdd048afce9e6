#include "transport/ucx/entry.hpp"

#include "transport/ucx/transport.hpp"

namespace tutti {
namespace {

// Sockets of one host; an adapter of 100 Gbit/s between hosts.
ProtocolCosts ucxCosts(double latencyUs, double bandwidthGBps) {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {latencyUs, bandwidthGBps}, .mostBytes = 128 * 1024};
  return costs;
}

constexpr LinkDescription kUcxLinks[] = {{kUcxLocal, [] { return ucxCosts(5, 3); }},
                                         {kUcxRemote, [] { return ucxCosts(4, 10); }}};

Result<std::unique_ptr<Transport>> createUcx(const TransportContext& context) {
  TUTTI_ASSIGN(ucx::Options options, ucx::Options::fromConfig());
  if (context.sliceBytes > 0) options.slotBytes = context.sliceBytes;
  return std::unique_ptr<Transport>(
      std::make_unique<UcxTransport>(context.streams, context.self.rank, options, context.device));
}

}  // namespace

constinit const TransportEntry kUcxEntry = {.name = "ucx", .links = kUcxLinks, .create = createUcx, .onlyNamed = true};

}  // namespace tutti

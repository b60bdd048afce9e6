#include "transport/ncclnet/entry.hpp"

#include "transport/ncclnet/transport.hpp"

namespace tutti {
namespace {

// An adapter of 100 Gbit/s, and two copies by the processor.  Inside a host it reads and writes the same memory twice.
ProtocolCosts ncclnetCosts(double bandwidthGBps) {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {6, bandwidthGBps}, .mostBytes = 128 * 1024};
  return costs;
}

constexpr LinkDescription kNcclnetLinks[] = {{kNcclnetLocal, [] { return ncclnetCosts(4); }},
                                             {kNcclnetRemote, [] { return ncclnetCosts(8); }}};

Result<std::unique_ptr<Transport>> createNcclnet(const TransportContext& context) {
  TUTTI_ASSIGN(ncclnet::Options options, ncclnet::Options::fromConfig());
  if (context.sliceBytes > 0) options.slotBytes = context.sliceBytes;
  return std::unique_ptr<Transport>(
      std::make_unique<NcclnetTransport>(context.streams, context.self.rank, options, context.device));
}

}  // namespace

constinit const TransportEntry kNcclnetEntry = {.name = "ncclnet", .links = kNcclnetLinks, .create = createNcclnet};

}  // namespace tutti

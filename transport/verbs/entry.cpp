#include "transport/verbs/entry.hpp"

#include "transport/verbs/transport.hpp"

namespace tutti {
namespace {

// An adapter of 100 Gbit/s.  Inside a host it reads and writes the same memory twice.
ProtocolCosts slotCosts(double bandwidthGBps) {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {3, bandwidthGBps}, .mostBytes = 128 * 1024};
  return costs;
}

constexpr LinkDescription kVerbsLinks[] = {{kVerbsLocal, [] { return slotCosts(6); }},
                                           {kVerbsRemote, [] { return slotCosts(11); }}};

Result<std::unique_ptr<Transport>> createVerbs(const TransportContext& context) {
  TUTTI_ASSIGN(verbs::Options options, verbs::Options::fromConfig());
  options.localRank = context.localRank;
  if (context.sliceBytes > 0) options.slotBytes = context.sliceBytes;
  return std::unique_ptr<Transport>(
      std::make_unique<VerbsTransport>(context.streams, context.self.rank, options, context.device));
}

}  // namespace

constinit const TransportEntry kVerbsEntry = {.name = "verbs", .links = kVerbsLinks, .create = createVerbs};

}  // namespace tutti

#include "transport/shm/entry.hpp"

#include "transport/shm/shm_transport.hpp"

namespace tutti {
namespace {

/// Bytes that go in one control line beside its flag.
constexpr uint64_t kBuiltInInlineBytes = 48;
constexpr uint64_t kBuiltInSlotBytes = 128 * 1024;

ProtocolCosts ofChannels() {
  ProtocolCosts costs;
  costs[Protocol::Inline] = {.available = true, .cost = {0.15, 1}, .mostBytes = kBuiltInInlineBytes};
  costs[Protocol::Inline].here = {0.1, 1};
  costs[Protocol::Slots] = {.available = true, .cost = {0.25, 7}, .mostBytes = kBuiltInSlotBytes};
  costs[Protocol::Slots].near = {10, 5};
  costs[Protocol::Slots].far = {8, 4};
  costs[Protocol::Slots].here = {0.1, 10};
  return costs;
}

ProtocolCosts betweenThreads() {
  ProtocolCosts costs = ofChannels();
  costs[Protocol::Direct] = {.available = true, .cost = {0.4, 11}, .mostBytes = UINT64_MAX, .freshGBps = 6};
  costs[Protocol::Direct].near = {20, 20};
  costs[Protocol::Direct].far = {9, 5};
  return costs;
}

ProtocolCosts betweenProcesses() {
  ProtocolCosts costs = ofChannels();
  costs[Protocol::Direct] = {.available = true, .cost = {0.8, 11}, .mostBytes = UINT64_MAX, .freshGBps = 6};
  costs[Protocol::Direct].near = {12, 12};
  costs[Protocol::Direct].far = {4, 4.2};
  return costs;
}

constexpr LinkDescription kShmLinks[] = {{kShmThreads, betweenThreads}, {kShmProcesses, betweenProcesses}};

Result<std::unique_ptr<Transport>> createShm(const TransportContext& context) {
  TUTTI_ASSIGN(ShmConfig config, ShmConfig::fromEnvironment(context.self, context.nRanks));
  config.lanes = context.lanes;
  config.sharedCores = context.sharedCores;
  return createShmTransport(config, context.descriptors);
}

}  // namespace

constinit const TransportEntry kShmEntry = {.name = "shm", .links = kShmLinks, .create = createShm};

}  // namespace tutti

// Shared memory between the ranks of one host: processes and threads, in any mixture.
#pragma once

#include <memory>

#include "transport/services.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// What shared memory is told of its rank.  The numbers must be the same on all ranks.
struct ShmConfig {
  PeerInfo self;
  int nRanks = 1;
  int lanes = 64;  // the most endpoints to one peer
  int64_t slots = 4;
  int64_t slotBytes = 128 << 10;
  bool cma = true;
  bool sharedCores = false;      // the host has fewer cores than ranks
  bool keepFromChildren = true;  // that this process forks; they could not use it

  /// With TUTTI_SLOTS, TUTTI_SLOT_BYTES and TUTTI_CMA.  Errors: InvalidUsage.
  static Result<ShmConfig> fromEnvironment(const PeerInfo& self, int nRanks);
};

/// A transport with a segment of its own, which it serves through `exchange` (borrowed; it must outlive the transport).
/// An endpoint comes up when the peer's segment is served, whether or not the peer connects; each (peer, lane) can be
/// connected once.  Any thread may connect.  Endpoints outlive nothing: destroy them before the transport.
/// Errors: InvalidUsage, SystemError.
Result<std::unique_ptr<Transport>> createShmTransport(const ShmConfig& config, FdExchange& exchange);

}  // namespace tutti

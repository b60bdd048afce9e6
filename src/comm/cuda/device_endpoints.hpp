// The endpoints of a rank on a device: of streams, between devices that use each other's memory, and staged ones, which
// pass through the host.  Owns them, the words and slots that peers write to, and access to the peers' devices.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "src/comm/cuda/executor_kind.hpp"
#include "src/comm/cuda/gates.hpp"
#include "src/comm/cuda/memory_lending.hpp"
#include "src/comm/links.hpp"
#include "transport/cuda/staged_endpoint.hpp"
#include "transport/cuda/stream_endpoint.hpp"

namespace tutti {

/// One thread at a time.
class DeviceEndpoints {
 public:
  /// ops, lending: borrowed.  slots: of an endpoint.
  DeviceEndpoints(cuda::StreamOps& ops, MemoryLending& lending, int rank, uint32_t slots)
      : ops_(ops), device_(ops.device()), lending_(lending), rank_(rank), slotsOfOne_(slots) {}

  /// First: takes the memory of the words, with `stream`, on which nothing is.  Errors: memory.
  Status makeWords(int nRanks, cuda::Stream stream);
  /// Two words of a proxy's: the number of the last job that has ended, and whether one of a graph has.
  cuda::Address gate() const;
  cuda::Address replayed() const;
  /// Says in `descriptor` where the words are, and which other devices this one can use.
  void describe(PeerDescriptor* descriptor) const;
  /// reach: the ranks whose memory this rank's device uses; has it use those of this process.  Errors:
  /// UnhandledCudaError.
  Status meet(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors);
  /// Whether there are such ranks.
  bool reachesAny() const { return placeOf(reach_.nRanks()) > 1; }
  /// By proxies with edges between devices: takes the memory for the slots of `lanes` lanes, and says in `descriptor`
  /// where it is; then, with all descriptors, opens that of peers.  Errors: memory; RemoteError.
  Status makeSlots(int lanes, size_t slotBytes, PeerDescriptor* descriptor);
  Status openSlots(const std::vector<PeerDescriptor>& descriptors, Deadline deadline);

  /// The endpoint to `peer` for `lane`, over one or two host endpoints of `links`; null while those come up.
  /// Errors: as Links::endpoint; memory.
  Result<Endpoint*> endpoint(Links& links, int peer, int lane, size_t slotBytes);
  /// By proxies, while ranks join: takes memory that adapters of `links` read and write, if any do, for endpoints to
  /// the ranks that are not met.
  void makeAdapterSlots(const Links& links, const std::vector<PeerDescriptor>& descriptors, size_t slotBytes);
  /// Before streams wait for a proxy: takes memory that staged endpoints will want.  gates: of the device, or null.
  void fillReserve(DeviceGates* gates);
  /// Bytes that this rank has sent to `peer`, by kind of link, and what has come from it through the host's memory.
  struct Traffic {
    uint64_t byDevice = 0;
    uint64_t throughHost = 0;
    uint64_t byAdapter = 0;  // from device memory
    uint64_t receivedThroughHost = 0;
  };
  Traffic sentTo(int peer) const;
  /// Endpoint::hasLeft() of all staged ones.  By the thread that serves them.
  bool hasLeft() const;
  /// No call comes any more, and links are there yet: adapters write this rank's memory no longer.
  void leaveAdapters();

  /// Has streams leave their waits for peers: enqueues that on `rescue`.
  void letGo(cuda::Stream rescue) const;
  /// Lets go of the peers' memory.  No call comes any more.
  void closePeers();

 private:
  int placeOf(int peer) const;
  Status use(const std::string& uuid);
  Result<Endpoint*> stagedEndpoint(Links& links, int peer, int lane);
  Result<Endpoint*> streamEndpoint(Links& links, int peer, int lane, size_t slotBytes);

  cuda::StreamOps& ops_;
  std::shared_ptr<const cuda::CudaDevice> device_;
  MemoryLending& lending_;
  int rank_;
  uint32_t slotsOfOne_;
  DeviceReach reach_;           // the peers that this rank's streams meet
  int lanes_ = kMostCudaLanes;  // of endpoints to those
  std::vector<std::shared_ptr<cuda::CudaDevice>> peers_;
  std::shared_ptr<cuda::OfferedMemory> words_;        // of all endpoints
  std::shared_ptr<const cuda::OfferedMemory> slots_;  // of makeSlots()
  std::map<std::pair<int, int>, std::unique_ptr<cuda::StreamEndpoint>> streamed_;
  cuda::PinnedReserve reserve_;  // these two for what follows
  cuda::AdapterSlots slotsOfAdapters_;
  std::map<std::pair<int, int>, std::unique_ptr<cuda::StagedEndpoint>> staged_;
};

}  // namespace tutti

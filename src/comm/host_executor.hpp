// Calls on memory of the host, carried out by the thread that makes them, or by that of a host stream.
#pragma once

#include <map>
#include <tuple>

#include "src/comm/executor.hpp"
#include "src/exec/packed_endpoint.hpp"

namespace tutti {

class Comm;

class HostExecutor : public Executor {
 public:
  /// comm: borrowed.
  explicit HostExecutor(Comm& comm) : Executor(MemoryKind::Host), comm_(comm) {}

  Result<Refusals> tryReach(const DeviceReach&, const std::vector<PeerDescriptor>&) override { return Refusals(); }
  Status meet(const std::vector<PeerDescriptor>&, PeerDescriptor*) override { return {}; }
  Result<std::function<bool()>> open() override;
  Result<Endpoint*> endpoint(int peer, int lane) override;
  Result<Endpoint*> narrowed(int peer, int lane, const WireCode& code) override;
  ScratchLender scratch() override { return nullptr; }
  Result<std::byte*> workspace(size_t bytes) override;
  Status equip(PlanEntry* entry, bool resident) override;
  std::unique_ptr<Batch> newBatch() override;
  Carrier carrier(tuttiStream_t stream, HostStream* own) const override;
  uint64_t captureOf(tuttiStream_t) const override { return 0; }
  Status checkStream(tuttiStream_t stream) const override;
  Status checkMemory(const void*, const char*) const override { return {}; }
  Status lend(void*, const void*, size_t) override { return {}; }
  Status endLending(void*) override { return {}; }
  Status finalize() override { return {}; }

 private:
  Comm& comm_;
  std::map<std::tuple<int, int, tuttiDataType_t>, PackedEndpoint>
      packed_;  // by peer, lane and type; over those of links
  std::vector<std::byte> workspace_;
};

}  // namespace tutti

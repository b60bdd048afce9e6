// Calls of a rank on a CUDA device (docs/cuda.md).  Owns the device, what is enqueued there, and the memory of calls;
// endpoints, memory that ranks lend each other, and kernels that carry out calls are its parts' business.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/comm/cuda/device_endpoints.hpp"
#include "src/comm/cuda/memory_lending.hpp"
#include "src/comm/cuda/proxy.hpp"
#include "src/comm/cuda/resident_executor.hpp"
#include "src/comm/cuda/stream_order.hpp"
#include "src/comm/executor.hpp"
#include "src/exec/cuda/stream_worker.hpp"

namespace tutti {

class Comm;

/// How long a call or a deregistration that fails waits for streams to leave their waits.
inline constexpr int kLetGoMs = 1000;

/// Nothing waits for the device but what ends calls or the communicator and, as the driver does it, allocations.
class CudaExecutor : public Executor {
 public:
  /// comm: borrowed.  slots: of an endpoint.  Says in `descriptor`, of this rank, what others must know of its device.
  /// Errors: as CudaDevice::open and CudaKernels::load; InvalidUsage: the device lacks something; memory.
  static Result<std::unique_ptr<Executor>> create(Comm& comm, int nRanks, uint32_t slots, PeerDescriptor* descriptor);
  /// All work of this communicator must have ended.
  ~CudaExecutor() override;
  void retire(std::unique_ptr<Executor> self) override;

  const cuda::CudaDevice& device() const { return *device_; }
  /// What carries calls out if the caller does not; else null.
  CudaProxy* proxy() const { return proxy_.get(); }
  /// What carries out collectives on `stream` in place of streams, if that can be: a launch for several ranks joins
  /// their streams, which a capture of one of them cannot do.  Else null.
  ResidentExecutor* kernelsFor(cuda::Stream stream) const;
  /// As Executor's.
  uint64_t captureOf(cuda::Stream stream) const;
  /// Bytes that this rank has sent to `peer`, by kind of link.
  DeviceEndpoints::Traffic sentTo(int peer) const { return parts_->endpoints.sentTo(peer); }

  /// On the way of the proxy, by the caller: `streams` come to a call that a job will carry out, and wait for its end.
  /// Errors: UnhandledCudaError; nothing waits then.
  Result<CudaProxy::Submitted> submit(std::span<const cuda::Stream> streams);
  /// The same for streams that are being captured (CudaProxy::capture).
  Status capture(std::span<const cuda::Stream> streams, CudaProxy::MakeJob makeJob);
  // With the device's context current:
  /// Calls on `streams` begin, which are enqueued from now on.
  Status begin(std::span<const cuda::Stream> streams);
  /// Enqueues what is gathered: after this others may enqueue on the stream.
  Status flush() { return ops_.flush(); }
  /// They are enqueued: all of `streams` follow them.
  Status end(std::span<const cuda::Stream> streams) { return order_.end(streams); }
  /// A call on `streams` has failed: has streams leave every wait for other ranks, for a time.
  void letGoOf(std::span<const cuda::Stream> streams);
  /// A step of the same for what the proxy's job has enqueued, by the job, which then lets the program's streams go:
  /// whether that is over, as it is at `last`.
  bool letGoOfJob(Deadline last);

 private:
  Result<Refusals> tryReach(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors) override;
  Status meet(const std::vector<PeerDescriptor>& descriptors, PeerDescriptor* addresses) override;
  Result<std::function<bool()>> open() override;
  Result<Endpoint*> endpoint(int peer, int lane) override;
  ScratchLender scratch() override;
  Result<std::byte*> workspace(size_t bytes) override;
  Status equip(PlanEntry* entry, bool resident) override;
  std::shared_ptr<const AdapterAccess> adapterAccess() const override;
  std::unique_ptr<Batch> newBatch() override;
  Carrier carrier(tuttiStream_t stream, HostStream* own) const override;
  uint64_t captureOf(tuttiStream_t stream) const override;
  Status checkStream(tuttiStream_t stream) const override;
  Status checkMemory(const void* memory, const char* name) const override;
  Status lend(void* handle, const void* buffer, size_t bytes) override;
  Status endLending(void* handle) override;
  Status finalize() override;

  CudaExecutor(Comm& comm, std::shared_ptr<cuda::CudaDevice> device, std::shared_ptr<const CudaKernels> kernels,
               int rank, uint32_t slots);
  void describe(PeerDescriptor* descriptor) const;
  void post();
  bool goOnSending();
  Status tryWords();
  Result<std::byte*> grow(std::vector<cuda::DeviceMemory>* memory, size_t bytes);
  Status endLendingNow(uint64_t key);
  bool settle();
  void closePeers();
  bool letGo(int mostMs);
  std::optional<bool> tryLetGo(bool busy, Deadline last);

  /// What streams may use.  In this order, as what is below uses what is above.
  struct Parts {
    Parts(cuda::StreamOps& ops, int rank, uint32_t slots)
        : lending(ops.device(), rank), endpoints(ops, lending, rank, slots) {}
    MemoryLending lending;
    DeviceEndpoints endpoints;
    std::unique_ptr<ResidentExecutor> kernels;           // on the way of resident kernels
    std::vector<cuda::DeviceMemory> scratch, workspace;  // the last is the one in use
  };

  Comm& comm_;  // until retire()
  std::shared_ptr<cuda::CudaDevice> device_;
  std::shared_ptr<const CudaKernels> kernels_;
  uint32_t slots_;
  cuda::StreamOps ops_;
  StreamWorker worker_;
  StreamOrder order_;
  cuda::Stream rescue_ = nullptr;
  std::unique_ptr<CudaProxy> proxy_;
  std::shared_ptr<Parts> parts_;
};

}  // namespace tutti

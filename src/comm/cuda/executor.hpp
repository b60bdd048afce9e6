// What a communicator has on a CUDA device: its device, stream order, endpoints and memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/comm/cuda/executor_kind.hpp"
#include "src/comm/cuda/launch_watch.hpp"
#include "src/comm/cuda/one_pass_run.hpp"
#include "src/comm/cuda/proxy.hpp"
#include "src/comm/cuda/reach.hpp"
#include "src/comm/cuda/resident_run.hpp"
#include "src/comm/links.hpp"
#include "src/exec/cuda/resident_program.hpp"
#include "src/exec/cuda/stream_worker.hpp"
#include "transport/cuda/staged_endpoint.hpp"
#include "transport/cuda/stream_endpoint.hpp"

namespace tutti {

/// Lanes that plans of resident kernels may have: each is a block, and all ranks' blocks must be on their devices
/// together.  0: that cannot be, because a device is shared by processes, or has too few blocks for its ranks.
int residentLanes(const std::vector<PeerDescriptor>& descriptors, size_t sliceBytes, uint32_t slots);
/// Whether all ranks are in one process and on one device: then one launch carries all of them.
bool onOneDevice(const std::vector<PeerDescriptor>& descriptors);
/// Whether TUTTI_CUDA_EXECUTOR asks for the proxy.
bool asksForProxy();
/// Whether there is an executor of this name, whatever the ranks can do.  Errors: InvalidUsage naming
/// TUTTI_CUDA_EXECUTOR.
Status checkExecutorName(const std::string& name);
/// lanes: residentLanes().  obstacle: the same on all ranks; "" if there is none.  Errors: InvalidUsage:
/// TUTTI_CUDA_EXECUTOR cannot be honoured.
Result<ExecutorKind> executorKind(const std::vector<PeerDescriptor>& descriptors, int lanes,
                                  const std::string& obstacle);

/// Lanes that collectives may have on CUDA ranks: as many host endpoints again carry credits.
inline constexpr int kMostCudaLanes = 30;
/// The same where some edges of a plan are between devices and others are not: as many as have room for their slots,
/// which have to be there before streams wait for a proxy.
int lanesOfMixedEdges(const DeviceReach& reach, size_t slotBytes, uint32_t slots);
/// The lane of the host endpoints by which ranks agree on a launch.
inline constexpr int kLaunchLane = 62;
/// How long a call or a deregistration that fails waits for streams to leave their waits.
inline constexpr int kLetGoMs = 1000;

/// One thread at a time (the communicator's turn), but for device().  Nothing waits for the device but letGo() and, as
/// the driver does it, allocations.
class CudaExecutor {
 public:
  /// Errors: as CudaDevice::open and CudaKernels::load.
  static Result<std::unique_ptr<CudaExecutor>> create(cuda::Device ordinal, int rank, int nRanks, uint32_t slots);
  /// All work of this communicator must have ended.
  ~CudaExecutor();

  const cuda::CudaDevice& device() const { return *device_; }
  Worker& worker() { return worker_; }
  /// What other ranks must know of this one's device.
  void describe(PeerDescriptor* descriptor) const;
  /// Opens some memory of every other process that this rank reaches.  Gives the ranks that refused, with reasons.
  Refusals tryIpc(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors, Deadline deadline);
  /// On the way of resident kernels: takes the memory of this rank's ends, and says in `descriptor` where it is.
  /// Errors: memory.
  Status makeEnds(int nRanks, int lanes, size_t sliceBytes, PeerDescriptor* descriptor);
  /// Then, with all descriptors: opens the peers' ends, and the host endpoints by which ranks agree on launches.
  /// mostBlocks: of a rank, in a launch that needs no plan; 0: any number.
  Status openEnds(int rank, const std::vector<PeerDescriptor>& descriptors, Links& links, int mostBlocks,
                  Deadline deadline);
  /// The run of a plan for resident kernels.  Errors: as residentProgram(); memory.
  Result<std::unique_ptr<ResidentRun>> residentRun(const Plan& plan);
  /// Where all ranks share a launch: what runs calls in one pass over their buffers; else null.
  OnePassRun* onePass() { return onePass_.get(); }
  /// Whether a call on `stream` can go that way: a launch for several ranks joins their streams, which a capture of
  /// one of them cannot do.
  bool resident(cuda::Stream stream) const;
  /// The next collective is settled: whether blocks may walk its plan, by what its number is (LaunchSeat::settled).
  bool settleWalk();
  /// Sees launches of this rank's that do not start; null where it launches none.  Once openEnds() has been.
  std::unique_ptr<LaunchWatch> launchWatch() const;
  /// What the failure of a communicator is told to, by any thread, also after this: null on other ways.
  std::shared_ptr<cuda::ResidentMemory> residentMemory() const;
  /// Starts the executor that was chosen.  reach: the ranks whose memory this rank's device uses.
  Status meet(ExecutorKind kind, const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors);
  /// By proxies with edges between devices: takes the memory for the slots of `lanes` lanes, and says in `descriptor`
  /// where it is; then, with all descriptors, opens that of peers.  Errors: memory; RemoteError.
  Status makeSlots(int lanes, size_t slotBytes, PeerDescriptor* descriptor);
  Status openSlots(const std::vector<PeerDescriptor>& descriptors, Deadline deadline);
  /// Before others open memory of this rank's: lets them say that they have.  services: borrowed.  Errors: SystemError.
  Status serveReaders(FdExchange& services);
  /// Where streams carry messages: from now on registered memory can be lent.  settle: as ExchangeRank's.
  void lendOver(std::function<bool()> settle);
  /// Lends memory to the peers under `key`, if it can be lent.  Any thread.  Errors: as MemoryExchange::lend;
  /// InvalidArgument: the device cannot reach it.
  Status lend(uint64_t key, const void* buffer, size_t bytes);
  /// Only with the turn: ends it.  failed: the communicator has.  Errors: InvalidUsage: calls may still use it; it
  /// stays lent.
  Status endLending(uint64_t key, bool failed);
  /// Then: the lowest rank that still has the memory open, if one has.
  std::optional<int> reader(uint64_t key);
  /// Closes memory of other processes.  Idle, and no call comes any more.
  void closePeers();

  /// What carries calls out if the caller does not; else null.
  CudaProxy* proxy() const { return proxy_.get(); }

  /// Calls on `streams` begin: what is enqueued from now on follows all of them, and earlier calls.
  Status begin(std::span<const cuda::Stream> streams);
  /// They are enqueued: all of `streams` follow them.
  Status end(std::span<const cuda::Stream> streams);

  /// On the way of the proxy, by the caller: `streams` come to a call that a job will carry out, and wait for its end.
  /// Errors: UnhandledCudaError; nothing waits then.
  Result<CudaProxy::Submitted> submit(std::span<const cuda::Stream> streams);
  /// The same for streams that are being captured (CudaProxy::capture).
  Status capture(std::span<const cuda::Stream> streams, std::function<bool()> job);
  // With the device's context current:
  /// Enqueues what is gathered: after this others may enqueue on the stream.
  Status flush() { return ops_.flush(); }
  /// Whether `stream` is being captured into a graph.
  bool capturing(cuda::Stream stream) const;
  /// Which capture that is, by a number of its own; 0: none.
  uint64_t captureOf(cuda::Stream stream) const;
  /// Whether calls can be enqueued on the stream.  Errors: InvalidArgument: it is another device's, or gone;
  /// InvalidUsage: the legacy default stream, while a stream that it would wait for is captured; one whose capture has
  /// been invalidated.
  Status checkStream(cuda::Stream stream) const;
  Result<uint64_t> numberOf(cuda::Stream stream) const;

  /// The endpoint to `peer` for `lane`, over one or two host endpoints of `links`; null while those come up.
  /// Errors: as Links::endpoint; memory.
  Result<Endpoint*> endpoint(Links& links, int peer, int lane, size_t slotBytes);

  /// Bytes that this rank has sent to `peer`, by kind of link.
  struct Traffic {
    uint64_t byDevice = 0;
    uint64_t throughHost = 0;
  };
  Traffic sentTo(int peer) const;

  /// Device memory of at least `bytes`, the same for all plans: calls follow one another.  Never freed before the
  /// communicator, because graphs may have captured its address.
  Result<std::byte*> scratch(size_t bytes) { return grow(&memory_->scratch, bytes); }
  /// The same for scaled input.
  Result<std::byte*> workspace(size_t bytes) { return grow(&memory_->workspace, bytes); }

  /// Whether all that has been enqueued by calls outside of captures has ended.
  bool idle() const;
  /// After a failure: have streams leave every wait for other ranks.  True once idle; false if they are still busy
  /// then, with what the program has enqueued before, or behind streams of other ranks.
  bool letGo(int mostMs = kLetGoMs);
  /// The same for what the proxy's job has enqueued, by the job, which then lets the program's streams go.
  bool letGoOfJob();
  /// The same, for as long as it takes, by a thread of its own, which then frees `executor`.  Not idle; its
  /// communicator's links and control plane may go after this.
  static void letGoLater(std::unique_ptr<CudaExecutor> executor);

 private:
  CudaExecutor(std::shared_ptr<cuda::CudaDevice> device, std::shared_ptr<const CudaKernels> kernels, int rank,
               uint32_t slots)
      : device_(std::move(device)),
        kernels_(kernels),
        rank_(rank),
        slots_(slots),
        ops_(device_),
        worker_(std::move(kernels), &ops_) {}
  Status makeWords(int nRanks);
  Status tryWords();
  Result<bool> beginReading(const PeerDescriptor& peer);
  Status awaitReading(const PeerDescriptor& peer, Deadline deadline);
  Result<std::byte*> grow(std::vector<cuda::DeviceMemory>* memory, size_t bytes);
  Status use(const std::string& uuid);
  Status open(const PeerDescriptor& owner, const std::string& offered, Deadline deadline);
  int placeOf(int peer) const;
  Result<Endpoint*> stagedEndpoint(Links& links, int peer, int lane);
  Result<Endpoint*> streamEndpoint(Links& links, int peer, int lane, size_t slotBytes);
  void fillReserve();
  bool letGoWhile(const std::function<bool()>& busy, int mostMs);
  Status openLaunchLines(int rank, const std::vector<PeerDescriptor>& descriptors, Links& links, Deadline deadline);
  Result<std::shared_ptr<ResidentProgram>> programRoom(size_t bytes);
  Status upload(const std::vector<std::byte>& bytes, const cuda::DeviceMemory& to);
  cuda::Address gate() const;
  cuda::Address replayed() const;

  std::shared_ptr<cuda::CudaDevice> device_;
  std::shared_ptr<const CudaKernels> kernels_;
  int rank_;
  uint32_t slots_;
  cuda::StreamOps ops_;
  StreamWorker worker_;
  cuda::EventHandle fork_, join_, done_;
  cuda::Stream rescue_ = nullptr;
  std::unique_ptr<CudaProxy> proxy_;
  DeviceReach reach_;             // the peers that this rank's streams meet
  int lanes_ = kMostCudaLanes;    // of endpoints to those
  std::optional<uint64_t> last_;  // number of the stream of the last call outside of captures
  std::vector<std::shared_ptr<cuda::CudaDevice>> peers_;
  FdExchange* services_ = nullptr;          // once others can open memory of this rank's
  std::shared_ptr<cuda::Readers> readers_;  // of that
  ResidentEnds ends_;
  LaunchPlace place_;
  std::unique_ptr<OnePassRun> onePass_;
  /// What streams may use.
  struct Memory {
    std::map<int, PendingFd> readingBegun;             // by peer of another process: what reading takes, on its way
    std::map<int, cuda::Reading> reading;              // by peer of another process; until all of its memory is closed
    std::shared_ptr<cuda::OfferedMemory> words;        // of all endpoints
    std::vector<cuda::IpcMemory> tried;                // of tryIpc() and openSlots(); stays open for endpoints
    std::shared_ptr<const cuda::OfferedMemory> slots;  // of makeSlots()
    std::unique_ptr<cuda::MemoryExchange> exchange;    // null where bytes pass through host memory
    std::map<std::pair<int, int>, std::unique_ptr<cuda::StreamEndpoint>> endpoints;
    cuda::PinnedReserve reserve;  // for these:
    std::map<std::pair<int, int>, std::unique_ptr<cuda::StagedEndpoint>> staged;
    std::shared_ptr<cuda::ResidentMemory> resident;
    std::vector<std::unique_ptr<cuda::PeerResident>> peers;
    std::vector<std::shared_ptr<ResidentProgram>> programs;
    std::vector<cuda::DeviceMemory> scratch, workspace;  // the last is the one in use
  };
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

/// The device's context is current while this lives, if there is a device.
class DeviceScope {
 public:
  explicit DeviceScope(const CudaExecutor* executor) {
    if (executor != nullptr) scope_.emplace(executor->device());
  }

 private:
  std::optional<cuda::CudaScope> scope_;
};

}  // namespace tutti

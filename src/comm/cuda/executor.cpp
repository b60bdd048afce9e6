#include "src/comm/cuda/executor.hpp"

#include <algorithm>

#include "src/base/log.hpp"
#include "src/base/threads.hpp"
#include "src/comm/cuda/stream_batch.hpp"

namespace tutti {
namespace {

// As kLetGoMs, for the end of a communicator; what takes longer is waited for aside.
constexpr int kLeaveMs = 200;

cuda::Stream onDevice(tuttiStream_t stream) { return reinterpret_cast<cuda::Stream>(stream); }

/// Blocks of kernels that a rank may have on its device; 0: any number.
int blocksOfRank(const CommSettings& settings) {
  if (settings.nChannels > 0) return settings.nChannels;
  return settings.maxChannels < CommSettings().maxChannels ? settings.maxChannels : 0;
}

uint64_t keyOf(void* handle) { return reinterpret_cast<uintptr_t>(handle); }

}  // namespace

CudaExecutor::CudaExecutor(Comm& comm, std::shared_ptr<cuda::CudaDevice> device,
                           std::shared_ptr<const CudaKernels> kernels, int rank, uint32_t slots)
    : Executor(MemoryKind::Device),
      comm_(comm),
      device_(std::move(device)),
      kernels_(std::move(kernels)),
      slots_(slots),
      ops_(device_),
      worker_(kernels_, &ops_),
      order_(device_),
      parts_(std::make_shared<Parts>(ops_, rank, slots)) {}

Result<std::unique_ptr<Executor>> CudaExecutor::create(Comm& comm, int nRanks, uint32_t slots,
                                                       PeerDescriptor* descriptor) {
  TUTTI_ASSIGN(std::shared_ptr<cuda::CudaDevice> device, cuda::CudaDevice::open(comm.settings().cudaDevice));
  TUTTI_ASSIGN(std::shared_ptr<const CudaKernels> kernels, CudaKernels::load(device));
  std::unique_ptr<CudaExecutor> executor(
      new CudaExecutor(comm, device, std::move(kernels), descriptor->info.rank, slots));
  TUTTI_TRY(executor->order_.create());
  const cuda::CudaScope scope(*device);
  // This stream lets others go.  Streams of one priority share the device's queues, so it has a priority of its own.
  TUTTI_ASSIGN(executor->rescue_, device->urgentStream());
  TUTTI_TRY(executor->parts_->lending.create());
  TUTTI_TRY(executor->parts_->endpoints.makeWords(nRanks, executor->rescue_));
  TUTTI_TRY(executor->tryWords());
  executor->describe(descriptor);
  return std::unique_ptr<Executor>(std::move(executor));
}

// Ranks would find out in their first call otherwise, and each its own way.
Status CudaExecutor::tryWords() {
  const cuda::Driver& driver = device_->driver();
  const cuda::Address gate = parts_->endpoints.gate();
  cuda::WordOperation both[] = {{cuda::kOperationWrite, gate, 0}, {cuda::kOperationWait, gate, 0, cuda::kWaitEqual}};
  const cuda::Error error = driver.cuStreamBatchMemOp(rescue_, std::size(both), both, 0);
  (void)driver.cuStreamSynchronize(rescue_);  // what has been enqueued is through before the words may go
  if (error == cuda::kErrorNotSupported) {
    return invalidUsage(ErrorCode::ExecutorImpossible, "streams of CUDA device ", device_->ordinal(),
                        " cannot wait for words in memory (cuStreamBatchMemOp is not supported), and so not for other "
                        "ranks");
  }
  return cuda::check(driver, error, "cuStreamBatchMemOp");
}

void CudaExecutor::describe(PeerDescriptor* descriptor) const {
  descriptor->device = device_->uuid();
  descriptor->busId = device_->busId();
  descriptor->deviceBlocks = kernels_->mostWalkBlocks();
  descriptor->computeCapability = static_cast<uint32_t>(device_->computeCapability());
  descriptor->memoryMBps = static_cast<uint32_t>(device_->memoryGBps() * 1e3);
  parts_->endpoints.describe(descriptor);
}

std::shared_ptr<const AdapterAccess> CudaExecutor::adapterAccess() const {
  return std::make_shared<cuda::CudaAdapterAccess>(device_);
}

CudaExecutor::~CudaExecutor() {
  parts_->lending.stop();
  const std::shared_ptr<DeviceGates> gates = proxy_ != nullptr ? proxy_->gates() : nullptr;
  proxy_.reset();
  const cuda::CudaScope scope(*device_);
  if (parts_->lending.readers() != nullptr) parts_->lending.readers()->end(cuda::MemoryEnd::Failed);
  auto free = [device = device_, parts = std::move(parts_)]() mutable {
    const cuda::CudaScope current(*device);
    parts.reset();
    cuda::OfferedMemory::sweep();
  };
  if (gates != nullptr) {
    gates->run(std::move(free));
  } else {
    free();
  }
  if (rescue_ != nullptr) device_->driver().cuStreamDestroy(rescue_);
}

// What streams use has to stay until the program's own work before it is done, which may take any time.
void CudaExecutor::retire(std::unique_ptr<Executor> self) {
  if (proxy_ != nullptr) proxy_->queue()->endLingering();
  parts_->endpoints.leaveAdapters();
  if (letGo(kLeaveMs)) return;
  parts_->lending.retire();
  proxy_.reset();
  const auto finish = [this] {
    while (!letGo(kLetGoMs)) continue;
    delete this;
  };
  (void)self.release();
  Result<std::thread> waiting = startThread("the streams of an aborted communicator", finish);
  if (waiting.ok()) {
    waiting->detach();
  } else {
    TUTTI_WARN("cuda", "memory of an aborted communicator is never freed: ", waiting.status().text());
  }
}

// Handles may be given and yet not be taken: in containers, say.
Result<Refusals> CudaExecutor::tryReach(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors) {
  MemoryLending& lending = parts_->lending;
  TUTTI_TRY(lending.serve(comm_.control()));
  Refusals refusals;
  if (asksForProxy()) return refusals;
  const Deadline deadline = comm_.deadline();
  for (const int rank : processesToTry(reach, descriptors, comm_.rank())) {
    const PeerDescriptor& descriptor = descriptors[static_cast<size_t>(rank)];
    const Status opened = lending.open(descriptor, descriptor.ipcProbe, deadline);
    if (!opened.ok()) refusals.emplace_back(rank, opened.message());
  }
  return refusals;
}

Status CudaExecutor::meet(const std::vector<PeerDescriptor>& descriptors, PeerDescriptor* addresses) {
  const RankLayout& layout = comm_.layout();
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(comm_.rank())];
  DeviceEndpoints& endpoints = parts_->endpoints;
  TUTTI_TRY(endpoints.meet(layout.reach, descriptors));
  if (layout.executor == ExecutorKind::Proxy) {
    const auto sharers =
        std::ranges::count_if(descriptors, [&](const auto& other) { return shareDevice(other, mine); });
    TUTTI_ASSIGN(proxy_, CudaProxy::create(ops_, endpoints.gate(), endpoints.replayed(), sharers > 1));
    if (!endpoints.reachesAny()) closePeers();  // what was tried
    endpoints.makeAdapterSlots(comm_.links(), descriptors, layout.sliceBytes);
  }
  if (layout.executor == ExecutorKind::Resident) {
    parts_->kernels = std::make_unique<ResidentExecutor>(ops_, *kernels_, worker_, parts_->lending);
    TUTTI_TRY(parts_->kernels->makeEnds(comm_.nRanks(), layout, slots_, addresses));
  }
  return layout.mixesEdges() ? endpoints.makeSlots(layout.deviceLanes, layout.sliceBytes, addresses) : Status();
}

Result<std::function<bool()>> CudaExecutor::open() {
  const RankLayout& layout = comm_.layout();
  Links& links = comm_.links();
  ResidentExecutor* const kernels = parts_->kernels.get();
  if (kernels != nullptr) {
    TUTTI_TRY(kernels->openEnds(comm_.rank(), links, blocksOfRank(comm_.settings()), comm_.deadline()));
    comm_.watchdog().abortState().onEnd([memory = kernels->memory()] { memory->leave(); });
  }
  if (layout.mixesEdges()) TUTTI_TRY(parts_->endpoints.openSlots(links.descriptors(), comm_.deadline()));
  if (proxy_ != nullptr) post();
  if (proxy_ != nullptr) proxy_->queue()->linger([this] { return goOnSending(); });
  if (proxy_ == nullptr) parts_->lending.lendOver([this] { return settle(); });
  return kernels != nullptr ? kernels->launchWatch() : std::function<bool()>();
}

/// What calls have sent and some transports have yet to do; false: all has left.
bool CudaExecutor::goOnSending() {
  constexpr int kLooks = 64;  // before the thread pauses
  for (int look = 0; look < kLooks; ++look) {
    if (parts_->endpoints.hasLeft()) return false;
    comm_.links().progress();
  }
  return true;
}

/// What adapters know they send from where it lies.
void CudaExecutor::post() {
  const int nRanks = comm_.nRanks();
  for (int peer = 0; peer < nRanks; ++peer) {
    const LinkProfile& link = comm_.links().linkTo(peer);
    const bool byAdapter = link.registers && link.puts && link.memory.has(MemoryKind::Device);
    const bool posts = byAdapter && !comm_.layout().reach.joins(comm_.rank(), peer);
    postings_.push_back(posts ? Posting::Direct : Posting::Nothing);
  }
  if (std::ranges::count(postings_, Posting::Nothing) == nRanks) postings_.clear();
}

Result<Endpoint*> CudaExecutor::endpoint(int peer, int lane) {
  return parts_->endpoints.endpoint(comm_.links(), peer, lane, comm_.layout().sliceBytes);
}

// The same for all plans: calls follow one another.
ScratchLender CudaExecutor::scratch() {
  return [this](size_t bytes) { return grow(&parts_->scratch, bytes); };
}

Result<std::byte*> CudaExecutor::workspace(size_t bytes) { return grow(&parts_->workspace, bytes); }

// Never freed before the communicator, because graphs may have captured its address.
Result<std::byte*> CudaExecutor::grow(std::vector<cuda::DeviceMemory>* memory, size_t bytes) {
  if (bytes == 0) return static_cast<std::byte*>(nullptr);
  if (memory->empty() || memory->back().bytes() < bytes) {
    const size_t before = memory->empty() ? 0 : memory->back().bytes();
    const size_t wanted = std::max(bytes, 2 * before);
    // A proxy's work is on its own stream, and streams of the program wait for it meanwhile.
    TUTTI_ASSIGN(cuda::DeviceMemory more, proxy_ != nullptr
                                              ? cuda::DeviceMemory::allocateOn(proxy_->stream(), device_, wanted)
                                              : cuda::DeviceMemory::allocate(device_, wanted));
    memory->push_back(std::move(more));
  }
  return memory->back().data();
}

Status CudaExecutor::equip(PlanEntry* entry, bool resident) {
  entry->plan->worker = &worker_;
  if (resident) {
    TUTTI_ASSIGN(entry->resident, parts_->kernels->runOf(*entry->plan, order_.idle(), rescue_));
  } else {
    entry->run = std::make_unique<CollectiveRun>(*entry->plan);
  }
  return {};
}

std::unique_ptr<Batch> CudaExecutor::newBatch() { return std::make_unique<StreamBatch>(comm_, *this); }

// Calls meet those of other ranks on the host before they are in the stream, so a non-blocking communicator has a
// thread for that.  A capture, and a stream that only means something on the caller's thread, keep to that thread.
Carrier CudaExecutor::carrier(tuttiStream_t stream, HostStream* own) const {
  if (proxy_ != nullptr) return {.proxy = proxy_->queue()};
  if (own == nullptr || onDevice(stream) == cuda::kStreamPerThread) return {};
  const cuda::CudaScope scope(*device_);
  return {.thread = order_.capturing(onDevice(stream)) ? nullptr : own};
}

uint64_t CudaExecutor::captureOf(tuttiStream_t stream) const { return captureOf(onDevice(stream)); }

uint64_t CudaExecutor::captureOf(cuda::Stream stream) const {
  const cuda::CudaScope scope(*device_);
  return order_.captureOf(stream);
}

Status CudaExecutor::checkStream(tuttiStream_t stream) const {
  const cuda::CudaScope scope(*device_);
  return order_.check(onDevice(stream));
}

Status CudaExecutor::checkMemory(const void* memory, const char* name) const {
  const cuda::CudaScope scope(*device_);
  return device_->checkUsable(memory, name);
}

ResidentExecutor* CudaExecutor::kernelsFor(cuda::Stream stream) const {
  ResidentExecutor* const kernels = parts_->kernels.get();
  return kernels != nullptr && kernels->sharesLaunch() && order_.capturing(stream) ? nullptr : kernels;
}

Status CudaExecutor::begin(std::span<const cuda::Stream> streams) {
  const cuda::Stream main = streams.front();
  if (proxy_ == nullptr) ops_.use(main, order_.capturing(main));
  cuda::MemoryExchange* const exchange = parts_->lending.exchange();
  if (exchange != nullptr && exchange->hasEnded() && order_.idle()) exchange->closeEnded();
  return order_.begin(streams);
}

Result<CudaProxy::Submitted> CudaExecutor::submit(std::span<const cuda::Stream> streams) {
  const cuda::CudaScope scope(*device_);
  parts_->endpoints.fillReserve(proxy_->gates().get());
  TUTTI_TRY(begin(streams));
  TUTTI_ASSIGN(CudaProxy::Submitted job, proxy_->submit(streams.front()));
  Status status = end(streams);
  if (status.ok()) return job;
  proxy_->endJob(job);
  return status;
}

Status CudaExecutor::capture(std::span<const cuda::Stream> streams, CudaProxy::MakeJob makeJob) {
  const cuda::CudaScope scope(*device_);
  parts_->endpoints.fillReserve(proxy_->gates().get());
  TUTTI_TRY(begin(streams));
  TUTTI_TRY(proxy_->capture(streams.front(), std::move(makeJob)));
  return end(streams);
}

Status CudaExecutor::lend(void* handle, const void* buffer, size_t bytes) {
  if (bytes == 0) return {};
  TUTTI_TRY(checkMemory(buffer, "buff"));
  return parts_->lending.lend(keyOf(handle), buffer, bytes);
}

Status CudaExecutor::endLending(void* handle) {
  // With a proxy nothing is lent, and a turn may come only after any amount of a stream's work.
  if (proxy_ != nullptr) return {};
  CallOrder& order = comm_.callOrder();
  const uint64_t ticket = order.take();
  order.await(ticket);
  const Status ended = endLendingNow(keyOf(handle));
  order.finish(ticket);
  TUTTI_TRY(ended);
  const auto failed = [this] { return comm_.watchdog().aborting(); };
  return parts_->lending.awaitReaders(keyOf(handle), comm_.deadline(), failed);
}

// A call's streams have waited for all who read what it lent, so where nothing of this rank's is under way nobody does.
Status CudaExecutor::endLendingNow(uint64_t key) {
  const bool failed = comm_.watchdog().aborting();
  if (!order_.idle() && !(failed && letGo(kLetGoMs))) {
    return invalidUsage(
        ErrorCode::StillInUse,
        "calls that may use the registered memory are still under way; synchronize their streams first");
  }
  parts_->lending.end(key, failed);
  return {};
}

/// By the thread that closes memory which peers call back after a failure, whose news may be under way still.
bool CudaExecutor::settle() {
  const Watchdog& watchdog = comm_.watchdog();
  for (const Deadline news = Deadline::inMs(kReadersAfterFailureMs); !watchdog.aborting() && !news.passed();) {
    cuda::pauseBetweenLooks();
  }
  CallOrder& order = comm_.callOrder();
  const uint64_t ticket = order.take();
  order.await(ticket);
  const bool quiet = watchdog.aborting() ? letGo(kLetGoMs) : order_.idle();
  order.finish(ticket);
  return quiet;
}

// What this rank has enqueued may wait for others, and what others have enqueued may write here.
Status CudaExecutor::finalize() {
  if (proxy_ != nullptr) TUTTI_TRY(proxy_->queue()->synchronize());
  while (!order_.idle()) {
    TUTTI_TRY(comm_.failure());
    cuda::pauseBetweenLooks();
  }
  closePeers();
  return {};
}

void CudaExecutor::closePeers() {
  parts_->endpoints.closePeers();
  if (parts_->kernels != nullptr) parts_->kernels->closePeers();
  parts_->lending.closePeers();
}

void CudaExecutor::letGoOf(std::span<const cuda::Stream> streams) {
  (void)end(streams);
  (void)letGo(kLetGoMs);
}

/// After a failure: has streams leave every wait for other ranks.  True once idle; false if they are still busy then,
/// with what the program has enqueued before, or behind streams of other ranks.
bool CudaExecutor::letGo(int mostMs) {
  const cuda::CudaScope scope(*device_);
  if (parts_->kernels != nullptr && !order_.idle()) parts_->kernels->leave();
  for (const Deadline last = Deadline::inMs(mostMs);; cuda::pauseBetweenLooks()) {
    const bool busy = !order_.idle() || (proxy_ != nullptr && proxy_->busy());
    if (const std::optional<bool> gone = tryLetGo(busy, last)) return *gone;
  }
}

bool CudaExecutor::letGoOfJob(Deadline last) { return tryLetGo(proxy_->busy(), last).has_value(); }

/// Whether streams have left; none: not yet.  What lets them go is written by a stream, too, and has to be through
/// before the memory may go.
std::optional<bool> CudaExecutor::tryLetGo(bool busy, Deadline last) {
  const cuda::CudaScope scope(*device_);
  const bool writing = device_->driver().cuStreamQuery(rescue_) == cuda::kErrorNotReady;
  if (!busy && !writing) return true;
  if (last.passed()) return false;
  // Not while they do, or writes would pile up, and take their time when nobody waits any more.
  if (busy && !writing) parts_->endpoints.letGo(rescue_);
  return std::nullopt;
}

}  // namespace tutti

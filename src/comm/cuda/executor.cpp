#include "src/comm/cuda/executor.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "src/base/log.hpp"
#include "src/cost/device_costs.hpp"

namespace tutti {
namespace {

// The host endpoint that carries credits for a lane.  Lanes of collectives are below kMostCudaLanes.
int creditLane(int lane) { return lane == kPointToPointLane ? kMostCudaLanes : kMostCudaLanes + 1 + lane; }
static_assert(kMostCudaLanes + 1 + (kMostCudaLanes - 1) < kLaunchLane && kLaunchLane < kPointToPointLane);

constexpr const char* kReadersKey = "device readers";

}  // namespace

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(cuda::Device ordinal, int rank, int nRanks, uint32_t slots) {
  TUTTI_ASSIGN(std::shared_ptr<cuda::CudaDevice> device, cuda::CudaDevice::open(ordinal));
  TUTTI_ASSIGN(std::shared_ptr<const CudaKernels> kernels, CudaKernels::load(device));
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(device, std::move(kernels), rank, slots));
  for (cuda::EventHandle* event : {&executor->fork_, &executor->join_, &executor->done_})
    TUTTI_TRY(event->create(device));
  const cuda::CudaScope scope(*device);
  // This stream lets others go.  Streams of one priority share the device's queues, so it has a priority of its own.
  TUTTI_ASSIGN(executor->rescue_, device->urgentStream());
  TUTTI_TRY(executor->makeWords(nRanks));
  TUTTI_TRY(executor->tryWords());
  return executor;
}

// Ranks would find out in their first call otherwise, and each its own way.
Status CudaExecutor::tryWords() {
  const cuda::Driver& driver = device_->driver();
  cuda::WordOperation both[] = {{cuda::kOperationWrite, gate(), 0},
                                {cuda::kOperationWait, gate(), 0, cuda::kWaitEqual}};
  const cuda::Error error = driver.cuStreamBatchMemOp(rescue_, std::size(both), both, 0);
  (void)driver.cuStreamSynchronize(rescue_);  // what has been enqueued is through before the words may go
  if (error == cuda::kErrorNotSupported) {
    return invalidUsage("streams of CUDA device ", device_->ordinal(),
                        " cannot wait for words in memory (cuStreamBatchMemOp is not supported), and so not for other "
                        "ranks");
  }
  return cuda::check(driver, error, "cuStreamBatchMemOp");
}

Status CudaExecutor::makeWords(int nRanks) {
  const size_t endpoints = static_cast<size_t>(nRanks) * (kMostCudaLanes + 1);
  const size_t bytes = endpoints * cuda::InboxLayout{slots_, 0}.wordBytes() + 2 * cuda::InboxLayout::kWordStride;
  cuda::OfferedMemory::sweep();
  TUTTI_ASSIGN(readers_, cuda::Readers::create());
  // Where only proxies will be, no other process opens them, and streams may wait for proxies already: those of ranks
  // that share the device, and are in a call that this one has yet to come to.
  TUTTI_ASSIGN(cuda::OfferedMemory words, asksForProxy() ? cuda::OfferedMemory::allocateOn(rescue_, device_, bytes)
                                                         : cuda::OfferedMemory::allocate(device_, bytes, readers_));
  TUTTI_CUDA(device_->driver(), cuStreamSynchronize(rescue_));  // nothing else is on it yet
  TUTTI_TRY(words.zero());
  memory_->words = std::make_shared<cuda::OfferedMemory>(std::move(words));
  return {};
}

CudaExecutor::~CudaExecutor() {
  if (memory_ != nullptr && memory_->exchange != nullptr) memory_->exchange->stop();
  const std::shared_ptr<DeviceGates> gates = proxy_ != nullptr ? proxy_->gates() : nullptr;
  proxy_.reset();
  const cuda::CudaScope scope(*device_);
  if (readers_ != nullptr) readers_->end(cuda::MemoryEnd::Failed);
  auto free = [device = device_, memory = std::move(memory_)]() mutable {
    const cuda::CudaScope current(*device);
    memory.reset();
    cuda::OfferedMemory::sweep();
  };
  if (gates != nullptr) {
    gates->run(std::move(free));
  } else {
    free();
  }
  if (rescue_ != nullptr) device_->driver().cuStreamDestroy(rescue_);
}

bool CudaExecutor::capturing(cuda::Stream stream) const {
  int status = cuda::kCaptureNone;
  return device_->driver().cuStreamIsCapturing(stream, &status) == cuda::kSuccess && status != cuda::kCaptureNone;
}

uint64_t CudaExecutor::captureOf(cuda::Stream stream) const {
  int status = cuda::kCaptureNone;
  uint64_t capture = 0;
  const cuda::Error error = device_->driver().cuStreamGetCaptureInfo(stream, &status, &capture);
  return error == cuda::kSuccess && status == cuda::kCaptureActive ? capture : 0;
}

// Found out later, it would break the communicator, and a capture.
Status CudaExecutor::checkStream(cuda::Stream stream) const {
  const cuda::Driver& driver = device_->driver();
  int capture = cuda::kCaptureNone;
  const cuda::Error error = driver.cuStreamIsCapturing(stream, &capture);
  if (error == cuda::kErrorCaptureImplicit) {
    return invalidUsage(
        "stream is the legacy default stream, on which nothing can be enqueued while a stream that is not "
        "cudaStreamNonBlocking is being captured");
  }
  if (error == cuda::kErrorInvalidHandle) {
    return invalidArgument("stream is none of CUDA's, or has been destroyed");
  }
  TUTTI_TRY(cuda::check(driver, error, "cuStreamIsCapturing"));
  if (capture == cuda::kCaptureInvalidated) {
    return invalidUsage("the capture of stream has been invalidated, by this thread or another; end it first");
  }
  if (stream == nullptr || stream == cuda::kStreamLegacy || stream == cuda::kStreamPerThread) return {};
  cuda::Context context = nullptr;
  TUTTI_CUDA(driver, cuStreamGetCtx(stream, &context));
  if (context == device_->context()) return {};
  return invalidArgument(
      "stream is of another device or context; this communicator is on the primary context of CUDA device ",
      device_->ordinal());
}

// Handles do not tell streams apart: a new stream may have that of one that has been destroyed, and each thread has a
// default stream of its own by one and the same handle.
Result<uint64_t> CudaExecutor::numberOf(cuda::Stream stream) const {
  unsigned long long number = 0;
  TUTTI_CUDA(device_->driver(), cuStreamGetId(stream, &number));
  return uint64_t{number};
}

// A capture sees only itself: what came before it is its launcher's to order.
Status CudaExecutor::begin(std::span<const cuda::Stream> streams) {
  const cuda::Driver& driver = device_->driver();
  const cuda::Stream main = streams.front();
  if (proxy_ == nullptr) ops_.use(main, capturing(main));
  if (memory_->exchange != nullptr && memory_->exchange->hasEnded() && idle()) memory_->exchange->closeEnded();
  for (const cuda::Stream other : streams.subspan(1)) {
    TUTTI_CUDA(driver, cuEventRecord(fork_.get(), other));
    TUTTI_CUDA(driver, cuStreamWaitEvent(main, fork_.get(), 0));
  }
  if (!last_ || capturing(main)) return {};
  TUTTI_ASSIGN(const uint64_t number, numberOf(main));
  if (*last_ != number) TUTTI_CUDA(driver, cuStreamWaitEvent(main, done_.get(), 0));
  return {};
}

Status CudaExecutor::end(std::span<const cuda::Stream> streams) {
  const cuda::Driver& driver = device_->driver();
  const cuda::Stream main = streams.front();
  if (!capturing(main)) {
    TUTTI_CUDA(driver, cuEventRecord(done_.get(), main));
    TUTTI_ASSIGN(last_, numberOf(main));
  }
  if (streams.size() > 1) TUTTI_CUDA(driver, cuEventRecord(join_.get(), main));
  for (const cuda::Stream other : streams.subspan(1)) TUTTI_CUDA(driver, cuStreamWaitEvent(other, join_.get(), 0));
  return {};
}

// The words after those of all endpoints: the number of the last job that has ended, and whether one of a graph has.
cuda::Address CudaExecutor::gate() const { return replayed() - cuda::InboxLayout::kWordStride; }
cuda::Address CudaExecutor::replayed() const {
  return memory_->words->address() + memory_->words->bytes() - cuda::InboxLayout::kWordStride;
}

Result<CudaProxy::Submitted> CudaExecutor::submit(std::span<const cuda::Stream> streams) {
  const cuda::CudaScope scope(*device_);
  fillReserve();
  TUTTI_TRY(begin(streams));
  TUTTI_ASSIGN(CudaProxy::Submitted job, proxy_->submit(streams.front()));
  Status status = end(streams);
  if (status.ok()) return job;
  proxy_->endJob(job);
  return status;
}

Status CudaExecutor::capture(std::span<const cuda::Stream> streams, std::function<bool()> job) {
  const cuda::CudaScope scope(*device_);
  fillReserve();
  TUTTI_TRY(begin(streams));
  TUTTI_TRY(proxy_->capture(streams.front(), std::move(job)));
  return end(streams);
}

// Without other ranks on the device nothing that is waited for needs this thread.
void CudaExecutor::fillReserve() {
  if (proxy_->gates() == nullptr) return memory_->reserve.fill(device_);
  if (memory_->reserve.wants()) proxy_->gates()->tryRun([this] { memory_->reserve.fill(device_); });
}

int lanesOfMixedEdges(const DeviceReach& reach, size_t slotBytes, uint32_t slots) {
  constexpr int kLeastLanes = 2;
  const size_t laneBytes = static_cast<size_t>(reach.mostPeers() + 1) * slots * slotBytes;
  const int lanes = static_cast<int>(std::min<size_t>(kMostCudaLanes + 1, kMostEndBytes / laneBytes)) - 1;
  return std::clamp(lanes, kLeastLanes, kMostCudaLanes);
}

/// How many of the ranks that this one reaches, of which it is one, come before `peer`.
int CudaExecutor::placeOf(int peer) const {
  int place = 0;
  for (int other = 0; other < peer; ++other) place += reach_.joins(rank_, other) ? 1 : 0;
  return place;
}

Result<Endpoint*> CudaExecutor::endpoint(Links& links, int peer, int lane, size_t slotBytes) {
  return reach_.joins(rank_, peer) ? streamEndpoint(links, peer, lane, slotBytes) : stagedEndpoint(links, peer, lane);
}

Result<Endpoint*> CudaExecutor::stagedEndpoint(Links& links, int peer, int lane) {
  std::unique_ptr<cuda::StagedEndpoint>& known = memory_->staged[{peer, lane}];
  if (known == nullptr) {
    TUTTI_ASSIGN(Endpoint * host, links.endpoint(peer, lane));
    if (host == nullptr) return host;
    using Staging = cuda::StagedEndpoint::Staging;
    const Staging staging = links.linkTo(peer).memory.has(MemoryKind::Device) ? Staging::None : Staging::Pinned;
    known = std::make_unique<cuda::StagedEndpoint>(ops_, host, &memory_->reserve, staging);
  }
  return static_cast<Endpoint*>(known.get());
}

Result<Endpoint*> CudaExecutor::streamEndpoint(Links& links, int peer, int lane, size_t slotBytes) {
  std::unique_ptr<cuda::StreamEndpoint>& known = memory_->endpoints[{peer, lane}];
  if (known != nullptr) return static_cast<Endpoint*>(known.get());
  cuda::HostPair hosts;
  TUTTI_ASSIGN(hosts.tokens, links.endpoint(peer, lane));
  TUTTI_ASSIGN(hosts.credits, links.endpoint(peer, creditLane(lane)));
  const PeerDescriptor& descriptor = links.descriptors()[static_cast<size_t>(peer)];
  TUTTI_ASSIGN(const bool reading, beginReading(descriptor));
  if (!reading || hosts.tokens == nullptr || hosts.credits == nullptr) return static_cast<Endpoint*>(nullptr);
  const cuda::InboxLayout layout{slots_, slotBytes};
  const auto number = [](int place, int lanes, int of) {
    return static_cast<size_t>(place * (lanes + 1) + std::min(of, lanes));
  };
  const cuda::InboxRoom words{memory_->words, number(peer, kMostCudaLanes, lane) * layout.wordBytes()};
  cuda::InboxRoom slots{memory_->slots, 0};
  if (slots.memory != nullptr) slots.offset = number(placeOf(peer), lanes_, lane) * layout.slotBytesOfAll();
  const bool here = shareDevice(descriptor, links.descriptors()[static_cast<size_t>(rank_)]);
  const cuda::Lending lending{memory_->exchange.get(), peer, descriptor.info.processId, here};
  TUTTI_ASSIGN(known, cuda::StreamEndpoint::create(ops_, hosts, lending, layout, words, slots, processIdentity()));
  return static_cast<Endpoint*>(known.get());
}

CudaExecutor::Traffic CudaExecutor::sentTo(int peer) const {
  Traffic sent;
  for (const auto& [key, endpoint] : memory_->endpoints) sent.byDevice += key.first == peer ? endpoint->sentBytes() : 0;
  for (const auto& [key, endpoint] : memory_->staged) sent.throughHost += key.first == peer ? endpoint->sentBytes() : 0;
  return sent;
}

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

Status CudaExecutor::serveReaders(FdExchange& services) {
  TUTTI_TRY(services.serve(kReadersKey, readers_->descriptor()));
  services_ = &services;
  return {};
}

/// Before memory of the peer is opened: has its owner see that.  False: not yet.
Result<bool> CudaExecutor::beginReading(const PeerDescriptor& peer) {
  if (peer.info.processId == processIdentity() || memory_->reading.contains(peer.info.rank)) return true;
  PendingFd& readingBegun = memory_->readingBegun[peer.info.rank];
  if (readingBegun == nullptr) readingBegun = services_->fetch(peer.info.rank, kReadersKey);
  TUTTI_ASSIGN(Fd descriptor, readingBegun->poll());
  if (!descriptor.valid()) return false;
  memory_->readingBegun.erase(peer.info.rank);
  TUTTI_ASSIGN(cuda::Reading reading, cuda::Reading::of(std::move(descriptor)));
  TUTTI_TRY(reading.begin(rank_));
  memory_->reading.emplace(peer.info.rank, std::move(reading));
  return true;
}

Status CudaExecutor::awaitReading(const PeerDescriptor& peer, Deadline deadline) {
  const std::string what = cat("device memory of rank ", peer.info.rank);
  return asStatus(awaitValue([&] { return beginReading(peer); }, deadline, what));
}

void CudaExecutor::closePeers() {
  if (memory_->exchange != nullptr) memory_->exchange->closeAll();
  for (const auto& [key, endpoint] : memory_->endpoints) endpoint->closePeer();
  for (const auto& peer : memory_->peers) peer->close();
  memory_->tried.clear();
  memory_->reading.clear();
}

void CudaExecutor::lendOver(std::function<bool()> settle) {
  if (proxy_ != nullptr) return;
  memory_->exchange = std::make_unique<cuda::MemoryExchange>(
      device_, cuda::ExchangeRank{*services_, rank_, processIdentity(), std::move(settle)});
}

Status CudaExecutor::lend(uint64_t key, const void* buffer, size_t bytes) {
  if (bytes == 0) return {};
  {
    const cuda::CudaScope scope(*device_);
    TUTTI_TRY(device_->checkUsable(buffer, "buff"));
  }
  return memory_->exchange == nullptr ? Status() : asStatus(memory_->exchange->lend(key, buffer, bytes));
}

// A call's streams have waited for all who read what it lent, so where nothing of this rank's is under way nobody does.
Status CudaExecutor::endLending(uint64_t key, bool failed) {
  if (memory_->exchange == nullptr) return {};
  if (!idle() && !(failed && letGo())) {
    return invalidUsage(
        "calls that may use the registered memory are still under way; synchronize their streams first");
  }
  memory_->exchange->end(key, failed ? cuda::MemoryEnd::Failed : cuda::MemoryEnd::Idle);
  memory_->exchange->closeEnded();
  return {};
}

std::optional<int> CudaExecutor::reader(uint64_t key) {
  return memory_->exchange == nullptr ? std::nullopt : memory_->exchange->reader(key);
}

bool CudaExecutor::idle() const {
  if (!last_) return true;
  const cuda::CudaScope scope(*device_);
  return device_->driver().cuEventQuery(done_.get()) != cuda::kErrorNotReady;
}

// What lets streams go is written by a stream, too, and has to be through before the memory may go.
bool CudaExecutor::letGo(int mostMs) {
  const cuda::CudaScope scope(*device_);
  if (memory_->resident != nullptr && !idle()) memory_->resident->leave();
  return letGoWhile([this] { return !idle() || (proxy_ != nullptr && proxy_->busy()); }, mostMs);
}

bool CudaExecutor::letGoOfJob() {
  return letGoWhile([this] { return proxy_->busy(); }, kLetGoMs);
}

bool CudaExecutor::letGoWhile(const std::function<bool()>& busy, int mostMs) {
  const cuda::CudaScope scope(*device_);
  const Deadline end = Deadline::inMs(mostMs);
  const auto writing = [&] { return device_->driver().cuStreamQuery(rescue_) == cuda::kErrorNotReady; };
  for (bool waits = busy(); waits || writing(); waits = waits && busy()) {
    if (end.passed()) return false;
    if (waits && !writing()) {  // or writes would pile up, and take their time when nobody waits any more
      for (const auto& [key, endpoint] : memory_->endpoints) (void)endpoint->letGo(rescue_);
    }
    cuda::pauseBetweenLooks();
  }
  return true;
}

// What streams use has to stay until the program's own work before it is done, which may take any time.
void CudaExecutor::letGoLater(std::unique_ptr<CudaExecutor> executor) {
  if (executor->memory_->exchange != nullptr) executor->memory_->exchange->retire();
  executor->proxy_.reset();
  executor->memory_->readingBegun.clear();
  executor->services_ = nullptr;
  CudaExecutor* const left = executor.release();
  const auto finish = [left] {
    while (!left->letGo(kLetGoMs)) continue;
    delete left;
  };
  try {
    std::thread(finish).detach();
  } catch (const std::system_error& error) {
    TUTTI_WARN("cuda", "memory of an aborted communicator is never freed, as no thread can wait for its streams: ",
               error.what());
  }
}

}  // namespace tutti

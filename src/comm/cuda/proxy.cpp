#include "src/comm/cuda/proxy.hpp"

#include <utility>

#include "src/base/log.hpp"
#include "transport/cuda/process_table.hpp"

namespace tutti {

Result<std::unique_ptr<CudaProxy>> CudaProxy::create(cuda::StreamOps& ops, cuda::Address gate, cuda::Address replayed,
                                                     bool sharesDevice) {
  std::unique_ptr<CudaProxy> proxy(new CudaProxy(ops, gate, replayed));
  const cuda::CudaDevice& device = *ops.device();
  // This stream lets others go.  Streams of one priority share the device's queues, so it has a priority of its own.
  const cuda::CudaScope scope(device);
  TUTTI_ASSIGN(proxy->stream_, device.urgentStream());
  ops.use(proxy->stream_);
  if (sharesDevice) proxy->gates_ = DeviceGates::of(device.ordinal());
  TUTTI_ASSIGN(proxy->queue_, ProgressQueue::create());
  return proxy;
}

CudaProxy::~CudaProxy() {
  for (const std::shared_ptr<Replay>& replay : replays_) {
    const std::lock_guard lock(replay->mutex);
    replay->proxy = nullptr;
  }
  queue_.reset();
  while (closed_ > 0) open();  // of calls that have not been carried out
  const cuda::CudaScope scope(*device_);
  if (stream_ != nullptr) device_->driver().cuStreamDestroy(stream_);
}

void CudaProxy::close() {
  if (gates_ == nullptr) return;
  gates_->close();
  ++closed_;
}

void CudaProxy::open() {
  if (gates_ == nullptr) return;
  --closed_;
  gates_->open();
}

Result<CudaProxy::Submitted> CudaProxy::submit(cuda::Stream stream) {
  const Submitted job{std::make_shared<cuda::EventHandle>(), submitted_ + 1};
  TUTTI_TRY(job.ready->create(device_));
  TUTTI_CUDA(device_->driver(), cuEventRecord(job.ready->get(), stream));
  close();
  cuda::StreamOps caller(device_);
  caller.use(stream);
  Status status = caller.waitUntil(gate_, job.number);
  if (status.ok()) status = caller.flush();
  if (!status.ok()) {
    open();
    return status;
  }
  ++submitted_;
  return job;
}

Status CudaProxy::capture(cuda::Stream stream, MakeJob makeJob) {
  auto replay = std::make_shared<Replay>();
  replay->proxy = this;
  replay->makeJob = std::move(makeJob);
  cuda::ProcessTable<Replay>::get().add(replay);
  TUTTI_CUDA(device_->driver(), cuLaunchHostFunc(stream, onReplay, reinterpret_cast<void*>(replay->id)));
  replays_.push_back(std::move(replay));
  cuda::StreamOps caller(device_);
  caller.use(stream, true);
  TUTTI_TRY(caller.waitFor(replayed_, 1));
  TUTTI_TRY(caller.write(replayed_, 0));
  return caller.flush();
}

// On a thread of the driver's, which must not call the driver.
void CudaProxy::onReplay(void* id) {
  const auto replay = cuda::ProcessTable<Replay>::get().find(reinterpret_cast<uint64_t>(id));
  if (replay == nullptr) return;
  const std::lock_guard lock(replay->mutex);
  if (replay->proxy != nullptr) replay->proxy->begin(*replay);
}

// What a job that has yet to begin waits for may need the replay.
void CudaProxy::begin(const Replay& replay) {
  close();
  queue_->enqueue(replay.makeJob(), ProgressQueue::Order::Overtakes);
}

bool CudaProxy::reached(const Submitted& job) const {
  return job.ready == nullptr || device_->driver().cuEventQuery(job.ready->get()) != cuda::kErrorNotReady;
}

Status CudaProxy::beginJob(const Submitted& job) {
  if (job.ready == nullptr) return {};
  TUTTI_CUDA(device_->driver(), cuStreamWaitEvent(stream_, job.ready->get(), 0));
  return {};
}

void CudaProxy::endJob(const Submitted& job) {
  const cuda::CudaScope scope(*device_);
  Status status = job.ready == nullptr ? ops_.write(replayed_, 1) : ops_.write(gate_, job.number);
  if (status.ok()) status = ops_.flush();
  if (!status.ok()) TUTTI_WARN("cuda", status.text());
  open();
}

bool CudaProxy::busy() const {
  const cuda::CudaScope scope(*device_);
  return device_->driver().cuStreamQuery(stream_) == cuda::kErrorNotReady;
}

}  // namespace tutti

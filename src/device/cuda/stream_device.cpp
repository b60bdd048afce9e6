// A CUDA device as a Device: what is enqueued on the stream of the calling thread, and on one beside it.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "src/device/cuda/loaded_kernels.hpp"

namespace tutti {
namespace cuda {
namespace {

constexpr size_t kLeastBytes = 512;
constexpr unsigned kThreads = 512;
// Enough to fill the memory system; what a thread has to do at least to be worth its start.
constexpr uint64_t kBlocksPerMultiprocessor = 2, kItemsPerThread = 4;

thread_local Stream streamOfThread = nullptr;

class StreamDevice final : public tutti::Device {
 public:
  explicit StreamDevice(std::shared_ptr<LoadedKernels> kernels)
      : tutti::Device(kernels->device()->ordinal()),
        kernels_(std::move(kernels)),
        device_(kernels_->device()),
        driver_(device_->driver()) {}
  ~StreamDevice() override {
    // A device that is lost has nothing to wait for.
    if (!blocks_.empty()) static_cast<void>(trim());
    const CudaScope scope(*device_);
    for (const Stream stream : {side_, own_}) {
      if (stream != nullptr) driver_.cuStreamDestroy(stream);
    }
  }

  Result<tuttiStream_t> stream() override {
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream, now());
    return reinterpret_cast<tuttiStream_t>(stream);
  }
  Result<tuttiStream_t> ownStream() override {
    const CudaScope scope(*device_);
    TUTTI_TRY(makeStream(&own_));
    return reinterpret_cast<tuttiStream_t>(own_);
  }

  Result<void*> allocate(size_t bytes) override {
    if (bytes == 0) return static_cast<void*>(nullptr);
    bytes = (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream,
                 now());  // who had the memory before had it on this one, or on one that it follows
    auto& spare = spare_[beside_];
    const auto found = spare.lower_bound(bytes);
    if (found != spare.end() && found->first <= bytes + bytes / 4) {
      void* memory = found->second;
      spare.erase(found);
      return memory;
    }
    Result<DeviceMemory> block = DeviceMemory::allocateOn(stream, device_, bytes);
    if (block.status().code() == tuttiSystemError) {
      TUTTI_TRY(trim());
      block = DeviceMemory::allocateOn(stream, device_, bytes);
    }
    if (!block.ok()) return block.status();
    void* memory = block->data();
    blocks_[memory] = std::move(*block);
    return memory;
  }
  void release(void* memory) noexcept override {
    if (memory != nullptr) spare_[beside_].emplace(blocks_.at(memory).bytes(), memory);
  }
  Status trim() override {
    const CudaScope scope(*device_);
    if (side_ != nullptr) TUTTI_TRY(waitForStream(*device_, side_));
    if (hasMain_) TUTTI_TRY(waitForStream(*device_, main_));
    for (auto& spare : spare_) {
      for (const auto& [bytes, memory] : spare) blocks_.erase(memory);
      spare.clear();
    }
    return {};
  }
  Result<void*> scratch(size_t bytes) override {
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream, now());
    return kernels_->scratch(stream, bytes);
  }

  Status copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return {};
    return enqueue("cuMemcpyAsync",
                   [&](Stream stream) { return driver_.cuMemcpyAsync(addressOf(to), addressOf(from), bytes, stream); });
  }
  Status zero(void* at, size_t bytes) override {
    if (bytes == 0) return {};
    return enqueue("cuMemsetD8Async",
                   [&](Stream stream) { return driver_.cuMemsetD8Async(addressOf(at), 0, bytes, stream); });
  }
  Status launch(size_t kernel, const void* argument, uint64_t items) override {
    const uint64_t most = static_cast<uint64_t>(device_->multiprocessors()) * kBlocksPerMultiprocessor;
    const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(items / (kThreads * kItemsPerThread), 1, most));
    void* parameters[] = {const_cast<void*>(argument)};
    return enqueue("cuLaunchKernel", [&](Stream stream) {
      return driver_.cuLaunchKernel(kernels_->function(kernel), blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters,
                                    nullptr);
    });
  }

  Result<Mark> mark() override {
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream, now());
    return record(stream);
  }
  Result<bool> done(const Mark& mark) override {
    if (mark == nullptr) return true;
    const CudaScope scope(*device_);
    const Error error = driver_.cuEventQuery(static_cast<Event>(mark.get()));
    if (error != kErrorNotReady) TUTTI_TRY(check(driver_, error, "cuEventQuery"));
    return error == kSuccess;
  }
  Status follow(const Mark& mark) override {
    if (mark == nullptr) return {};
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream, now());
    return follow(stream, mark);
  }
  Result<Mark> beside(const std::function<void()>& task) override {
    const CudaScope scope(*device_);
    TUTTI_TRY(makeStream(&side_));
    TUTTI_ASSIGN(const Stream stream, now());
    TUTTI_ASSIGN(const Mark before, record(stream));
    TUTTI_TRY(follow(side_, before));
    {
      struct Beside {
        size_t& beside;
        ~Beside() { beside = 0; }
      };
      const Beside during{beside_ = 1};
      task();
    }
    return record(side_);
  }
  Status wait() override {
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream, now());
    return waitForStream(*device_, stream);
  }

 private:
  template <class Call>
  Status enqueue(const char* what, const Call& call) {
    const CudaScope scope(*device_);
    TUTTI_ASSIGN(const Stream stream, now());
    return check(driver_, call(stream), what);
  }
  // With the context current:
  /// The stream that work goes to now: the caller's or the one beside it.  A caller's new stream follows the old one.
  Result<Stream> now() {
    if (beside_ != 0) return side_;
    const Stream wanted = streamOfThread;
    if (hasMain_ && wanted != main_) {
      TUTTI_ASSIGN(const Mark before, record(main_));
      TUTTI_TRY(follow(wanted, before));
    }
    main_ = wanted;
    hasMain_ = true;
    return wanted;
  }
  Result<Mark> record(Stream stream) const {
    const auto event = std::make_shared<EventHandle>();
    TUTTI_TRY(event->create(device_));
    TUTTI_CUDA(driver_, cuEventRecord(event->get(), stream));
    return Mark(event, event->get());
  }
  Status follow(Stream stream, const Mark& mark) const {
    TUTTI_CUDA(driver_, cuStreamWaitEvent(stream, static_cast<Event>(mark.get()), 0));
    return {};
  }
  Status makeStream(Stream* stream) const {
    if (*stream == nullptr) TUTTI_CUDA(driver_, cuStreamCreate(stream, kStreamNonBlocking));
    return {};
  }

  std::shared_ptr<LoadedKernels> kernels_;
  std::shared_ptr<const CudaDevice> device_;
  const Driver& driver_;
  Stream side_ = nullptr, main_ = nullptr, own_ = nullptr;
  bool hasMain_ = false;
  size_t beside_ = 0;                               // 1: inside of beside()
  std::multimap<size_t, void*> spare_[2];           // released on the caller's stream, on the one beside it
  std::unordered_map<void*, DeviceMemory> blocks_;  // all that was allocated
};

}  // namespace
}  // namespace cuda

Result<std::shared_ptr<Device>> openCuda(int ordinal, const KernelSet& kernels) {
  TUTTI_ASSIGN(std::shared_ptr<cuda::LoadedKernels> loaded, cuda::LoadedKernels::of(ordinal, kernels));
  return std::shared_ptr<Device>(std::make_shared<cuda::StreamDevice>(std::move(loaded)));
}

void setThreadStream(tuttiStream_t stream) { cuda::streamOfThread = reinterpret_cast<cuda::Stream>(stream); }

}  // namespace tutti

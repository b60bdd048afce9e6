#include "src/parallel/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "src/device/cuda/stream.hpp"
#include "src/parallel/cublaslt.hpp"
#include "src/parallel/cuda_images.h"

namespace tutti::parallel {
namespace {

constexpr unsigned kThreads = 512;
// Enough to fill the memory system; what a thread has to do at least to be worth its start.
constexpr uint64_t kBlocksPerMultiprocessor = 2, kItemsPerThread = 4;

thread_local cuda::Stream streamOfThread = nullptr;

void orThrow(const Status& status) {
  if (!status.ok()) throw Failure{status.code(), status.message()};
}
template <class T>
T orThrow(Result<T> result) {
  orThrow(result.ok() ? Status() : result.status());
  return std::move(*result);
}

/// Throws what CudaDevice and its driver say of a call.
#define TUTTI_LAYER_CUDA(device, call) orThrow(cuda::check((device).driver(), (device).driver().call, #call))

/// Ends where communicators end their waits: at their deadline, or when they are aborted.
void waitForStream(const cuda::CudaDevice& device, cuda::Stream stream) {
  for (int looks = 0;; ++looks) {
    const cuda::Error error = device.driver().cuStreamQuery(stream);
    if (error != cuda::kErrorNotReady) return orThrow(cuda::check(device.driver(), error, "cuStreamQuery"));
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      cuda::pauseBetweenLooks();
    }
  }
}

/// A device with the kernels of layers.
class CudaProgram {
 public:
  explicit CudaProgram(int ordinal) : device(orThrow(cuda::CudaDevice::open(ordinal))), driver_(device->driver()) {
    const cuda::CudaScope scope(*device);
    load();
  }
  ~CudaProgram() {
    const cuda::CudaScope scope(*device);
    if (!rooms_.empty()) driver_.cuCtxSynchronize();
    products_.reset();
    for (const auto& [owner, room] : rooms_) driver_.cuMemFree(room.address);
    driver_.cuModuleUnload(module_);
  }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  /// With the context current: memory for what is enqueued on the stream from now on.  Waits for nothing where the
  /// device has pools; cuMemAlloc may wait for the whole device, and so for streams that wait for other ranks' calls.
  cuda::Error allocate(cuda::Address* address, size_t bytes, cuda::Stream stream) const {
    return device->hasPools() ? driver_.cuMemAllocAsync(address, bytes, stream) : driver_.cuMemAlloc(address, bytes);
  }

  /// Room for what this thread enqueues on a stream; kept until the program goes.
  void* scratch(cuda::Stream stream, size_t bytes) {
    const std::lock_guard lock(mutex_);
    return room({stream, std::this_thread::get_id()}, bytes);
  }
  /// As CublasLt::multiply.  One handle and, for each stream, one workspace serve all who compute on the device.
  void multiply(const tuttiMatmul_t& call, const Batch& batch, cuda::Stream stream) {
    const std::lock_guard lock(mutex_);
    if (products_ == nullptr) products_ = std::make_unique<CublasLt>();
    products_->multiply(call, batch, room({stream, std::thread::id()}, kWorkspaceBytes), kWorkspaceBytes, stream);
  }

  const std::shared_ptr<const cuda::CudaDevice> device;
  std::array<cuda::Function, static_cast<size_t>(Kernel::Count)> functions{};

 private:
  struct Room {
    cuda::Address address = 0;
    size_t bytes = 0;
  };
  using Owner = std::pair<cuda::Stream, std::thread::id>;
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // as much as products on Hopper make use of

  void* room(const Owner& owner, size_t bytes) {
    const cuda::CudaScope scope(*device);
    Room& room = rooms_[owner];
    if (room.bytes < bytes) {
      if (room.address != 0) release(std::exchange(room.address, 0), owner.first);
      room.bytes = 0;
      orThrow(cuda::check(driver_, allocate(&room.address, bytes, owner.first), "an allocation of device memory"));
      room.bytes = bytes;
    }
    return reinterpret_cast<void*>(room.address);
  }
  /// When the stream has done what it has to do.
  void release(cuda::Address address, cuda::Stream stream) const {
    if (device->hasPools()) return TUTTI_LAYER_CUDA(*device, cuMemFreeAsync(address, stream));
    waitForStream(*device, stream);
    TUTTI_LAYER_CUDA(*device, cuMemFree(address));
  }
  /// All at once: a driver that loads a kernel at its first launch may wait for the device, where something may wait
  /// for that launch.
  void load() {
    const cuda::Error error = driver_.cuModuleLoadData(&module_, tutti_layer_images[0]);
    if (error != cuda::kSuccess) {
      fail(tuttiInvalidUsage, "this build has no kernels of training layers for CUDA device ", device->ordinal(),
           " (error ", error, "; see the build options cuda and gpu_archs)");
    }
    static constexpr const char* kNames[] = {
#define TUTTI_LAYER_NAME(Name, ...) "tutti_layer_" #Name,
        TUTTI_LAYER_KERNELS(TUTTI_LAYER_NAME)
#undef TUTTI_LAYER_NAME
    };
    for (size_t k = 0; k < functions.size(); ++k) {
      orThrow(cuda::check(driver_, driver_.cuModuleGetFunction(&functions[k], module_, kNames[k]), kNames[k]));
    }
  }
  const cuda::Driver& driver_;
  cuda::Module module_ = nullptr;
  std::mutex mutex_;  // guards what follows
  std::map<Owner, Room> rooms_;
  std::unique_ptr<CublasLt> products_;  // made when asked for
};

std::shared_ptr<CudaProgram> programOf(int ordinal) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<int, std::weak_ptr<CudaProgram>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<CudaProgram> found = loaded[ordinal].lock();
  if (found == nullptr) loaded[ordinal] = found = std::make_shared<CudaProgram>(ordinal);
  return found;
}

class Cuda final : public Device {
 public:
  explicit Cuda(int ordinal) : program_(programOf(ordinal)), device_(program_->device) {}
  ~Cuda() override {
    try {
      release(nowhere_, kLeastBytes);
      if (!bytes_.empty()) trim();
    } catch (const Failure&) {  // a device that is lost has nothing to wait for, and frees nothing
    }
    const cuda::CudaScope scope(*device_);
    for (const cuda::Stream stream : {side_, own_}) {
      if (stream != nullptr) device_->driver().cuStreamDestroy(stream);
    }
  }

  int kind() const override { return TUTTI_DEVICE_CUDA; }
  tuttiStream_t stream() override { return reinterpret_cast<tuttiStream_t>(now()); }

  tuttiStream_t ownStream() override {
    const cuda::CudaScope scope(*device_);
    if (own_ == nullptr) TUTTI_LAYER_CUDA(*device_, cuStreamCreate(&own_, cuda::kStreamNonBlocking));
    return reinterpret_cast<tuttiStream_t>(own_);
  }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    bytes = (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
    const cuda::Stream stream = now();  // who had the memory before had it on this one, or on one that it follows
    auto& spare = spare_[beside_];
    const auto found = spare.lower_bound(bytes);
    if (found != spare.end() && found->first <= bytes + bytes / 4) {
      void* memory = found->second;
      spare.erase(found);
      return memory;
    }
    const cuda::CudaScope scope(*device_);
    cuda::Address address = 0;
    cuda::Error error = program_->allocate(&address, bytes, stream);
    if (error == cuda::kErrorOutOfMemory) {
      trim();
      error = program_->allocate(&address, bytes, stream);
    }
    if (error == cuda::kErrorOutOfMemory) {
      fail(tuttiSystemError, "CUDA device ", device_->ordinal(), " has no ", bytes, " bytes left");
    }
    orThrow(cuda::check(device_->driver(), error, "an allocation of device memory"));
    void* memory = reinterpret_cast<void*>(address);
    bytes_[memory] = bytes;
    return memory;
  }
  void release(void* memory, size_t) noexcept override {
    if (memory != nullptr) spare_[beside_].emplace(bytes_[memory], memory);
  }
  void* scratch(size_t bytes) override { return program_->scratch(now(), bytes); }
  void* nowhere() override {
    if (nowhere_ == nullptr) nowhere_ = allocate(kLeastBytes);
    return nowhere_;
  }
  void trim() override {
    const cuda::CudaScope scope(*device_);
    if (side_ != nullptr) waitForStream(*device_, side_);
    if (hasMain_) waitForStream(*device_, main_);
    for (auto& spare : spare_) {
      for (const auto& [bytes, memory] : spare) {
        bytes_.erase(memory);
        TUTTI_LAYER_CUDA(*device_, cuMemFree(reinterpret_cast<cuda::Address>(memory)));
      }
      spare.clear();
    }
  }

  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    const cuda::CudaScope scope(*device_);
    TUTTI_LAYER_CUDA(*device_, cuMemcpyAsync(reinterpret_cast<cuda::Address>(to), reinterpret_cast<cuda::Address>(from),
                                             bytes, now()));
  }
  void zero(void* at, size_t bytes) override {
    const cuda::CudaScope scope(*device_);
    TUTTI_LAYER_CUDA(*device_, cuMemsetD8Async(reinterpret_cast<cuda::Address>(at), 0, bytes, now()));
  }
  void put(void* to, const void* host, size_t bytes) override {
    copy(to, host, bytes);
    wait();
  }
  void get(void* host, const void* from, size_t bytes) override {
    wait();  // here rather than in the driver, which copies to such memory only when it has waited itself
    copy(host, from, bytes);
    wait();
  }

  Mark beside(const std::function<void()>& task) override {
    const cuda::CudaScope scope(*device_);
    if (side_ == nullptr) TUTTI_LAYER_CUDA(*device_, cuStreamCreate(&side_, cuda::kStreamNonBlocking));
    const Mark before = record(now());
    TUTTI_LAYER_CUDA(*device_, cuStreamWaitEvent(side_, static_cast<cuda::Event>(before.get()), 0));
    beside_ = 1;
    try {
      task();
    } catch (...) {
      beside_ = 0;
      throw;
    }
    beside_ = 0;
    return record(side_);
  }
  void follow(const Mark& mark) override {
    if (mark == nullptr) return;
    const cuda::CudaScope scope(*device_);
    TUTTI_LAYER_CUDA(*device_, cuStreamWaitEvent(now(), static_cast<cuda::Event>(mark.get()), 0));
  }

  Mark mark() override {
    const cuda::CudaScope scope(*device_);
    return record(now());
  }
  bool done(const Mark& mark) override {
    if (mark == nullptr) return true;
    const cuda::CudaScope scope(*device_);
    const cuda::Error error = device_->driver().cuEventQuery(static_cast<cuda::Event>(mark.get()));
    if (error != cuda::kErrorNotReady) orThrow(cuda::check(device_->driver(), error, "cuEventQuery"));
    return error == cuda::kSuccess;
  }

  void multiplyFast(const tuttiMatmul_t& call, const Batch& batch) override {
    if (call.m == 0 || call.n == 0 || batch.count == 0) return;
    if (call.k == 0) return multiply(call, batch);
    const cuda::CudaScope scope(*device_);
    program_->multiply(call, batch, now());
  }

 protected:
  void launch(Kernel kernel, const void* arguments, uint64_t items) override {
    const cuda::CudaScope scope(*device_);
    const uint64_t most = static_cast<uint64_t>(device_->multiprocessors()) * kBlocksPerMultiprocessor;
    const uint64_t blocks = std::clamp<uint64_t>(items / (kThreads * kItemsPerThread), 1, most);
    void* parameters[] = {const_cast<void*>(arguments)};
    TUTTI_LAYER_CUDA(
        *device_, cuLaunchKernel(program_->functions[static_cast<size_t>(kernel)], static_cast<unsigned>(blocks), 1, 1,
                                 kThreads, 1, 1, 0, now(), parameters, nullptr));
  }

 private:
  static constexpr size_t kLeastBytes = 512;

  /// The stream that work goes to now: the caller's or the one beside it.  A caller's new stream follows the old one.
  cuda::Stream now() {
    if (beside_ != 0) return side_;
    const cuda::Stream wanted = streamOfThread;
    if (hasMain_ && wanted != main_) {
      const cuda::CudaScope scope(*device_);
      TUTTI_LAYER_CUDA(*device_, cuStreamWaitEvent(wanted, static_cast<cuda::Event>(record(main_).get()), 0));
    }
    main_ = wanted;
    hasMain_ = true;
    return wanted;
  }
  Mark record(cuda::Stream stream) {
    const auto event = std::make_shared<cuda::EventHandle>();
    orThrow(event->create(device_));
    TUTTI_LAYER_CUDA(*device_, cuEventRecord(event->get(), stream));
    return {event, event->get()};
  }
  void wait() {
    const cuda::CudaScope scope(*device_);
    waitForStream(*device_, now());
  }
  std::shared_ptr<CudaProgram> program_;
  std::shared_ptr<const cuda::CudaDevice> device_;
  cuda::Stream side_ = nullptr, main_ = nullptr, own_ = nullptr;
  bool hasMain_ = false;
  size_t beside_ = 0;                        // 1: inside of beside()
  std::multimap<size_t, void*> spare_[2];    // released on the caller's stream, on the one beside it
  std::unordered_map<void*, size_t> bytes_;  // of all allocations
  void* nowhere_ = nullptr;
};

}  // namespace

int currentCudaDevice() { return orThrow(cuda::currentDevice()); }

std::shared_ptr<Device> openCudaDevice(int ordinal) { return std::make_shared<Cuda>(ordinal); }

}  // namespace tutti::parallel

tuttiResult_t tuttiParallelSetStream(tuttiStream_t stream) {
  tutti::parallel::streamOfThread = reinterpret_cast<tutti::cuda::Stream>(stream);
  return tuttiSuccess;
}

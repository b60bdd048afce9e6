#include "src/parallel/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "src/parallel/cublaslt.hpp"
#include "src/parallel/cuda_driver.hpp"
#include "src/parallel/cuda_images.h"

namespace tutti::parallel {
namespace {

constexpr unsigned kThreads = 512;
// Enough to fill the memory system; what a thread has to do at least to be worth its start.
constexpr uint64_t kBlocksPerMultiprocessor = 2, kItemsPerThread = 4;

thread_local cuda::Stream streamOfThread = nullptr;

/// Looks now and then.  It ends where communicators end their waits: at their deadline, or when they are aborted.
void waitForStream(cuda::Stream stream) {
  for (int looks = 0;; ++looks) {
    const cuda::Error error = cudaDriver().cuStreamQuery(stream);
    if (error != cuda::kErrorNotReady) return checkCuda(error, "cuStreamQuery");
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

/// A device's primary context, and the kernels in it.
class CudaProgram {
 public:
  explicit CudaProgram(int ordinal) : ordinal_(ordinal) {
    TUTTI_LAYER_CUDA(cuDeviceGet(&device_, ordinal));
    TUTTI_LAYER_CUDA(cuDeviceGetAttribute(&multiprocessors, cuda::kAttributeMultiprocessors, device_));
    TUTTI_LAYER_CUDA(cuDeviceGetAttribute(&hasPools_, cuda::kAttributeMemoryPools, device_));
    const BesideCaptures beside;
    TUTTI_LAYER_CUDA(cuDevicePrimaryCtxRetain(&context, device_));
    try {
      const CudaCurrent current(context);
      load();
    } catch (...) {
      cudaDriver().cuDevicePrimaryCtxRelease(device_);
      throw;
    }
  }
  ~CudaProgram() {
    const BesideCaptures beside;
    cudaDriver().cuCtxPushCurrent(context);
    if (!rooms_.empty()) cudaDriver().cuCtxSynchronize();
    products_.reset();
    for (const auto& [owner, room] : rooms_) cudaDriver().cuMemFree(room.address);
    cudaDriver().cuModuleUnload(module_);
    cuda::Context popped = nullptr;
    cudaDriver().cuCtxPopCurrent(&popped);
    cudaDriver().cuDevicePrimaryCtxRelease(device_);
  }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  /// With the context current: memory for what is enqueued on the stream from now on.  Waits for nothing where the
  /// device has pools; cuMemAlloc may wait for the whole device, and so for streams that wait for other ranks' calls.
  cuda::Error allocate(cuda::Address* address, size_t bytes, cuda::Stream stream) const {
    return hasPools_ != 0 ? cudaDriver().cuMemAllocAsync(address, bytes, stream)
                          : cudaDriver().cuMemAlloc(address, bytes);
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

  cuda::Context context = nullptr;
  int multiprocessors = 1;
  std::array<cuda::Function, static_cast<size_t>(Kernel::Count)> functions{};

 private:
  struct Room {
    cuda::Address address = 0;
    size_t bytes = 0;
  };
  using Owner = std::pair<cuda::Stream, std::thread::id>;
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // as much as products on Hopper make use of

  void* room(const Owner& owner, size_t bytes) {
    const CudaCurrent current(context);
    Room& room = rooms_[owner];
    if (room.bytes < bytes) {
      if (room.address != 0) release(std::exchange(room.address, 0), owner.first);
      room.bytes = 0;
      checkCuda(allocate(&room.address, bytes, owner.first), "an allocation of device memory");
      room.bytes = bytes;
    }
    return reinterpret_cast<void*>(room.address);
  }
  /// When the stream has done what it has to do.
  void release(cuda::Address address, cuda::Stream stream) const {
    if (hasPools_ != 0) return checkCuda(cudaDriver().cuMemFreeAsync(address, stream), "cuMemFreeAsync");
    waitForStream(stream);
    TUTTI_LAYER_CUDA(cuMemFree(address));
  }
  /// All at once: a driver that loads a kernel at its first launch may wait for the device, where something may wait
  /// for that launch.
  void load() {
    const cuda::Error error = cudaDriver().cuModuleLoadData(&module_, tutti_layer_images[0]);
    if (error != cuda::kSuccess) {
      fail(tuttiInvalidUsage, "this build has no kernels of training layers for CUDA device ", ordinal_, " (error ",
           error, "; see the build options cuda and gpu_archs)");
    }
    static constexpr const char* kNames[] = {
#define TUTTI_LAYER_NAME(Name, ...) "tutti_layer_" #Name,
        TUTTI_LAYER_KERNELS(TUTTI_LAYER_NAME)
#undef TUTTI_LAYER_NAME
    };
    for (size_t k = 0; k < functions.size(); ++k) {
      checkCuda(cudaDriver().cuModuleGetFunction(&functions[k], module_, kNames[k]), kNames[k]);
    }
  }
  int ordinal_;
  cuda::Device device_ = 0;
  int hasPools_ = 0;
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
  explicit Cuda(int ordinal) : ordinal_(ordinal), program_(programOf(ordinal)) {}
  ~Cuda() override {
    try {
      release(nowhere_, kLeastBytes);
      if (!bytes_.empty()) trim();
    } catch (const Failure&) {  // a device that is lost has nothing to wait for, and frees nothing
    }
    if (side_ == nullptr && own_ == nullptr) return;
    const BesideCaptures beside;
    cudaDriver().cuCtxPushCurrent(program_->context);
    for (const cuda::Stream stream : {side_, own_}) {
      if (stream != nullptr) cudaDriver().cuStreamDestroy(stream);
    }
    cuda::Context popped = nullptr;
    cudaDriver().cuCtxPopCurrent(&popped);
  }

  int kind() const override { return TUTTI_DEVICE_CUDA; }
  tuttiStream_t stream() override { return reinterpret_cast<tuttiStream_t>(now()); }

  tuttiStream_t ownStream() override {
    const CudaCurrent current(program_->context);
    if (own_ == nullptr) TUTTI_LAYER_CUDA(cuStreamCreate(&own_, cuda::kStreamNonBlocking));
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
    const CudaCurrent current(program_->context);
    cuda::Address address = 0;
    cuda::Error error = program_->allocate(&address, bytes, stream);
    if (error == cuda::kErrorOutOfMemory) {
      trim();
      error = program_->allocate(&address, bytes, stream);
    }
    if (error == cuda::kErrorOutOfMemory) {
      fail(tuttiSystemError, "CUDA device ", ordinal_, " has no ", bytes, " bytes left");
    }
    checkCuda(error, "an allocation of device memory");
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
    const CudaCurrent current(program_->context);
    if (side_ != nullptr) waitForStream(side_);
    if (hasMain_) waitForStream(main_);
    for (auto& spare : spare_) {
      for (const auto& [bytes, memory] : spare) {
        bytes_.erase(memory);
        TUTTI_LAYER_CUDA(cuMemFree(reinterpret_cast<cuda::Address>(memory)));
      }
      spare.clear();
    }
  }

  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    const CudaCurrent current(program_->context);
    TUTTI_LAYER_CUDA(
        cuMemcpyAsync(reinterpret_cast<cuda::Address>(to), reinterpret_cast<cuda::Address>(from), bytes, now()));
  }
  void zero(void* at, size_t bytes) override {
    const CudaCurrent current(program_->context);
    TUTTI_LAYER_CUDA(cuMemsetD8Async(reinterpret_cast<cuda::Address>(at), 0, bytes, now()));
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
    const CudaCurrent current(program_->context);
    if (side_ == nullptr) TUTTI_LAYER_CUDA(cuStreamCreate(&side_, cuda::kStreamNonBlocking));
    const Mark before = record(now());
    TUTTI_LAYER_CUDA(cuStreamWaitEvent(side_, static_cast<cuda::Event>(before.get()), 0));
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
    const CudaCurrent current(program_->context);
    TUTTI_LAYER_CUDA(cuStreamWaitEvent(now(), static_cast<cuda::Event>(mark.get()), 0));
  }

  Mark mark() override {
    const CudaCurrent current(program_->context);
    return record(now());
  }
  bool done(const Mark& mark) override {
    if (mark == nullptr) return true;
    const CudaCurrent current(program_->context);
    const cuda::Error error = cudaDriver().cuEventQuery(static_cast<cuda::Event>(mark.get()));
    if (error != cuda::kErrorNotReady) checkCuda(error, "cuEventQuery");
    return error == cuda::kSuccess;
  }

  void multiplyFast(const tuttiMatmul_t& call, const Batch& batch) override {
    if (call.m == 0 || call.n == 0 || batch.count == 0) return;
    if (call.k == 0) return multiply(call, batch);
    const CudaCurrent current(program_->context);
    program_->multiply(call, batch, now());
  }

 protected:
  void launch(Kernel kernel, const void* arguments, uint64_t items) override {
    const CudaCurrent current(program_->context);
    const uint64_t most = static_cast<uint64_t>(program_->multiprocessors) * kBlocksPerMultiprocessor;
    const uint64_t blocks = std::clamp<uint64_t>(items / (kThreads * kItemsPerThread), 1, most);
    void* parameters[] = {const_cast<void*>(arguments)};
    TUTTI_LAYER_CUDA(cuLaunchKernel(program_->functions[static_cast<size_t>(kernel)], static_cast<unsigned>(blocks), 1,
                                    1, kThreads, 1, 1, 0, now(), parameters, nullptr));
  }

 private:
  static constexpr size_t kLeastBytes = 512;

  /// The stream that work goes to now: the caller's or the one beside it.  A caller's new stream follows the old one.
  cuda::Stream now() {
    if (beside_ != 0) return side_;
    const cuda::Stream wanted = streamOfThread;
    if (hasMain_ && wanted != main_) {
      const CudaCurrent current(program_->context);
      TUTTI_LAYER_CUDA(cuStreamWaitEvent(wanted, static_cast<cuda::Event>(record(main_).get()), 0));
    }
    main_ = wanted;
    hasMain_ = true;
    return wanted;
  }
  Mark record(cuda::Stream stream) {
    cuda::Event event = nullptr;
    TUTTI_LAYER_CUDA(cuEventCreate(&event, cuda::kEventDisableTiming));
    Mark mark(event, [program = program_](void* e) {
      cudaDriver().cuCtxPushCurrent(program->context);
      cudaDriver().cuEventDestroy(static_cast<cuda::Event>(e));
      cuda::Context popped = nullptr;
      cudaDriver().cuCtxPopCurrent(&popped);
    });
    TUTTI_LAYER_CUDA(cuEventRecord(event, stream));
    return mark;
  }
  void wait() {
    const CudaCurrent current(program_->context);
    waitForStream(now());
  }
  int ordinal_;
  std::shared_ptr<CudaProgram> program_;
  cuda::Stream side_ = nullptr, main_ = nullptr, own_ = nullptr;
  bool hasMain_ = false;
  size_t beside_ = 0;                        // 1: inside of beside()
  std::multimap<size_t, void*> spare_[2];    // released on the caller's stream, on the one beside it
  std::unordered_map<void*, size_t> bytes_;  // of all allocations
  void* nowhere_ = nullptr;
};

}  // namespace

int currentCudaDevice() {
  cuda::Context current = nullptr;
  TUTTI_LAYER_CUDA(cuCtxGetCurrent(&current));
  if (current == nullptr) return 0;
  cuda::Device device = 0;
  TUTTI_LAYER_CUDA(cuCtxGetDevice(&device));
  return device;  // a CUdevice is an ordinal
}

std::shared_ptr<Device> openCudaDevice(int ordinal) { return std::make_shared<Cuda>(ordinal); }

}  // namespace tutti::parallel

tuttiResult_t tuttiParallelSetStream(tuttiStream_t stream) {
  tutti::parallel::streamOfThread = reinterpret_cast<tutti::cuda::Stream>(stream);
  return tuttiSuccess;
}

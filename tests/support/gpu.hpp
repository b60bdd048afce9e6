// A CUDA device for tests, real or played by tests/fake_cuda: memory, streams, graphs by the driver.
#pragma once

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/device/cuda/pinned.hpp"
#include "tests/support/collective_check.hpp"

namespace tutti::test {

/// What tests/fake_cuda exports beside the driver; null functions on a real one.
struct FakeCuda {
  void (*reset)(const char* settings) = nullptr;
  int (*calls)(const char* name) = nullptr;
  const char* (*complaints)() = nullptr;
  const char* (*journal)() = nullptr;
  void (*occupy)(int blocks) = nullptr;

  static const FakeCuda& get() {
    static const FakeCuda found = [] {
      FakeCuda f;
      void* library = dlopen("libcuda.so.1", RTLD_NOW);
      if (library == nullptr) return f;
      f.reset = reinterpret_cast<void (*)(const char*)>(dlsym(library, "fakeCudaReset"));
      f.calls = reinterpret_cast<int (*)(const char*)>(dlsym(library, "fakeCudaCalls"));
      f.complaints = reinterpret_cast<const char* (*)()>(dlsym(library, "fakeCudaComplaints"));
      f.journal = reinterpret_cast<const char* (*)()>(dlsym(library, "fakeCudaJournal"));
      f.occupy = reinterpret_cast<void (*)(int)>(dlsym(library, "fakeCudaOccupy"));
      return f;
    }();
    return found;
  }
};

/// The driver for the length of a test, with settings of tests/fake_cuda/fake.hpp if it is that one.
class Gpu {
 public:
  explicit Gpu(const char* settings = "") : driver_(loaded()) {
    if (FakeCuda::get().reset != nullptr) FakeCuda::get().reset(settings);
    otherMemory = {[](size_t bytes) { return Gpu::allocate(bytes, 0, true); }, [](void* p) { Gpu::free(p); }};
  }
  ~Gpu() { kept().clear(); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  const cuda::Driver& driver() const { return driver_; }
  /// Whether there are that many devices; a real machine may have fewer than a test wants.
  bool has(int devices) const {
    int count = 0;
    return driver_.cuDeviceGetCount(&count) == cuda::kSuccess && count >= devices;
  }
  /// Whether devices use the host's ordinary memory, as those of some machines do.
  bool reachesPageable() const {
    int reaches = 0;
    return driver_.cuDeviceGetAttribute(&reaches, cuda::kAttributePageableAccess, 0) == cuda::kSuccess && reaches != 0;
  }
  /// Mistakes that the driver has seen, and what was never freed.
  static std::string complaints() { return FakeCuda::get().complaints == nullptr ? "" : FakeCuda::get().complaints(); }
  /// The same when memory of communicators that were aborted has been freed, which may come after the abort.
  static std::string lastComplaints() {
    std::string left = complaints();
    for (int looks = 0; !left.empty() && looks < 100'000; ++looks) {
      cuda::pauseBetweenLooks();
      left = complaints();
    }
    return left;
  }

  static void* allocate(size_t bytes, int ordinal, bool managed) {
    const std::shared_ptr<cuda::CudaDevice> device = keep(ordinal);
    if (device == nullptr) return nullptr;
    const cuda::CudaScope scope(*device);
    cuda::Address address = 0;
    const cuda::Driver& d = device->driver();
    const cuda::Error error =
        managed ? d.cuMemAllocManaged(&address, bytes, cuda::kManagedGlobal) : d.cuMemAlloc(&address, bytes);
    return error == cuda::kSuccess ? reinterpret_cast<void*>(address) : nullptr;
  }
  static void free(void* memory) {
    const std::shared_ptr<cuda::CudaDevice> device = keep(0);
    const cuda::CudaScope scope(*device);
    device->driver().cuMemFree(cuda::addressOf(memory));
  }

 private:
  /// A device whose context stays until the test ends, as in a program that has called cudaSetDevice: memory goes with
  /// its context.
  static std::shared_ptr<cuda::CudaDevice> keep(int ordinal) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::shared_ptr<cuda::CudaDevice>& device = kept()[ordinal];
    if (device == nullptr) device = cuda::CudaDevice::open(ordinal).ok() ? *cuda::CudaDevice::open(ordinal) : nullptr;
    return device;
  }
  static std::map<int, std::shared_ptr<cuda::CudaDevice>>& kept() {
    static std::map<int, std::shared_ptr<cuda::CudaDevice>> devices;
    return devices;
  }
  static const cuda::Driver& loaded() {
    const auto driver = cuda::driver();
    if (driver.ok()) return **driver;
    throw std::runtime_error(driver.status().message() +
                             " (LD_LIBRARY_PATH=build/tests/fake_cuda gives these tests the test driver)");
  }
  const cuda::Driver& driver_;
};

/// A rank's own device and stream.  The device is current on the thread while this lives, as it is for a program that
/// has called cudaSetDevice.
class GpuRank {
 public:
  explicit GpuRank(int ordinal) : device_(*cuda::CudaDevice::open(ordinal)) {
    const cuda::BesideCaptures beside(driver());
    driver().cuCtxPushCurrent(device_->context());
    driver().cuStreamCreate(&stream_, cuda::kStreamNonBlocking);
  }
  ~GpuRank() {
    const cuda::BesideCaptures beside(driver());
    driver().cuStreamSynchronize(stream_);
    driver().cuStreamDestroy(stream_);
    cuda::Context popped = nullptr;
    driver().cuCtxPopCurrent(&popped);
  }
  GpuRank(const GpuRank&) = delete;
  GpuRank& operator=(const GpuRank&) = delete;
  const cuda::Driver& driver() const { return device_->driver(); }
  cuda::Stream stream() const { return stream_; }
  int ordinal() const { return device_->ordinal(); }
  tuttiStream_t asTutti() const { return reinterpret_cast<tuttiStream_t>(stream_); }
  std::string synchronize() const {
    const cuda::BesideCaptures beside(driver());
    return driver().cuStreamSynchronize(stream_) == cuda::kSuccess ? "" : "cuStreamSynchronize fails";
  }
  CheckOptions options(size_t count, bool inPlace, size_t shift, int root) const {
    CheckOptions o;
    o.count = count;
    o.inPlace = inPlace;
    o.shift = shift;
    o.root = root;
    o.memory = Memory::Other;
    o.stream = asTutti();
    o.synchronize = [this] { return synchronize(); };
    return o;
  }

 private:
  std::shared_ptr<cuda::CudaDevice> device_;
  cuda::Stream stream_ = nullptr;
};

/// Floats in memory of tuttiMemAlloc, for which TUTTI_DEVICE must say cuda, or of cuMemAlloc, as programs have it. Host
/// and device pass them to each other by copies.
class DeviceFloats {
 public:
  enum class Source { Tutti, Driver };
  DeviceFloats(const GpuRank& own, size_t count, Source source = Source::Tutti)
      : own_(own), count_(count), source_(source) {
    if (source == Source::Tutti) {
      tuttiMemAlloc(&data_, bytes());
    } else {
      data_ = Gpu::allocate(bytes(), own.ordinal(), false);
    }
  }
  ~DeviceFloats() { source_ == Source::Tutti ? (void)tuttiMemFree(data_) : Gpu::free(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data() const { return static_cast<float*>(data_); }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * sizeof(float); }
  void fill(float value) const {
    const std::vector<float> values(count_, value);
    copy(cuda::addressOf(data_), cuda::addressOf(values.data()));
  }
  std::vector<float> values() const {
    std::vector<float> values(count_);
    copy(cuda::addressOf(values.data()), cuda::addressOf(data_));
    return values;
  }
  /// "" if all of [begin, end) are `value`, or what is there instead.
  std::string check(size_t begin, size_t end, float value) const {
    const std::vector<float> values = this->values();
    for (size_t i = begin; i < end; ++i) {
      if (values[i] == value) continue;
      return "element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", not " + std::to_string(value);
    }
    return "";
  }

 private:
  void copy(cuda::Address dst, cuda::Address src) const {
    const cuda::BesideCaptures beside(own_.driver());
    own_.driver().cuMemcpyAsync(dst, src, bytes(), own_.stream());
    own_.driver().cuStreamSynchronize(own_.stream());
  }
  const GpuRank& own_;
  size_t count_;
  Source source_;
  void* data_ = nullptr;
};

/// Streams wait at it until the test opens it: a word in pinned host memory.
class Gate {
 public:
  explicit Gate(int ordinal = 0)
      : memory_(*cuda::PinnedMemory::allocate(*cuda::CudaDevice::open(ordinal), sizeof(uint32_t))) {
    set(0);
  }
  void open() const { set(1); }
  /// What is enqueued on the stream from now on waits until the gate opens.
  bool holdsUp(const GpuRank& own, cuda::Stream stream) const {
    const cuda::Address word = cuda::addressOf(memory_.data());
    return own.driver().cuStreamWaitValue32(stream, word, 1, cuda::kWaitEqual) == cuda::kSuccess;
  }

 private:
  void set(uint32_t value) const {
    __atomic_store_n(reinterpret_cast<uint32_t*>(memory_.data()), value, __ATOMIC_RELEASE);
  }
  cuda::PinnedMemory memory_;
};

/// Gpu::complaints() once all memory is free: what peers had open is freed when a communicator comes or goes.
inline std::string complaintsAtLast() {
  std::string left = Gpu::complaints();
  for (int looks = 0; !left.empty() && looks < 100; ++looks) {
    tuttiUniqueId id;
    tuttiComm_t alone = nullptr;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_CUDA;
    RANK_TRY(tuttiGetUniqueId(&id));
    RANK_TRY(tuttiCommInitRankConfig(&alone, 1, id, 0, &config));
    RANK_TRY(tuttiCommDestroy(alone));
    left = Gpu::complaints();
  }
  return left;
}

/// onRanks() on CUDA devices: rank r on device r % devices, with that device current.
inline std::string onGpuRanks(int nRanks, int devices, const std::function<std::string(const Rank&, GpuRank&)>& body) {
  return onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) {
    GpuRank gpu(rank % devices);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_CUDA;
    return asRank(rank, nRanks, id, config, [&](const Rank& r) { return body(r, gpu); });
  });
}

}  // namespace tutti::test

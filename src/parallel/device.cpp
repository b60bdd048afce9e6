#include "src/parallel/device.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/parallel/cuda_device.hpp"

namespace tutti::parallel {
namespace kernels {
namespace {

constexpr void (*kAlone[])(const void*) = {
#define TUTTI_LAYER_ALONE(Name, Arguments, ...) \
  [](const void* a) { __VA_ARGS__(Alone(), *static_cast<const Arguments*>(a)); },
    TUTTI_LAYER_KERNELS(TUTTI_LAYER_ALONE)
#undef TUTTI_LAYER_ALONE
};

}  // namespace
}  // namespace kernels

namespace {

/// Loops over memory of this process; safe for threads, for it has no state.
class Host final : public Device {
 public:
  int kind() const override { return TUTTI_DEVICE_HOST; }
  tuttiStream_t stream() override { return nullptr; }
  tuttiStream_t ownStream() override { return nullptr; }
  void* allocate(size_t bytes) override { return bytes == 0 ? nullptr : ::operator new(bytes); }
  void release(void* memory, size_t) noexcept override { ::operator delete(memory); }
  void* scratch(size_t bytes) override {
    thread_local std::vector<char> room;
    if (room.size() < bytes) room.resize(bytes);
    return room.data();
  }
  void* nowhere() override {
    static char place[8];
    return place;
  }
  void trim() override {}
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  void zero(void* at, size_t bytes) override { std::memset(at, 0, bytes); }
  void put(void* to, const void* host, size_t bytes) override { copy(to, host, bytes); }
  void get(void* host, const void* from, size_t bytes) override { copy(host, from, bytes); }
  Mark beside(const std::function<void()>& task) override {
    task();
    return nullptr;
  }
  void follow(const Mark&) override {}
  Mark mark() override { return nullptr; }
  bool done(const Mark&) override { return true; }
  void multiplyFast(const tuttiMatmul_t& call, const Batch& batch) override {
    tuttiKernels_t fast = TUTTI_KERNELS_INITIALIZER;
    if (const tuttiResult_t result = tuttiKernelsFast(&fast); result != tuttiSuccess) {
      fail(result, tuttiParallelGetLastError());
    }
    multiplyByTable(fast, call, batch);
  }

 protected:
  void launch(Kernel kernel, const void* arguments, uint64_t) override {
    kernels::kAlone[static_cast<size_t>(kernel)](arguments);
  }
};

}  // namespace

void multiplyByTable(const tuttiKernels_t& kernels, const tuttiMatmul_t& call, const Batch& batch) {
  const int64_t bytes = call.dtype == tuttiFloat32 ? sizeof(float) : sizeof(double);
  for (int64_t i = 0; i < batch.count; ++i) {
    tuttiMatmul_t one = call;
    one.a = static_cast<const char*>(call.a) + i * batch.a * bytes;
    one.b = static_cast<const char*>(call.b) + i * batch.b * bytes;
    one.c = static_cast<char*>(call.c) + i * batch.c * bytes;
    const tuttiResult_t result = kernels.matmul(kernels.context, &one);
    if (result != tuttiSuccess) {
      fail(result, "the matrix product of the kernel table failed: ", tuttiParallelGetLastError());
    }
  }
}

void Device::putInts(int32_t* to, const int32_t* host, size_t n) {
  if (onHost()) return copy(to, host, n * sizeof(int32_t));
  for (size_t first = 0; first < n; first += kernels::kIntsAtOnce) {
    kernels::IntsCall call;
    const size_t count = std::min(n - first, static_cast<size_t>(kernels::kIntsAtOnce));
    call.out = to + first;
    call.count = static_cast<int64_t>(count);
    std::memcpy(call.values, host + first, count * sizeof(int32_t));
    launch(Kernel::SetInts, &call, count);
  }
}

void Device::multiply(const tuttiMatmul_t& m, const Batch& batch) {
  const kernels::ProductCall call{m.c,
                                  m.a,
                                  m.b,
                                  m.m,
                                  m.n,
                                  m.k,
                                  m.transposeA ? 1 : m.lda,
                                  m.transposeA ? m.lda : 1,
                                  m.transposeB ? 1 : m.ldb,
                                  m.transposeB ? m.ldb : 1,
                                  m.ldc,
                                  m.accumulate,
                                  batch.count,
                                  batch.a,
                                  batch.b,
                                  batch.c};
  if (m.m == 0 || m.n == 0 || batch.count == 0) return;
  const uint64_t tiles = static_cast<uint64_t>(batch.count * ((m.m + 3) / 4) * ((m.n + 3) / 4));
  launch(m.dtype == tuttiFloat32 ? Kernel::MultiplyF32 : Kernel::MultiplyF64, &call, tiles * 4);  // one for a thread
}

namespace {

int currentOrdinal(tuttiComm_t comm, int tensorKind) {
  int ordinal = -1;
  if (comm != nullptr) {
    check(tuttiCommCuDevice(comm, &ordinal), comm);
  } else if (tensorKind == TUTTI_DEVICE_CUDA) {
    ordinal = currentCudaDevice();
  }
  return ordinal;
}

}  // namespace

int kindOf(int64_t device) {
  require(device == TUTTI_DEVICE_AUTO || device == TUTTI_DEVICE_HOST || device == TUTTI_DEVICE_CUDA,
          "there is no kind of device ", device);
  return device == TUTTI_DEVICE_CUDA ? TUTTI_DEVICE_CUDA : TUTTI_DEVICE_HOST;
}

Held& heldByThread() {
  thread_local Held held;
  return held;
}

Device& hostDevice() {
  static Host host;
  return host;
}

std::shared_ptr<Device> deviceOf(tuttiComm_t comm, int tensorKind) {
  const int ordinal = currentOrdinal(comm, tensorKind);
  if (ordinal < 0) return {&hostDevice(), [](Device*) {}};
  return openCudaDevice(ordinal);
}

}  // namespace tutti::parallel

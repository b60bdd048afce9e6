#include "src/parallel/device.hpp"

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
  void multiplyFast(const tuttiMatmul_t& call) override {
    tuttiKernels_t fast = TUTTI_KERNELS_INITIALIZER;
    tuttiResult_t result = tuttiKernelsFast(&fast);
    if (result == tuttiSuccess) result = fast.matmul(fast.context, &call);
    if (result != tuttiSuccess) fail(result, tuttiParallelGetLastError());
  }

 protected:
  void launch(Kernel kernel, const void* arguments, uint64_t) override {
    kernels::kAlone[static_cast<size_t>(kernel)](arguments);
  }
};

}  // namespace

void Device::multiply(const tuttiMatmul_t& m) {
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
                                  m.accumulate};
  if (m.m == 0 || m.n == 0) return;
  const uint64_t tiles = static_cast<uint64_t>((m.m + 3) / 4) * static_cast<uint64_t>((m.n + 3) / 4);
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

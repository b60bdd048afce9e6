// Device memory of a process of its own, by the driver: nothing of the library is in the way of what is to fail.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "tests/faults/fault_calls.hpp"

namespace tutti::test {
namespace {

/// What is asked of the driver; its names are those of the newest interface.
struct Driver {
  int (*getProcAddress)(const char* name, void** out, int version, uint64_t flags, int* status) = nullptr;

  template <class... Args>
  bool call(const char* name, Args... args) const {
    void* found = nullptr;
    if (getProcAddress(name, &found, 12000, 0, nullptr) != 0 || found == nullptr) return false;
    return reinterpret_cast<int (*)(Args...)>(found)(args...) == 0;
  }
};

/// Memory that host and device use, as managed memory is.
class CudaBuffers : public FaultBuffers {
 public:
  bool make() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return std::fprintf(stderr, "no CUDA driver: %s\n", dlerror()), false;
    void* const entry = dlsym(library, "cuGetProcAddress_v2");
    if (entry == nullptr) return std::fprintf(stderr, "no cuGetProcAddress_v2 in libcuda.so.1\n"), false;
    driver_.getProcAddress = reinterpret_cast<decltype(driver_.getProcAddress)>(entry);
    void* context = nullptr;
    const bool made = driver_.call("cuInit", 0U) && driver_.call("cuDevicePrimaryCtxRetain", &context, 0) &&
                      driver_.call("cuCtxPushCurrent", context) &&
                      driver_.call("cuMemAllocManaged", &in_, kInCount * sizeof(float), 1U) &&
                      driver_.call("cuMemAllocManaged", &out_, kOutCount * sizeof(float), 1U);
    if (!made) return std::fprintf(stderr, "the CUDA driver gives no managed memory\n"), false;
    for (size_t i = 0; i < kInCount; ++i) in()[i] = 1.0F;
    return true;
  }
  float* in() override { return reinterpret_cast<float*>(in_); }
  float* out() override { return reinterpret_cast<float*>(out_); }
  // Once more where this call is the one that fails.
  void finish() override {
    if (!synchronize()) (void)synchronize();
  }

 private:
  bool synchronize() { return driver_.call("cuStreamSynchronize", static_cast<void*>(nullptr)); }

  Driver driver_;
  uint64_t in_ = 0, out_ = 0;
};

}  // namespace

std::unique_ptr<FaultBuffers> makeCudaBuffers() {
  auto buffers = std::make_unique<CudaBuffers>();
  return buffers->make() ? std::move(buffers) : nullptr;
}

}  // namespace tutti::test

#include "src/parallel/cuda_driver.hpp"

#include <dlfcn.h>

#include <cstring>

namespace tutti::parallel {
namespace {

using GetProcAddress = cuda::Error (*)(const char* name, void** function, int version, uint64_t flags, void* found);

/// Throws what it says again at each call: a failed initialization of a static is tried again.
CudaDriver loadCudaDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(tuttiInvalidUsage, "there is no CUDA driver: ", dlerror());
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) fail(tuttiInvalidUsage, "the CUDA driver is older than 12.0: it has no cuGetProcAddress_v2");
  CudaDriver driver;
  const auto get = [&](const char* name, int version, auto* member) {
    void* function = nullptr;
    const cuda::Error error = find(name, &function, version, 0, nullptr);
    if (error != cuda::kSuccess || function == nullptr) {
      fail(tuttiInvalidUsage, "the CUDA driver has no ", name, " of version ", version, " (error ", error, ")");
    }
    std::memcpy(member, &function, sizeof function);
  };
#define TUTTI_LAYER_CUDA_GET(name, version, parameters) get(#name, version, &driver.name);
  TUTTI_CUDA_FUNCTIONS(TUTTI_LAYER_CUDA_GET)
#undef TUTTI_LAYER_CUDA_GET
  const cuda::Error error = driver.cuInit(0);
  if (error != cuda::kSuccess) fail(tuttiInvalidUsage, "the CUDA driver does not start: error ", error);
  return driver;
}

}  // namespace

const CudaDriver& cudaDriver() {
  static const CudaDriver loaded = loadCudaDriver();
  return loaded;
}

void checkCuda(cuda::Error error, const char* what) {
  if (error == cuda::kSuccess) return;
  const char* name = nullptr;
  const char* text = nullptr;
  cudaDriver().cuGetErrorName(error, &name);
  cudaDriver().cuGetErrorString(error, &text);
  fail(tuttiUnhandledCudaError, what, " gave ", name != nullptr ? name : "an unknown error", " ", error, " (",
       text != nullptr ? text : "?", ")");
}

}  // namespace tutti::parallel

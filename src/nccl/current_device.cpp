#include "src/nccl/current_device.hpp"

#include <dlfcn.h>

#include <cstdint>

namespace tutti::nccl {

int currentDevice() {
  using GetProcAddress = int (*)(const char* name, void** function, int version, uint64_t flags, void* status);
  using GetDevice = int (*)(int* device);
  constexpr int kVersion = 2000;  // of this form of cuCtxGetDevice: CUDA 2.0
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return -1;
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(driver, "cuGetProcAddress_v2"));
  void* function = nullptr;
  int device = -1;
  if (find != nullptr && find("cuCtxGetDevice", &function, kVersion, 0, nullptr) == 0 && function != nullptr) {
    if (reinterpret_cast<GetDevice>(function)(&device) != 0) device = -1;
  }
  dlclose(driver);
  return device;
}

}  // namespace tutti::nccl

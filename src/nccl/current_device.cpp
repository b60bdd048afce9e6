#include "src/nccl/current_device.hpp"

#include <dlfcn.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tutti::nccl {

namespace {

constexpr int kGetDeviceVersion = 2000;  // the form of the function since CUDA 2.0
constexpr int kGetBusIdVersion = 4010;

/// A function of the driver, if the process has loaded one.  handle: to be closed after its use.
template <class Function>
Function find(const char* name, int version, void** handle) {
  using GetProcAddress = int (*)(const char* name, void** function, int version, uint64_t flags, void* status);
  *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (*handle == nullptr) return nullptr;
  const auto look = reinterpret_cast<GetProcAddress>(dlsym(*handle, "cuGetProcAddress_v2"));
  void* function = nullptr;
  if (look == nullptr || look(name, &function, version, 0, nullptr) != 0) return nullptr;
  return reinterpret_cast<Function>(function);
}

}  // namespace

int currentDevice() {
  void* driver = nullptr;
  const auto get = find<int (*)(int* device)>("cuCtxGetDevice", kGetDeviceVersion, &driver);
  int device = -1;
  if (get != nullptr && get(&device) != 0) device = -1;
  if (driver != nullptr) dlclose(driver);
  return device;
}

unsigned long long busIdOf(int device) {
  void* driver = nullptr;
  const auto get = find<int (*)(char* text, int bytes, int device)>("cuDeviceGetPCIBusId", kGetBusIdVersion, &driver);
  char text[32] = "";
  unsigned long long number = 0;
  if (device >= 0 && get != nullptr && get(text, sizeof text, device) == 0) {
    std::string digits;
    for (const char c : std::string_view(text)) {
      if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
    }
    number = std::strtoull(digits.c_str(), nullptr, 16);
  }
  if (driver != nullptr) dlclose(driver);
  return number;
}

}  // namespace tutti::nccl

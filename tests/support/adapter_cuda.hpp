// Adapters of the tests (verbs, NCCL's plugin) ask the CUDA driver of the tests about device memory here.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tutti::test {

/// Null where there is no such driver.
struct AdapterCuda {
  int (*isDeviceMemory)(uint64_t address) = nullptr;
  int (*adapterWrites)(uint64_t to, uint64_t from, size_t bytes) = nullptr;
  void (*adapterReads)(uint64_t from, size_t bytes) = nullptr;
};
inline const AdapterCuda& cuda() {
  static const AdapterCuda found = [] {
    AdapterCuda driver;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return driver;
    const auto find = [library](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    };
    find(&driver.isDeviceMemory, "fakeCudaIsDeviceMemory");
    find(&driver.adapterWrites, "fakeCudaAdapterWrites");
    find(&driver.adapterReads, "fakeCudaAdapterReads");
    return driver;
  }();
  return found;
}

}  // namespace tutti::test

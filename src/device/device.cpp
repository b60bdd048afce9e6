#include "src/device/device.hpp"

namespace tutti {

Status Device::put(void* to, const void* host, size_t bytes) {
  TUTTI_TRY(copy(to, host, bytes));
  return wait();
}

// Waits before, too, as CUDA copies to pageable memory only when it has waited itself, with no way to give up.
Status Device::get(void* host, const void* from, size_t bytes) {
  TUTTI_TRY(wait());
  TUTTI_TRY(copy(host, from, bytes));
  return wait();
}

}  // namespace tutti

#include "src/comm/registrations.hpp"

namespace tutti {

void* Registrations::add(void* buffer, size_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_[next_] = {buffer, bytes};
  return reinterpret_cast<void*>(next_++);
}

bool Registrations::has(void* handle) const {
  const std::lock_guard lock(mutex_);
  return ranges_.contains(reinterpret_cast<uintptr_t>(handle));
}

Status Registrations::remove(void* handle) {
  const std::lock_guard lock(mutex_);
  if (ranges_.erase(reinterpret_cast<uintptr_t>(handle)) == 1) return {};
  return invalidArgument("handle is not a registration of this communicator (or was removed already)");
}

}  // namespace tutti

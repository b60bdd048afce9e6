#include "src/comm/cuda/gates.hpp"

#include <map>

namespace tutti {

std::shared_ptr<DeviceGates> DeviceGates::of(cuda::Device ordinal) {
  // Process-wide because the device's context is.
  static std::mutex mutex;
  static auto& all = *new std::map<cuda::Device, std::shared_ptr<DeviceGates>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceGates>& gates = all[ordinal];
  if (gates == nullptr) gates = std::make_shared<DeviceGates>();
  return gates;
}

void DeviceGates::close() {
  const std::lock_guard lock(mutex_);
  ++closed_;
}

void DeviceGates::open() {
  const std::lock_guard lock(mutex_);
  if (--closed_ > 0) return;
  for (std::function<void()>& task : putOff_) task();
  putOff_.clear();
}

bool DeviceGates::tryRun(const std::function<void()>& task) {
  const std::lock_guard lock(mutex_);
  if (closed_ == 0) task();
  return closed_ == 0;
}

void DeviceGates::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (closed_ > 0) return putOff_.push_back(std::move(task));
  task();
}

}  // namespace tutti

#include "src/comm/cuda/gates.hpp"

#include <map>

#include "src/base/threads.hpp"

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

// It may be the progress engine's thread, which others wait for, and tasks may wait for the device.
void DeviceGates::open() {
  const std::lock_guard lock(mutex_);
  if (--closed_ > 0 || putOff_.empty()) return;
  Result<std::thread> aside = startThread("work of a device that was put off", [gates = shared_from_this()] {
    const std::lock_guard running(gates->mutex_);
    gates->runPutOff();
  });
  if (aside.ok()) aside->detach();  // else the next gate that opens, or task that comes, has them run
}

/// If no gate has been closed again.  With the lock.
void DeviceGates::runPutOff() {
  if (closed_ > 0) return;
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
  putOff_.push_back(std::move(task));
  runPutOff();
}

}  // namespace tutti

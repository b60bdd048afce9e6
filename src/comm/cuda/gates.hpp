// Gates: where streams wait for proxies of this process, by device.
//
// By a proxy a rank's stream waits at a gate until the other ranks have come to the call.  Ranks that are threads of
// one process and share a device share its context, so what waits for the device waits at the gates of all of them; and
// for ever, if it is done by a rank that others wait for.  Freeing memory waits for the device, and allocating pinned
// memory may.  Ranks that share a device do so while no gate there is closed, and close none meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/device/cuda/device.hpp"

namespace tutti {

/// Of one device and this process.  Any thread.
class DeviceGates : public std::enable_shared_from_this<DeviceGates> {
 public:
  static std::shared_ptr<DeviceGates> of(cuda::Device ordinal);

  /// A gate is closed from now on.  Before it is enqueued.
  void close();
  /// What opens it is enqueued.  If it was the last, what has been put off runs, on a thread of its own.
  void open();
  /// Runs the task if no gate is closed; whether it has.
  bool tryRun(const std::function<void()>& task);
  /// Runs the task at once, or when the last gate has opened.
  void run(std::function<void()> task);

 private:
  void runPutOff();

  std::mutex mutex_;  // guards what follows, and is held while tasks run
  int closed_ = 0;
  std::vector<std::function<void()>> putOff_;
};

}  // namespace tutti

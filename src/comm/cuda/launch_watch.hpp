// Sees launches of blocks that do not start (transport/cuda/resident_memory.hpp says which those are).
#pragma once

#include <memory>

#include "transport/cuda/resident_memory.hpp"

namespace tutti {

/// Of the rank that launches.  One thread at a time, and not the communicator's: that one may wait for the device.
class LaunchWatch {
 public:
  /// fallsBack: whether calls go by streams once a launch has been held up.
  LaunchWatch(std::shared_ptr<cuda::ResidentMemory> memory, int device, bool fallsBack)
      : memory_(std::move(memory)), device_(device), fallsBack_(fallsBack) {}

  /// Now and then: says so if a launch that its stream has come to has not started for kHeldUpNs, once for each
  /// communicator, and notes it in ResidentMemory::heldUp.  Asks the driver nothing.  False: nothing is under way.
  bool look();

  static constexpr int64_t kHeldUpNs = 2'000'000'000;

 private:
  std::shared_ptr<cuda::ResidentMemory> memory_;
  int device_;
  bool fallsBack_;
  uint32_t reached_ = 0;  // the launch that had not started at the last look
  int64_t sinceNs_ = 0;   // of that
};

}  // namespace tutti

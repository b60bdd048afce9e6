// The user's memory that has been registered with a communicator.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "src/base/status.hpp"

namespace tutti {

/// Any thread.  A registration is a promise that the memory stays; what can be read directly, and how, is the
/// transports' business (memory of tuttiMemAlloc by mapping, any memory by process_vm_readv or within a process; of
/// CUDA devices what transport/cuda/memory_exchange.hpp says).
class Registrations {
 public:
  void* add(void* buffer, size_t bytes);
  bool has(void* handle) const;
  /// Errors: InvalidArgument if `handle` is not one that add() gave and that is still there.
  Status remove(void* handle);

 private:
  struct Range {
    void* buffer;
    size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;
  uintptr_t next_ = 1;
};

}  // namespace tutti

// Worker: copies and reduces for a plan whose memory is not the host's.
#pragma once

#include <span>

#include "src/base/status.hpp"
#include "src/exec/reduce/reduce.hpp"

namespace tutti {

/// The executor's arithmetic for other memory than the host's.  A call may return before its work is done, but what is
/// asked for later, here and of the plan's endpoints, comes after it.  One thread at a time.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual Status copy(void* dst, const void* src, size_t bytes) = 0;
  /// As reduceMany(); two sources or more.
  virtual Status reduce(const Reduction& r, void* dst, std::span<const void* const> sources, size_t count) = 0;
  /// As scale(); onDevice: `scalar` is in this worker's memory rather than the host's.
  virtual Status scale(tuttiDataType_t dtype, void* dst, const void* src, const void* scalar, bool onDevice,
                       size_t count) = 0;
  /// As divide().
  virtual Status divide(tuttiDataType_t dtype, void* data, int divisor, size_t count) = 0;
};

}  // namespace tutti

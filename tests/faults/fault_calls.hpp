// Sets of operations, by name, that two ranks make while calls of the system fail.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

inline constexpr int kFaultTimeoutMs = 3000;

/// Memory that ranks call with, made before calls may fail.
class FaultBuffers {
 public:
  virtual ~FaultBuffers() = default;
  virtual float* in() = 0;   // kInCount of 1
  virtual float* out() = 0;  // kOutCount
  /// What has been enqueued on the default stream is done.
  virtual void finish() {}
  static constexpr size_t kInCount = 100'000, kOutCount = 200'000;
};

std::unique_ptr<FaultBuffers> makeHostBuffers();
/// Memory of device 0, which the process has to itself.  Errors: null, and why on stderr.
std::unique_ptr<FaultBuffers> makeCudaBuffers();

struct FaultCalls {
  const char* name;
  /// On a communicator of two ranks, which stays the caller's.  wrong: counts elements that are.
  tuttiResult_t (*run)(tuttiComm_t comm, int rank, FaultBuffers& buffers, int* wrong);
  bool fromTheStart;  // calls fail from the making of the communicator on, else from there
  bool cuda;
};

const std::array<FaultCalls, 7>& faultCalls();

}  // namespace tutti::test

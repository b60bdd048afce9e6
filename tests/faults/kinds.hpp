// Kinds of calls that can be made to fail.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::test {

enum class FaultKind : uint8_t {
  Allocation,
  Map,
  SharedMemory,
  Socket,
  Send,
  Receive,
  Open,
  Events,
  Thread,
  Random,
  Driver,  // calls of the CUDA driver of the tests
};
inline constexpr std::array<const char*, 11> kFaultNames = {
    "allocation", "mmap", "memfd", "socket", "send", "receive", "open", "eventfd", "thread", "random", "driver"};

/// A way by which the program comes to a call: the call's stack, as a number.
struct FaultPath {
  std::atomic<uint64_t> stack;  // 0: none
  size_t bytes;                 // of the first such allocation
  bool foreign;                 // made by a library that plays a driver for tests: not to fail
};
inline constexpr size_t kMostFaultPaths = 1 << 16;

}  // namespace tutti::test

// What tests ask of the libibverbs of software beside what verbs.h says; found by name in the loaded library.
#pragma once

namespace tutti::fake_verbs {

inline constexpr int kDevices = 4;  // fake_0 to fake_3, a port each; every one reaches every other

enum class Fault : int {
  None,            // the port is up, as an event says if it was down, and its next operations succeed
  Lost,            // operations do not arrive, and the sender is told that no answer came
  Unacknowledged,  // they arrive, and the sender is told that no answer came
  PortDown,        // an event says so; operations do not arrive, and nobody is told
};

/// The fault befalls the operations of `device` behind the next `after`.  An operation needs the ports of both ends.
using Fail = void(const char* device, Fault fault, unsigned after);
inline constexpr const char* kFail = "fakeVerbsFail";
/// Bytes that operations of the device's queue pairs have carried, ever.
using Carried = unsigned long(const char* device);
inline constexpr const char* kCarried = "fakeVerbsCarried";
/// Regions that were registered by DMA-BUF, of those that there are.
using CountDmaBufs = int();
inline constexpr const char* kCountDmaBufs = "fakeVerbsCountDmaBufs";

}  // namespace tutti::fake_verbs

// What the system maps at addresses of this process, as /proc/self tells it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace tutti {

struct MappedRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::string permissions;  // as "rw-p"
  uint64_t offset = 0;      // of `begin` in the file
  std::string device;       // of the file, as "00:01"
  uint64_t inode = 0;       // of the file; 0: anonymous memory
  std::string name;         // the file, or what the system calls it, as "[heap]"
  std::string flags;        // proc(5), VmFlags: pairs of letters, each followed by a space; "" where nobody asked
  bool keyed = false;       // under a protection key (pkeys(7))
};

/// The ranges that overlap [begin, end), in order.  withFlags: with `flags` and `keyed`, for which the system walks the
/// pages of all memory below `end`.  Any thread.  Errors: SystemError.
Result<std::vector<MappedRange>> mappedRanges(uintptr_t begin, uintptr_t end, bool withFlags);

/// Where memory of devices of NVIDIA or AMD is mapped, which says that they may write to memory of this process; "".
std::string mappedDevice();

/// Bytes of this process that the system has pinned for adapters or io_uring; 0 where it does not say.
size_t pinnedBytes();

/// What the system can still give, or SIZE_MAX where it does not say.  Populating more would not fail: it would call
/// the kernel's out-of-memory killer.
size_t availableBytes();

}  // namespace tutti

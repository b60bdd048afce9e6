// All memory of this process that peers can be given a mapping of: the one table behind host_memory and adopted_memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>

#include "src/base/fd.hpp"
#include "src/base/forked.hpp"
#include "src/device/host/host_memory.hpp"
#include "src/device/host/shared_memory.hpp"

namespace tutti {

/// [begin, end), whole pages.
struct Pages {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  size_t bytes() const { return static_cast<size_t>(end - begin); }
  bool holds(const void* at) const { return at >= begin && at < end; }
};

/// The caller's memory in a memfd.  Whole pages lie where they lay before; what else there is of it shares pages with
/// memory of others, and has a copy in the page of the memfd before them, or behind them, while it is sent.
struct Adopted {
  Pages pages;
  Mapping head;          // the page before them; empty: there is no such rest
  Mapping tail;          // the page behind them
  int users = 0;         // registrations; under the lock of adoptions
  bool visible = false;  // to hostLookup()
  bool apart = false;    // no longer shared: a fork has made it private, or the program has other memory there
};

struct Allocation {
  AllocationId id;
  std::byte* begin = nullptr;
  size_t bytes = 0;  // as asked for
  size_t lead = 0;   // where `begin` lies in the memfd
  Fd fd;
  Mapping mapping;  // of all of it; empty: adopted
  Adopted adopted;

  bool isAdopted() const { return mapping.data() == nullptr; }
  bool holds(const std::byte* data, size_t size) const {
    return data >= begin && static_cast<size_t>(data - begin) <= bytes &&
           size <= bytes - static_cast<size_t>(data - begin);
  }
};

struct HostTable {
  ProcessMutex mutex;
  std::map<AllocationId, Allocation> all;  // under mutex
  std::map<const std::byte*, Allocation*>
      byBegin;  // under mutex; adopted memory that is not there any more is not here
  std::atomic<uint64_t> frees{0};
  // All that was ever in byBegin lies between these; changed under mutex.
  std::atomic<const std::byte*> lowest{reinterpret_cast<const std::byte*>(UINTPTR_MAX)};
  std::atomic<const std::byte*> highest{nullptr};

  /// Into byBegin.  Under mutex.
  void list(Allocation* a) {
    byBegin.emplace(a->begin, a);
    lowest = std::min(lowest.load(), static_cast<const std::byte*>(a->begin));
    highest = std::max(highest.load(), static_cast<const std::byte*>(a->begin + a->bytes));
  }
  /// False: nothing in the table holds this byte.  Without the lock: whoever has a pointer into memory of the table
  /// has it from the thread that listed that memory.
  bool mayHold(const void* at) const {
    return at >= lowest.load(std::memory_order_relaxed) && at <= highest.load(std::memory_order_relaxed);
  }
};

HostTable& hostTable();

/// Errors: SystemError.
Result<AllocationId> newAllocationId();

}  // namespace tutti

// What the driver knows of addresses.
#pragma once

#include <set>

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {

enum class Kind { Device, Pinned, Managed, Mapping };

struct Allocation {
  size_t bytes;  // as asked for
  size_t mapped;
  Kind kind;
  int device;
  int fd;                 // -1: opened from another process
  bool freed;             // kept unmapped, so that a late access is seen
  uint64_t pages;         // of a Mapping: what it shows
  std::set<int> open;     // of a Mapping: devices that may use it
  uint64_t serial;        // of the process's own allocations; 0: of others
  bool pooled = false;    // allocated in the order of a stream: of its device alone
  bool combined = false;  // write-combined: devices have it at another address
};

struct Memory {
  std::mutex mutex;
  std::map<Address, Allocation> byAddress;  // guarded by mutex
};
Memory& memory();

/// The allocation that holds `address`, freed ones too; with the lock.
std::map<Address, Allocation>::iterator findAllocation(Address address);
/// Nothing may access the range any more.
void closeRange(Address address, size_t bytes);

/// A descriptor of its own for the pages behind a mapping; -1: they are not for adapters.  With the lock.
int openPages(const Allocation& mapping);

/// Part of memoryLeaks(); with the lock.
std::string virtualLeaks();

}  // namespace tutti::fake

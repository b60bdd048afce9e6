// Plain memory of the caller's that peers can map: its pages are moved into a memfd, where they lie.
//
// Moving copies, and what is written meanwhile by another thread, a device or the kernel (io_uring, a read under way)
// is lost; threads may read at any time.  Afterwards the memory is the caller's as before: it reads and writes there,
// and may be freed by whoever allocated it, when it has been given back.  While it is adopted:
//   fork()       the child has what any child has, a copy of its own that is made as pages are written.  The memory is
//                private to both from then on: peers do not read it any more until it is adopted anew.  A child that
//                was made past the C library (clone(), _Fork()) finds nothing mapped there
//   madvise()    MADV_DONTNEED does not zero it; advice given before is kept, and so are policies of mbind()
//   mremap()     moves the memory, which is not found any more and stays in its memfd
//   munmap()     and other memory at the same place: a mistake of the caller's, for peers would read what was there
//   before
#pragma once

#include <cstddef>
#include <memory>

#include "src/device/host/host_memory.hpp"

namespace tutti {

/// A registration's use of adopted memory.  Any thread.
class Adoption {
 public:
  /// Adopt the whole pages of [data, data + bytes), or use them with those who have adopted it, or a part that holds
  /// all of it; null: it is of tuttiMemAlloc or libtutti_malloc.so.  hostLookup() then finds all of it.  Nobody may
  /// write there meanwhile. Errors: InvalidUsage, a clause that says why the memory cannot be adopted; SystemError.
  /// Nothing has changed then.
  static Result<std::unique_ptr<Adoption>> of(void* data, size_t bytes);

  /// The last one leaves the memory private to the process without touching it: peers may keep a mapping of what it
  /// was, and the pages with it.  Other threads may write meanwhile.
  ~Adoption();
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;

  /// The last one makes the memory private and anonymous, as it was, with what it now holds, as far as there is memory
  /// for that; what remains is left as by the destructor.  Nobody may write there meanwhile.  Once.
  void giveBack();

 private:
  Adoption() = default;
  void leave(bool anonymous);
  AllocationId id_;
  bool left_ = true;  // until it is there
};

}  // namespace tutti

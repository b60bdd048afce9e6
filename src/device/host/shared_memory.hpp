// Memory that processes of one host share: a memfd, and mappings of it.
//
// A memfd has no name in any file system, so that nothing is left behind however its processes end: the kernel frees it
// with its last descriptor and mapping.  It is sealed against changing its size, so that a mapping of it can never
// raise SIGBUS, whatever the other process does.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"

namespace tutti {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// `bytes` rounded up to whole pages.
size_t roundToPages(size_t bytes);

/// A new memfd of exactly `bytes`, all zero, mode 0600, close-on-exec, sealed.  Costs no memory until it is touched.
/// Errors: SystemError.
Result<Fd> createSharedMemory(size_t bytes);

/// The size of somebody else's memfd.  Errors: InvalidUsage if it is none, or one that could still shrink.
Result<size_t> sharedMemoryBytes(int fd);

/// A read-write MAP_SHARED mapping with one owner; unmapped by the destructor.  Left out of core dumps.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  /// Map [offset, offset + bytes) of fd, whole pages, at an address that is `phase` beyond a multiple of `alignment` (a
  /// power of two; at least a page is always given).  The descriptor may be closed afterwards.  fd -1: memory of this
  /// process alone, zeroed, in core dumps, too.  Errors: SystemError.
  static Result<Mapping> of(int fd, size_t bytes, size_t alignment = 1, size_t phase = 0, size_t offset = 0);

  /// Leave forked children without it.  A child that ends this mapping all the same ends what it has there itself.
  void keepFromChildren() const;

  /// Move it to `to`, over what is mapped there, which threads that read there see in its place from one moment to the
  /// next.  False, and nothing has changed: the system refuses.
  bool moveTo(std::byte* to);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Have the kernel give pages to [begin, begin + bytes) now, writable, instead of one fault each at first use.
/// Contents are kept.  False if there is not enough memory.
bool populate(std::byte* begin, size_t bytes);

}  // namespace tutti

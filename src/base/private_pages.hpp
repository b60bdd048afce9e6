// Private memory in pages of its own.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string_view>

#include "src/base/status.hpp"
#include "src/base/text.hpp"

namespace tutti {

/// Zeroed memory that shares no page with other memory, so that what adapters or fork() do to its pages concerns
/// nothing else.  Owns it.
class PrivatePages {
 public:
  PrivatePages() = default;
  /// what: for the error, "slots".  Errors: SystemError, no memory.
  static Result<PrivatePages> take(size_t bytes, std::string_view what) {
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
      return errnoError(errno, ErrorCode::NoMemory, cat("no memory for ", bytes, " bytes of ", what));
    PrivatePages taken;
    taken.memory_ = {static_cast<std::byte*>(pages), Unmap(bytes)};
    return taken;
  }
  std::byte* data() const { return memory_.get(); }
  size_t bytes() const { return memory_.get_deleter().bytes; }
  /// Asks for large pages.  Before the memory is touched.
  void useLargePages() const { (void)madvise(data(), bytes(), MADV_HUGEPAGE); }

 private:
  struct Unmap {
    Unmap() : bytes(0) {}
    explicit Unmap(size_t size) : bytes(size) {}
    void operator()(std::byte* memory) const { munmap(memory, bytes); }
    size_t bytes;
  };
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace tutti

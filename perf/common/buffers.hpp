// Memory of one rank: allocated once for the largest row, with room on both sides that must stay as it was.
#pragma once

#include <cstddef>

#include "tutti/tutti.h"

namespace tutti::perf {

/// [data, data + bytes) with kGuardBytes to spare on both sides.  Throws Failure.  Page aligned plus misalignBytes.
class Buffer {
 public:
  static constexpr size_t kGuardBytes = 64;

  Buffer() = default;
  /// comm set: memory from tuttiMemAlloc, or malloc's where `plain`, registered with comm, which must outlive the
  /// Buffer.
  Buffer(size_t bytes, size_t misalignBytes, tuttiComm_t comm, bool plain = false);
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void release();
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  tuttiComm_t comm_ = nullptr;
  void* handle_ = nullptr;
  bool library_ = false;  // from tuttiMemAlloc
};

}  // namespace tutti::perf

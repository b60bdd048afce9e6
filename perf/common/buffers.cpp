#include "perf/common/buffers.hpp"

#include <cstdlib>
#include <utility>

#include "perf/common/world.hpp"

namespace tutti::perf {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

Buffer::Buffer(size_t bytes, size_t misalignBytes, tuttiComm_t comm, bool plain) : bytes_(bytes), comm_(comm) {
  const size_t total = (bytes + misalignBytes + kPageBytes - 1) / kPageBytes * kPageBytes + 2 * kPageBytes;
  library_ = comm != nullptr && !plain;
  void* memory = nullptr;
  if (library_) {
    check(tuttiMemAlloc(&memory, total), nullptr, "tuttiMemAlloc");
  } else if (memory = std::aligned_alloc(kPageBytes, total); memory == nullptr) {
    throw Failure("no memory for a buffer of " + std::to_string(total) + " bytes");
  }
  base_ = static_cast<std::byte*>(memory);
  data_ = base_ + kPageBytes + misalignBytes;
  if (comm_ != nullptr) check(tuttiCommRegister(comm, base_, total, &handle_), comm, "tuttiCommRegister");
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  base_ = std::exchange(other.base_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  comm_ = std::exchange(other.comm_, nullptr);
  handle_ = std::exchange(other.handle_, nullptr);
  library_ = std::exchange(other.library_, false);
  return *this;
}

void Buffer::release() {
  if (base_ == nullptr) return;
  if (handle_ != nullptr) (void)tuttiCommDeregister(comm_, handle_);
  if (library_) {
    (void)tuttiMemFree(base_);
  } else {
    std::free(base_);
  }
  base_ = nullptr;
}

}  // namespace tutti::perf

#include "src/device/host/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/base/file_limit.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3: include/uapi/linux/memfd.h
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14: include/uapi/asm-generic/mman-common.h
#endif

namespace tutti {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

size_t pageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Kernels before 6.3 do not know MFD_NOEXEC_SEAL; hardened newer ones refuse a memfd without it.
Fd newMemfd() {
  Fd fd(memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd = Fd(memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fd;
}

}  // namespace

size_t roundToPages(size_t bytes) { return (bytes + pageBytes() - 1) / pageBytes() * pageBytes(); }

Result<Fd> createSharedMemory(size_t bytes) {
  Fd fd = newMemfd();
  if (!fd.valid()) return errnoError(errno, ErrorCode::SharedMemoryRefused, "memfd_create");
  if (fchmod(fd.get(), 0600) != 0) return errnoError(errno, ErrorCode::SharedMemoryRefused, "fchmod of a memfd");
  const FileLimitAsError noSignal;
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    const char* limit = errno == EFBIG ? " (more than `ulimit -f` allows)" : "";
    return errnoError(errno, ErrorCode::SharedMemoryRefused, cat("making a memfd of ", bytes, " bytes", limit));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return errnoError(errno, ErrorCode::SharedMemoryRefused, "sealing a memfd");
  return fd;
}

Result<size_t> sharedMemoryBytes(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return remoteError(ErrorCode::Malformed, "descriptor is not a sealed memfd");
  struct stat info {};
  if (fstat(fd, &info) != 0) return errnoError(errno, ErrorCode::SharedMemoryRefused, "fstat of a memfd");
  return static_cast<size_t>(info.st_size);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<Mapping> Mapping::of(int fd, size_t bytes, size_t alignment, size_t phase, size_t offset) {
  bytes = roundToPages(bytes);
  const size_t slack = alignment > pageBytes() ? alignment : 0;
  // Reserve addresses first: only inside a reservation can the place be chosen without running over somebody else's.
  void* reserved = mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return errnoError(errno, ErrorCode::SharedMemoryRefused, cat("reserving ", bytes + slack, " bytes of addresses"));
  auto* first = static_cast<std::byte*>(reserved);
  const size_t lead = slack == 0 ? 0 : (alignment + phase - reinterpret_cast<uintptr_t>(first) % alignment) % alignment;
  if (lead != 0) munmap(first, lead);
  if (slack != lead) munmap(first + lead + bytes, slack - lead);
  Mapping mapping(first + lead, bytes);
  const int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  if (mmap(mapping.data_, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset)) == MAP_FAILED) {
    return errnoError(errno, ErrorCode::SharedMemoryRefused, cat("mapping ", bytes, " bytes of a memfd"));
  }
  if (fd >= 0) madvise(mapping.data_, bytes, MADV_DONTDUMP);
  return mapping;
}

bool Mapping::moveTo(std::byte* to) {
  if (mremap(data_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return false;
  data_ = nullptr;
  bytes_ = 0;
  return true;
}

void Mapping::keepFromChildren() const { madvise(data_, bytes_, MADV_DONTFORK); }

bool populate(std::byte* begin, size_t bytes) {
  if (bytes == 0) return true;
  const size_t page = pageBytes();
  const uintptr_t from = reinterpret_cast<uintptr_t>(begin) / page * page;
  const size_t length = roundToPages(reinterpret_cast<uintptr_t>(begin) + bytes - from);
  auto* first = reinterpret_cast<std::byte*>(from);
  if (madvise(first, length, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  // Before Linux 5.14: touch every page.  Adding 0 atomically writes without changing what a peer may be writing.
  for (size_t at = 0; at < length; at += page) {
    __atomic_fetch_add(reinterpret_cast<unsigned char*>(first + at), 0, __ATOMIC_RELAXED);
  }
  return true;
}

}  // namespace tutti

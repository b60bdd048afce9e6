#include "src/recorder/record_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "src/base/fd.hpp"

namespace tutti {
namespace {

size_t bytesOf(size_t numRecords) { return sizeof(FileHeader) + numRecords * sizeof(Record); }

// posix_fallocate() beyond the limit would end the process with SIGXFSZ.
bool fitsFileLimit(size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace

RecordMemory::RecordMemory(RecordMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

RecordMemory& RecordMemory::operator=(RecordMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

RecordMemory::~RecordMemory() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Result<RecordMemory> RecordMemory::inPages(size_t numRecords) {
  RecordMemory memory;
  memory.bytes_ = bytesOf(numRecords);
  void* const base = mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return systemError(ErrorCode::NoMemory, "cannot map ", memory.bytes_,
                       " bytes for the flight recorder: ", std::strerror(errno));
  memory.base_ = base;
  return memory;
}

Result<RecordMemory> RecordMemory::inFile(const std::string& path, size_t numRecords) {
  RecordMemory memory;
  memory.bytes_ = bytesOf(numRecords);
  const auto refuse = [&](int error) {
    return systemError(ErrorCode::RecordNotWritten, "TUTTI_TRACE: cannot make ", path, " with room for ", numRecords,
                       " records (", memory.bytes_, " bytes): ", std::strerror(error),
                       "; TUTTI_RECORD_CALLS sets how many there are");
  };
  if (!fitsFileLimit(memory.bytes_)) return refuse(EFBIG);
  const Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return refuse(errno);
  if (const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(memory.bytes_)); error != 0) {
    (void)unlink(path.c_str());
    return refuse(error);
  }
  void* const base = mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (base == MAP_FAILED) return refuse(errno);
  memory.base_ = base;
  return memory;
}

}  // namespace tutti

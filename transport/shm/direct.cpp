#include "transport/shm/direct.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "src/base/caught.hpp"

namespace tutti::shm {
namespace {

bool hasHoles(int fd, size_t bytes) { return lseek(fd, 0, SEEK_HOLE) < static_cast<off_t>(bytes); }

constexpr int64_t kFetchTimeoutMs = 10'000;

std::string keyOf(const AllocationId& id) { return cat("mem:", toHex(&id, sizeof id)); }

}  // namespace

AllocationExchange::~AllocationExchange() {
  // Without memory for its key a descriptor stays there until the communicator goes.
  (void)caught([this]() -> Status {
    for (const auto& [id, fd] : served_) exchange_.unserve(keyOf(id));
    return {};
  });
}

Status AllocationExchange::serve(const AllocationId& id) {
  const std::lock_guard lock(mutex_);
  if (served_.contains(id)) return {};
  dropFreed();
  TUTTI_ASSIGN(Fd fd, hostShare(id));
  TUTTI_TRY(exchange_.serve(keyOf(id), fd.get()));
  served_.emplace(id, std::move(fd));
  return {};
}

// Descriptors of freed allocations would pile up in a program that allocates and frees in a loop.
void AllocationExchange::dropFreed() {
  for (auto at = served_.begin(); at != served_.end();) {
    if (hostAlive(at->first)) {
      ++at;
      continue;
    }
    exchange_.unserve(keyOf(at->first));
    at = served_.erase(at);
  }
}

Result<std::shared_ptr<const Mapping>> AllocationExchange::map(int peer, const AllocationId& id) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = mapped_.find(id); at != mapped_.end()) {
      at->second.lastUse = ++uses_;
      return at->second.mapping;
    }
  }
  TUTTI_ASSIGN(const Fd fd, awaitValue(*exchange_.fetch(peer, keyOf(id)), Deadline::inMs(kFetchTimeoutMs),
                                       cat("lent memory of rank ", peer)));
  TUTTI_ASSIGN(const size_t bytes, sharedMemoryBytes(fd.get()));
  TUTTI_ASSIGN(Mapping mapping, Mapping::of(fd.get(), bytes, bytes >= kHugePageBytes ? kHugePageBytes : 1));
  // Its pages are there already, but for arenas of libtutti_malloc.so, which are sparse: one call now instead of a
  // fault for each of them later.
  if (!hasHoles(fd.get(), bytes)) (void)populate(mapping.data(), mapping.bytes());
  auto shared = std::make_shared<const Mapping>(std::move(mapping));
  const std::lock_guard lock(mutex_);
  if (mapped_.size() >= kMaxMappings) dropOldest();
  // Another lane's thread may have been faster; then ours goes and theirs is used.
  return mapped_.emplace(id, Mapped{shared, ++uses_}).first->second.mapping;
}

void AllocationExchange::dropOldest() {
  const auto older = [](const auto& a, const auto& b) { return a.second.lastUse < b.second.lastUse; };
  mapped_.erase(std::min_element(mapped_.begin(), mapped_.end(), older));
}

Status readProcess(pid_t pid, uint64_t address, std::byte* dst, size_t bytes) {
  while (bytes != 0) {
    const iovec local{dst, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int why = got < 0 ? errno : EFAULT;
      if (why == ESRCH || why == EFAULT) {
        return remoteError(ErrorCode::RankGone, "shm: the memory of process ", pid,
                           " is gone (process_vm_readv, errno ", why, ")");
      }
      return errnoError(ErrorCode::PeerMemoryUnreadable, why,
                        cat("process_vm_readv of ", bytes, " bytes from process ", pid));
    }
    dst += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

}  // namespace tutti::shm

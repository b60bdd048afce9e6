#include "perf/compare/meeting.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tutti::compare {

struct Meeting::Words {
  alignas(64) std::atomic<uint32_t> come;
  alignas(64) std::atomic<uint32_t> round;
};

Meeting::Meeting(const std::string& path, int nRanks, bool yields)
    : nRanks_(static_cast<uint32_t>(nRanks)), yields_(yields) {
  static_assert(sizeof(Words) <= kBytes && std::atomic<uint32_t>::is_always_lock_free);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) throw std::runtime_error("the ranks' meeting " + path + ": " + std::strerror(error));
  words_ = static_cast<Words*>(memory);
}

Meeting::~Meeting() { munmap(words_, kBytes); }

void Meeting::wait() {
  const uint32_t round = words_->round.load(std::memory_order_relaxed);
  if (words_->come.fetch_add(1, std::memory_order_acq_rel) + 1 == nRanks_) {
    words_->come.store(0, std::memory_order_relaxed);
    words_->round.store(round + 1, std::memory_order_release);  // with the load below: come is 0 again
    return;
  }
  while (words_->round.load(std::memory_order_acquire) == round) {
    if (yields_) sched_yield();
  }
}

}  // namespace tutti::compare

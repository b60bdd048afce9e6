#include "perf/ways/nearness.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tutti::perf {
namespace {

using Words = Placement::Words;

/// Null: it cannot be mapped.
Words* mapped(int fd) {
  if (fd < 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Words*>(memory);
}

}  // namespace

Nearness::Nearness(const Ranks& ranks) : ranks_(ranks) {
  char path[] = "/dev/shm/tutti-near-XXXXXX";
  if (ranks.rank == 0) {
    const int fd = mkstemp(path);
    if (fd >= 0 && ftruncate(fd, sizeof(Words)) == 0) words_ = mapped(fd);
  }
  check(tuttiBroadcast(path, path, sizeof path, tuttiInt8, 0, ranks.comm, nullptr), "Broadcast");
  if (ranks.rank == 1) words_ = mapped(::open(path, O_RDWR | O_CLOEXEC));  // not there on another host
  const bool here = overRanks(ranks, ranks.rank > 1 || words_ != nullptr ? 1 : 0, tuttiMin) > 0 && ranks.nRanks > 1;
  if (ranks.rank == 0) unlink(path);
  if (here && words_ != nullptr) placement_.emplace(words_);
}

Nearness::~Nearness() {
  if (words_ != nullptr) munmap(words_, sizeof(Words));
}

double Nearness::us() { return overRanks(ranks_, placement_ ? placement_->look(ranks_.rank) : 0, tuttiMax); }

bool Nearness::alike(double us, double otherUs) {
  constexpr double kMost = 2;
  return us == 0 || otherUs == 0 || std::max(us, otherUs) <= kMost * std::min(us, otherUs);
}

}  // namespace tutti::perf

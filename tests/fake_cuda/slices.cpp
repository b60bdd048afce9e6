// Processes that share a device have it one at a time, as without MPS: a lock on a file goes from one to the other.
//
// A thread of the process holds the lock for a slice while work wants the devices.  Work is not interrupted.  What
// waits has one look in a slice, and a process that only waits gives the rest of it up, as a GPU takes no time for
// channels that wait for words.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

constexpr std::chrono::microseconds kSlice{1000};
constexpr std::chrono::microseconds kGap{100};  // so that somebody else gets the lock
// A process that only waits looks again after a while, which grows, or else many of them keep each other from working.
constexpr std::chrono::microseconds kFirstRest{50}, kLongestRest{1000};

/// Never destroyed.
struct Gate {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool open = false;
  uint64_t slice = 0;  // of this process, counted
  int running = 0;
  int wanting = 0;
  int ready = 0;  // of those who want: who have had no look in this slice
  bool started = false;
};
Gate& gate() {
  static Gate& g = *new Gate;
  return g;
}

std::string lockFile() {
  const std::lock_guard lock(machine().mutex);
  return machine().settings.slices;
}

void passOn(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) complain("cannot open " + path);
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  std::chrono::microseconds rest = kFirstRest;
  while (true) {
    g.changed.wait(lock, [&] { return g.wanting > 0; });
    rest = g.changed.wait_for(lock, rest, [&] { return g.ready > 0; }) ? kFirstRest : std::min(2 * rest, kLongestRest);
    lock.unlock();
    flock(fd, LOCK_EX);
    lock.lock();
    g.open = true;
    ++g.slice;
    g.ready = g.wanting;
    g.changed.notify_all();
    g.changed.wait_for(lock, kSlice, [&] { return g.ready == 0 && g.running == 0; });
    g.open = false;
    g.changed.wait(lock, [&] { return g.running == 0; });
    lock.unlock();
    flock(fd, LOCK_UN);
    std::this_thread::sleep_for(kGap);
    lock.lock();
  }
}

/// Waits for slice number `first` or a later one.  The gate is locked.
void enter(std::unique_lock<std::mutex>& lock, uint64_t first) {
  Gate& g = gate();
  ++g.wanting;
  if (first <= g.slice) ++g.ready;
  g.changed.notify_all();
  g.changed.wait(lock, [&] { return g.open && g.slice >= first; });
  --g.wanting;
  --g.ready;
  ++g.running;
}

void enterSlice(const std::string& path) {
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  if (!g.started) {
    g.started = true;
    std::thread(passOn, path).detach();
  }
  enter(lock, 0);
}

void leaveSlice() {
  Gate& g = gate();
  const std::lock_guard lock(g.mutex);
  --g.running;
  g.changed.notify_all();
}

thread_local bool inSlice = false;

}  // namespace

Slice::Slice() {
  const std::string path = lockFile();
  inSlice = !path.empty();
  if (inSlice) enterSlice(path);
}
Slice::~Slice() {
  if (inSlice) leaveSlice();
  inSlice = false;
}

void Slice::renew() {
  if (!inSlice) return;
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  if (g.open) return;
  --g.running;
  g.changed.notify_all();
  enter(lock, 0);
}

bool pauseSlice() {
  if (!inSlice) return false;
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  --g.running;
  enter(lock, g.slice + 1);
  return true;
}

}  // namespace tutti::fake

// Processes that share a device have it one at a time, as without MPS: a lock on a file goes from one to the other.
//
// A thread of the process holds the lock for a slice while work wants the devices.  Work is not interrupted, but what
// waits says so now and then, and gives the slice up.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

constexpr std::chrono::microseconds kSlice{1000};
constexpr std::chrono::microseconds kGap{100};  // so that somebody else gets the lock

/// Never destroyed.
struct Gate {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool open = false;
  int running = 0;
  int wanting = 0;
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
  while (true) {
    g.changed.wait(lock, [&] { return g.wanting > 0; });
    lock.unlock();
    flock(fd, LOCK_EX);
    lock.lock();
    g.open = true;
    g.changed.notify_all();
    g.changed.wait_for(lock, kSlice, [&] { return g.wanting == 0 && g.running == 0; });
    g.open = false;
    g.changed.wait(lock, [&] { return g.running == 0; });
    lock.unlock();
    flock(fd, LOCK_UN);
    std::this_thread::sleep_for(kGap);
    lock.lock();
  }
}

void enterSlice(const std::string& path) {
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  if (!g.started) {
    g.started = true;
    std::thread(passOn, path).detach();
  }
  ++g.wanting;
  g.changed.notify_all();
  g.changed.wait(lock, [&] { return g.open; });
  --g.wanting;
  ++g.running;
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

void pauseSlice() {
  if (!inSlice) return;
  leaveSlice();
  enterSlice("");
}

}  // namespace tutti::fake

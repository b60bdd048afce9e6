// Blocks have to be on a multiprocessor to run, and kernels of others may hold those.
#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

constexpr std::chrono::microseconds kRoomLook{200};

struct Rooms {
  std::mutex mutex;
  std::map<int, int> held;  // blocks, by device; guarded by mutex
};
Rooms& rooms() {
  static Rooms& r = *new Rooms;
  return r;
}

bool take(int device, int blocks) {
  int foreign = 0;
  {
    const std::lock_guard lock(machine().mutex);
    foreign = machine().settings.occupied;
  }
  const std::lock_guard lock(rooms().mutex);
  int& held = rooms().held[device];
  if (held + foreign + blocks > kMultiprocessors * kBlocksPerMultiprocessor) return false;
  held += blocks;
  return true;
}

}  // namespace

Room::Room(int device, int blocks) : device_(device), blocks_(blocks) {
  while (!take(device, blocks)) {
    if (!pauseSlice()) std::this_thread::sleep_for(kRoomLook);
  }
}

Room::~Room() {
  const std::lock_guard lock(rooms().mutex);
  rooms().held[device_] -= blocks_;
}

}  // namespace tutti::fake

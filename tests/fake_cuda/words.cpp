// Streams that wait for words in memory, and write them.
#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

uint32_t load(Address address) { return __atomic_load_n(reinterpret_cast<uint32_t*>(address), __ATOMIC_ACQUIRE); }

bool holds(Address address, uint32_t value, unsigned flags) {
  const uint32_t now = load(address);
  return flags == kWaitEqual ? now == value : static_cast<int32_t>(now - value) >= 0;
}

}  // namespace

Error cuStreamWaitValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamWaitValue32);
  checkOwnWord(address, deviceOfStream(stream));
  return enqueue(stream, [=] {
    for (int looks = 0; !holds(address, value, flags); ++looks) {
      if (pauseSlice()) continue;
      if (looks < 200) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  });
}
Error cuStreamWriteValue32(Stream stream, Address address, uint32_t value, unsigned) {
  TUTTI_FAKE_ENTER(cuStreamWriteValue32);
  checkRange(address, sizeof(uint32_t), deviceOfStream(stream), "write of a value");
  return enqueue(stream, [=] { __atomic_store_n(reinterpret_cast<uint32_t*>(address), value, __ATOMIC_RELEASE); });
}

}  // namespace tutti::fake

// Streams that wait for words in memory, and write them.
#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

uint32_t load(Address address) { return __atomic_load_n(reinterpret_cast<uint32_t*>(address), __ATOMIC_ACQUIRE); }

bool holds(Address address, uint32_t value, unsigned flags) {
  const uint32_t now = load(address);
  return flags == kWaitEqual ? now == value : static_cast<int32_t>(now - value) >= 0;
}

/// What is wrong with the word, whatever the stream; complains of memory that no stream may wait for or write.
Error checkWord(Address address) {
  {
    const std::lock_guard lock(machine().mutex);
    if (!machine().settings.memops) return kErrorNotSupported;
  }
  if (address % sizeof(uint32_t) != 0) return kErrorInvalidValue;
  if (!isManaged(address)) return kSuccess;
  complain("a stream waits for or writes a word in managed memory, which the driver does not take");
  return kErrorInvalidValue;
}

}  // namespace

Error cuStreamWaitValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamWaitValue32);
  if (flags != kWaitEqual && flags != kWaitGreaterOrEqual) return kErrorNotSupported;
  if (const Error error = checkWord(address); error != kSuccess) return error;
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
Error cuStreamWriteValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamWriteValue32);
  if (flags != 0) return kErrorNotSupported;  // writes that pass those before them
  if (const Error error = checkWord(address); error != kSuccess) return error;
  checkRange(address, sizeof(uint32_t), deviceOfStream(stream), "write of a value");
  return enqueue(stream, [=] { __atomic_store_n(reinterpret_cast<uint32_t*>(address), value, __ATOMIC_RELEASE); });
}

}  // namespace tutti::fake

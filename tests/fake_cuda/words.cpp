// Streams that wait for words in memory, and write them.
#include <span>

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

/// What the stream will do, in order; no error.
struct Operation {
  bool waits = false;
  Address address = 0;
  uint32_t value = 0;
  unsigned flags = 0;
};

Error checkOperation(const Operation& o, int device) {
  const bool known = o.waits ? o.flags == kWaitEqual || o.flags == kWaitGreaterOrEqual
                             : o.flags == 0;  // of writes: those that pass what was before them
  if (!known) return kErrorNotSupported;
  if (const Error error = checkWord(o.address); error != kSuccess) return error;
  if (o.waits) {
    checkOwnWord(o.address, device);
  } else {
    checkRange(o.address, sizeof(uint32_t), device, "write of a value");
  }
  return kSuccess;
}

void run(const Operation& o) {
  if (!o.waits) return __atomic_store_n(reinterpret_cast<uint32_t*>(o.address), o.value, __ATOMIC_RELEASE);
  for (int looks = 0; !holds(o.address, o.value, o.flags); ++looks) {
    if (pauseSlice()) continue;
    if (looks < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

Error enqueueAll(Stream stream, std::vector<Operation> operations) {
  for (const Operation& o : operations) {
    if (const Error error = checkOperation(o, deviceOfStream(stream)); error != kSuccess) return error;
  }
  return enqueue(stream, [operations = std::move(operations)] {
    for (const Operation& o : operations) run(o);
  });
}

}  // namespace

Error cuStreamWaitValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamWaitValue32);
  return enqueueAll(stream, {{true, address, value, flags}});
}
Error cuStreamWriteValue32(Stream stream, Address address, uint32_t value, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamWriteValue32);
  return enqueueAll(stream, {{false, address, value, flags}});
}
Error cuStreamBatchMemOp(Stream stream, unsigned count, WordOperation* operations, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamBatchMemOp);
  if (count == 0 || count > kMostWordOperations || operations == nullptr || flags != 0) return kErrorInvalidValue;
  std::vector<Operation> all;
  for (const WordOperation& o : std::span(operations, count)) {
    if (o.operation != kOperationWait && o.operation != kOperationWrite) return kErrorNotSupported;
    all.push_back({o.operation == kOperationWait, o.address, static_cast<uint32_t>(o.value), o.flags});
  }
  return enqueueAll(stream, std::move(all));
}

}  // namespace tutti::fake

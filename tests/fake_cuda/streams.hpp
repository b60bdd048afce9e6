// The streams and events that there are.
#pragma once

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {

struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> live;  // guarded by mutex, as all that follows
  std::set<CUevent_st*> events;
  std::vector<CUevent_st*> destroyedEvents;
  std::map<std::pair<int, int>, std::vector<std::shared_ptr<Queue>>> hardware;  // by device and priority
  size_t next = 0;
  uint64_t made = 0;
  std::map<int, CUstream_st*> defaults;
  std::map<std::pair<std::thread::id, int>, CUstream_st*> ofThreads;  // their default streams, by device
};
Streams& streams();

/// Enqueues, whether or not the stream is capturing.
void push(CUstream_st* stream, Work work);
/// The default stream of a device waits for all streams that are not told apart from it, and no capture can contain
/// that.
bool wouldJoinCapture(Stream handle);

/// How long a stream that waits keeps its slice.
inline constexpr std::chrono::microseconds kLook{500};

}  // namespace tutti::fake

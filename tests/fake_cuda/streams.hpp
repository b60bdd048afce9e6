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

/// All of them, default streams too; with the lock.
std::vector<CUstream_st*> allStreams();
/// What is wrong with a handle for which streamOf() finds none.
Error noStream(Stream handle);

/// Enqueues, whether or not the stream is capturing.
void push(CUstream_st* stream, Work work);

// ---- Streams that are captured; these take the lock of captures.

bool isCapturing(const CUstream_st* stream);
/// Takes the work, if the stream is captured.  NotFound: it is not.  CaptureInvalidated.
Error record(CUstream_st* stream, Work* work);
/// By a call that no captured stream takes: whether this one is.
bool breakCaptureOf(const CUstream_st* stream);
/// The legacy default stream waits for all that are not told apart from it, and no capture can contain that.  breaks:
/// the captures that it would join.
bool wouldJoinCapture(Stream handle, bool breaks);

}  // namespace tutti::fake

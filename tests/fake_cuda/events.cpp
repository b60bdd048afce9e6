// Events, and streams that wait for them.
#include <algorithm>

#include "tests/fake_cuda/streams.hpp"

namespace tutti::fake {

Error cuEventCreate(Event* event, unsigned) {
  TUTTI_FAKE_ENTER(cuEventCreate);
  if (currentContext() == nullptr) return kErrorInvalidContext;
  *event = new CUevent_st;
  (*event)->device = deviceOf(currentContext());
  const std::lock_guard lock(streams().mutex);
  streams().events.insert(*event);
  return kSuccess;
}
// The memory stays, because work in some stream may still signal it.
Error cuEventDestroy(Event event) {
  TUTTI_FAKE_ENTER(cuEventDestroy);
  const std::lock_guard lock(streams().mutex);
  if (streams().events.erase(event) == 0) return kErrorInvalidHandle;
  streams().destroyedEvents.push_back(event);
  return kSuccess;
}
Error cuEventRecord(Event event, Stream handle) {
  TUTTI_FAKE_ENTER(cuEventRecord);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr || event->device != stream->device) return kErrorInvalidHandle;
  std::unique_lock lock(event->mutex);
  event->capture = captureOf(stream);
  if (event->capture != nullptr) return kSuccess;
  const uint64_t target = ++event->recorded;
  lock.unlock();
  push(stream, [event, target] {
    const std::lock_guard done(event->mutex);
    event->done = std::max(event->done, target);
    event->changed.notify_all();
  });
  return kSuccess;
}
Error cuEventQuery(Event event) {
  TUTTI_FAKE_ENTER(cuEventQuery);
  const std::lock_guard lock(event->mutex);
  if (event->capture != nullptr) return kErrorCaptureUnsupported;
  return event->done >= event->recorded ? kSuccess : kErrorNotReady;
}
Error cuEventSynchronize(Event event) {
  TUTTI_FAKE_ENTER(cuEventSynchronize);
  if (captureForbids()) return kErrorCaptureUnsupported;
  std::unique_lock lock(event->mutex);
  event->changed.wait(lock, [&] { return event->done >= event->recorded; });
  return kSuccess;
}
Error cuStreamWaitEvent(Stream handle, Event event, unsigned) {
  TUTTI_FAKE_ENTER(cuStreamWaitEvent);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  std::unique_lock lock(event->mutex);
  if (event->capture != nullptr) {  // joins the capture; its order is that of the recording
    const std::lock_guard joining(stream->mutex);
    if (stream->capture != nullptr && stream->capture != event->capture) return kErrorCaptureUnsupported;
    stream->capture = event->capture;
    return kSuccess;
  }
  const uint64_t target = event->recorded;
  lock.unlock();
  if (captureOf(stream) != nullptr) return kErrorCaptureUnsupported;
  push(stream, [event, target] {
    std::unique_lock waiting(event->mutex);
    const auto done = [&] { return event->done >= target; };
    while (!done()) {
      waiting.unlock();
      const bool paused = pauseSlice();
      waiting.lock();
      if (!paused) event->changed.wait_for(waiting, kLook, done);
    }
  });
  return kSuccess;
}

}  // namespace tutti::fake

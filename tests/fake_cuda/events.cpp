// Events, and streams that wait for them, in captures too.
#include <algorithm>

#include "tests/fake_cuda/captures.hpp"

namespace tutti::fake {
namespace {

bool isEvent(CUevent_st* event) {
  const std::lock_guard lock(streams().mutex);
  return streams().events.count(event) != 0;
}

/// For calls that ask how far the work is that an event stands for: in a capture there is none.
bool isCaptured(const CUevent_st& event) {
  const std::lock_guard lock(captureMutex());
  if (event.capture != nullptr) event.capture->broken = true;
  return event.capture != nullptr;
}

/// With the lock of captures: what a wait for the event adds to a stream that records, or is to.
Error follow(CUstream_st* stream, const CUevent_st& event) {
  const std::shared_ptr<Capture>& from = event.capture;
  if (from == nullptr) {
    stream->capture->broken = true;
    return kErrorCaptureIsolation;
  }
  if (from->ended) return kErrorCapturedEvent;
  if (stream->legacy) {
    from->broken = true;
    return kErrorCaptureImplicit;
  }
  if (stream->capture != nullptr && stream->capture != from) {
    stream->capture->broken = from->broken = true;
    return kErrorCaptureMerge;
  }
  if (from->broken) return kErrorCaptureInvalidated;
  stream->capture = from;
  Before& known = from->known[stream];
  for (const auto& [other, nodes] : event.before) known[other] = std::max(known[other], nodes);
  return kSuccess;
}

}  // namespace

Error cuEventCreate(Event* event, unsigned flags) {
  TUTTI_FAKE_ENTER(cuEventCreate);
  if ((flags & ~kEventDisableTiming) != 0) return kErrorInvalidValue;
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
  if (stream == nullptr) return noStream(handle);
  if (!isEvent(event) || event->device != stream->device) return kErrorInvalidHandle;
  if (wouldJoinCapture(handle, true)) return kErrorCaptureImplicit;
  {
    const std::lock_guard lock(captureMutex());
    event->capture = stream->capture;
    if (event->capture != nullptr) {
      event->before = event->capture->known[stream];
      return event->capture->broken ? kErrorCaptureInvalidated : kSuccess;
    }
  }
  uint64_t target = 0;
  {
    const std::lock_guard lock(event->progress.mutex);
    target = ++event->progress.asked;
  }
  push(stream, [event, target] {
    const std::lock_guard lock(event->progress.mutex);
    event->progress.done = std::max(event->progress.done, target);
    event->progress.changed.notify_all();
  });
  return kSuccess;
}
Error cuEventQuery(Event event) {
  TUTTI_FAKE_ENTER(cuEventQuery);
  if (!isEvent(event)) return kErrorInvalidHandle;
  if (isCaptured(*event)) return kErrorCapturedEvent;
  const std::lock_guard lock(event->progress.mutex);
  return event->progress.done >= event->progress.asked ? kSuccess : kErrorNotReady;
}
Error cuEventSynchronize(Event event) {
  TUTTI_FAKE_ENTER(cuEventSynchronize);
  if (!isEvent(event)) return kErrorInvalidHandle;
  if (isCaptured(*event)) return kErrorCapturedEvent;
  std::unique_lock lock(event->progress.mutex);
  event->progress.changed.wait(lock, [&] { return event->progress.done >= event->progress.asked; });
  return kSuccess;
}

Error cuStreamWaitEvent(Stream handle, Event event, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamWaitEvent);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  if (flags != 0) return kErrorInvalidValue;
  if (!isEvent(event)) return kErrorInvalidHandle;
  if (wouldJoinCapture(handle, true)) return kErrorCaptureImplicit;
  {
    const std::lock_guard lock(captureMutex());
    if (event->capture != nullptr || stream->capture != nullptr) return follow(stream, *event);
  }
  uint64_t target = 0;
  {
    const std::lock_guard lock(event->progress.mutex);
    target = event->progress.asked;
  }
  push(stream, [event, target] { await(&event->progress, target); });
  return kSuccess;
}

}  // namespace tutti::fake

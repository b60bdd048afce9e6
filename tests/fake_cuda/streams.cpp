// Streams: what is enqueued on them goes through a queue, which may be shared.
#include "tests/fake_cuda/streams.hpp"

#include <algorithm>

namespace tutti::fake {

Streams& streams() {
  static Streams& s = *new Streams;
  return s;
}

namespace {

constexpr int kGreatestPriority = -1;
/// How long a stream that waits keeps its slice.
constexpr std::chrono::microseconds kLook{500};

/// With the lock of streams().
std::shared_ptr<Queue> queueForNewStream(int device, int priority) {
  size_t queues = 0;
  {
    const std::lock_guard lock(machine().mutex);
    queues = static_cast<size_t>(machine().settings.queues);
  }
  if (queues == 0) return std::make_shared<Queue>();
  Streams& s = streams();
  auto& hardware = s.hardware[{device, priority}];
  while (hardware.size() < queues) hardware.push_back(std::make_shared<Queue>());
  return hardware[s.next++ % queues];
}

CUstream_st* newStream(int device, int priority = 0) {
  auto* stream = new CUstream_st;
  stream->device = device;
  stream->number = ++streams().made;
  stream->queue = queueForNewStream(device, priority);
  return stream;
}

CUstream_st* newLegacyStream(int device) {
  CUstream_st* stream = newStream(device);
  stream->legacy = true;
  return stream;
}
CUstream_st* newStreamOfThread(int device) {
  CUstream_st* stream = newStream(device);
  stream->blocking = true;
  return stream;
}

Error createStream(Stream* stream, unsigned flags, int priority) {
  if ((flags & ~kStreamNonBlocking) != 0) return kErrorInvalidValue;
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  *stream = newStream(deviceOf(currentContext()), priority);
  (*stream)->blocking = (flags & kStreamNonBlocking) == 0;
  s.live.insert(*stream);
  return kSuccess;
}

void waitUntilIdle(CUstream_st* stream) {
  Progress& p = *stream->progress;
  std::unique_lock lock(p.mutex);
  p.changed.wait(lock, [&] { return p.done == p.asked; });
}

using Point = std::pair<std::shared_ptr<Progress>, uint64_t>;

/// What work on a stream comes after by itself: of the legacy default stream, all that streams which are not told apart
/// from it have to do, and the other way round.  With the lock of streams().
std::vector<Point> implicitlyBefore(const CUstream_st* stream) {
  std::vector<Point> points;
  if (!stream->legacy && !stream->blocking) return points;
  for (const CUstream_st* other : allStreams()) {
    const bool ordered = stream->legacy ? other->blocking : other->legacy;
    if (!ordered || other->device != stream->device) continue;
    const std::lock_guard lock(other->progress->mutex);
    if (other->progress->done < other->progress->asked) points.emplace_back(other->progress, other->progress->asked);
  }
  return points;
}

/// What all streams of a device have to do.
std::vector<Point> workOf(int device) {
  std::vector<Point> work;
  const std::lock_guard lock(streams().mutex);
  for (const CUstream_st* stream : allStreams()) {
    if (stream->device != device) continue;
    const std::lock_guard progress(stream->progress->mutex);
    work.emplace_back(stream->progress, stream->progress->asked);
  }
  return work;
}

}  // namespace

std::vector<CUstream_st*> allStreams() {
  Streams& s = streams();
  std::vector<CUstream_st*> all(s.live.begin(), s.live.end());
  for (const auto& [device, stream] : s.defaults) all.push_back(stream);
  for (const auto& [whose, stream] : s.ofThreads) all.push_back(stream);
  return all;
}

void await(Progress* progress, uint64_t target) {
  std::unique_lock lock(progress->mutex);
  const auto reached = [&] { return progress->done >= target; };
  while (!reached()) {
    lock.unlock();
    const bool paused = pauseSlice();
    lock.lock();
    if (!paused) progress->changed.wait_for(lock, kLook, reached);
  }
}

// In one step, so that of two streams which wait for each other's work only one finds the other's there already.
void push(CUstream_st* stream, Work work) {
  const std::lock_guard all(streams().mutex);
  const std::vector<Point> before = implicitlyBefore(stream);
  const std::shared_ptr<Progress> progress = stream->progress;
  {
    const std::lock_guard lock(progress->mutex);
    ++progress->asked;
  }
  stream->queue->push([progress, before, run = std::move(work)] {
    for (const auto& [other, target] : before) await(other.get(), target);
    run();
    const std::lock_guard lock(progress->mutex);
    ++progress->done;
    progress->changed.notify_all();
  });
}

void waitForDevice(int device) {
  for (const auto& [progress, target] : workOf(device)) {
    std::unique_lock lock(progress->mutex);
    progress->changed.wait(lock, [&p = *progress, upTo = target] { return p.done >= upTo; });
  }
}

void mayWaitForDevice(const char* call) {
  std::chrono::milliseconds stuck{0};
  {
    const std::lock_guard lock(machine().mutex);
    if (!machine().settings.sync) return;
    stuck = std::chrono::milliseconds(machine().settings.stuckMs);
  }
  if (currentContext() == nullptr) return;
  using Clock = std::chrono::steady_clock;
  const std::vector<Point> work = workOf(deviceOf(currentContext()));
  uint64_t before = 0;
  for (auto moved = Clock::now(); Clock::now() - moved < stuck;) {
    bool idle = true;
    uint64_t done = 0;
    for (const auto& [progress, target] : work) {
      const std::lock_guard lock(progress->mutex);
      idle = idle && progress->done >= target;
      done += progress->done;
    }
    if (idle) return;
    if (done != before) moved = Clock::now();
    before = done;
    std::this_thread::sleep_for(kLook);
  }
  complain(std::string(call) + " waits for the device, a stream of which waits for what comes after the call");
}

CUstream_st* streamOf(Stream stream) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  const bool ofDevice = stream == nullptr || stream == kStreamLegacy;
  if (!ofDevice && stream != kStreamPerThread) return s.live.count(stream) != 0 ? stream : nullptr;
  if (currentContext() == nullptr) return nullptr;
  const int device = deviceOf(currentContext());
  CUstream_st*& made = ofDevice ? s.defaults[device] : s.ofThreads[{std::this_thread::get_id(), device}];
  if (made == nullptr) made = ofDevice ? newLegacyStream(device) : newStreamOfThread(device);
  return made;
}

Error noStream(Stream handle) {
  const bool special = handle == nullptr || handle == kStreamLegacy || handle == kStreamPerThread;
  return special ? kErrorInvalidContext : kErrorInvalidHandle;
}

int deviceOfStream(Stream handle) {
  const CUstream_st* stream = streamOf(handle);
  return stream == nullptr ? -1 : stream->device;
}

Error enqueue(Stream handle, Work work) {
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  if (deviceOf(currentContext()) != stream->device) {
    complain("work is enqueued in a stream of another context than the current one");
    return kErrorInvalidContext;
  }
  if (wouldJoinCapture(handle, true)) {
    complain("work is enqueued in the default stream while a stream that it waits for is captured");
    return kErrorCaptureImplicit;
  }
  const Error recorded = record(stream, &work);
  if (recorded != kErrorNotFound) return recorded;
  push(stream, std::move(work));
  return kSuccess;
}

void loseStreamsOf(int device) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  const size_t before = s.live.size() + s.events.size();
  std::erase_if(s.live, [&](const CUstream_st* stream) { return stream->device == device; });
  std::erase_if(s.events, [&](const CUevent_st* event) { return event->device == device; });
  if (s.live.size() + s.events.size() != before) complain("a context goes that still has streams or events");
}

std::string streamLeaks() {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  std::string leaks;
  if (!s.live.empty()) leaks += std::to_string(s.live.size()) + " streams were never destroyed\n";
  if (!s.events.empty()) leaks += std::to_string(s.events.size()) + " events were never destroyed\n";
  return leaks;
}

Error cuStreamCreate(Stream* stream, unsigned flags) {
  TUTTI_FAKE_ENTER(cuStreamCreate);
  return createStream(stream, flags, 0);
}
Error cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  TUTTI_FAKE_ENTER(cuStreamCreateWithPriority);
  return createStream(stream, flags, std::clamp(priority, kGreatestPriority, 0));
}
Error cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  TUTTI_FAKE_ENTER(cuCtxGetStreamPriorityRange);
  *least = 0;
  *greatest = kGreatestPriority;
  return kSuccess;
}
Error cuStreamDestroy(Stream stream) {
  TUTTI_FAKE_ENTER(cuStreamDestroy);
  if (streamOf(stream) == nullptr) return kErrorInvalidHandle;
  if (isCapturing(stream)) complain("a stream is destroyed while it is captured");
  {
    Streams& s = streams();
    const std::lock_guard lock(s.mutex);
    if (s.live.erase(stream) == 0) return kErrorInvalidHandle;
  }
  // As a real one: returns at once, and what is enqueued still runs.
  std::shared_ptr<Queue> queue = stream->queue;
  push(stream, [] {});
  queue->push([stream] { delete stream; });
  return kSuccess;
}
Error cuStreamSynchronize(Stream handle) {
  TUTTI_FAKE_ENTER(cuStreamSynchronize);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  if (wouldJoinCapture(handle, true)) return kErrorCaptureImplicit;
  if (breakCaptureOf(stream)) return kErrorCaptureUnsupported;
  waitUntilIdle(stream);
  return kSuccess;
}
Error cuStreamQuery(Stream handle) {
  TUTTI_FAKE_ENTER(cuStreamQuery);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  if (wouldJoinCapture(handle, true)) return kErrorCaptureImplicit;
  if (breakCaptureOf(stream)) return kErrorCaptureUnsupported;
  const std::lock_guard lock(stream->progress->mutex);
  return stream->progress->done == stream->progress->asked ? kSuccess : kErrorNotReady;
}
Error cuStreamGetCtx(Stream handle, Context* context) {
  TUTTI_FAKE_ENTER(cuStreamGetCtx);
  const CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  *context = primaryContextOf(stream->device);
  return kSuccess;
}
Error cuStreamGetId(Stream handle, unsigned long long* id) {
  TUTTI_FAKE_ENTER(cuStreamGetId);
  const CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  *id = stream->number;
  return kSuccess;
}

}  // namespace tutti::fake

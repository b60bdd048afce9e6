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

Error createStream(Stream* stream, unsigned flags, int priority) {
  if (currentContext() == nullptr) return kErrorInvalidContext;
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  *stream = newStream(deviceOf(currentContext()), priority);
  (*stream)->blocking = (flags & kStreamNonBlocking) == 0;
  s.live.insert(*stream);
  return kSuccess;
}

void waitUntilIdle(CUstream_st* stream) {
  std::unique_lock lock(stream->mutex);
  stream->changed.wait(lock, [&] { return stream->done == stream->pushed; });
}

}  // namespace

void push(CUstream_st* stream, Work work) {
  {
    const std::lock_guard lock(stream->mutex);
    ++stream->pushed;
  }
  stream->queue->push([stream, run = std::move(work)] {
    run();
    const std::lock_guard lock(stream->mutex);
    ++stream->done;
    stream->changed.notify_all();
  });
}

void waitForDevice(int device) {
  std::vector<CUstream_st*> all;
  {
    const std::lock_guard lock(streams().mutex);
    for (CUstream_st* stream : streams().live) {
      if (stream->device == device) all.push_back(stream);
    }
    const auto own = streams().defaults.find(device);
    if (own != streams().defaults.end()) all.push_back(own->second);
    for (const auto& [whose, stream] : streams().ofThreads) {
      if (whose.second == device) all.push_back(stream);
    }
  }
  for (CUstream_st* stream : all) waitUntilIdle(stream);
}

CUstream_st* streamOf(Stream stream) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  const bool ofDevice = stream == nullptr || stream == kStreamLegacy;
  if (!ofDevice && stream != kStreamPerThread) return s.live.count(stream) != 0 ? stream : nullptr;
  if (currentContext() == nullptr) return nullptr;
  const int device = deviceOf(currentContext());
  CUstream_st*& made = ofDevice ? s.defaults[device] : s.ofThreads[{std::this_thread::get_id(), device}];
  if (made == nullptr) made = newStream(device);
  return made;
}

int deviceOfStream(Stream handle) {
  const CUstream_st* stream = streamOf(handle);
  return stream == nullptr ? -1 : stream->device;
}

Error enqueue(Stream handle, Work work) {
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  if (currentContext() == nullptr || deviceOf(currentContext()) != stream->device) {
    complain("work is enqueued in a stream of another context than the current one");
    return kErrorInvalidContext;
  }
  if (wouldJoinCapture(handle)) {
    complain("work is enqueued in the default stream while a stream that it waits for is captured");
    return kErrorCaptureImplicit;
  }
  if (const auto capture = captureOf(stream)) {
    capture->work.push_back(std::move(work));
  } else {
    push(stream, std::move(work));
  }
  return kSuccess;
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
  if (currentContext() == nullptr) return kErrorInvalidContext;
  *least = 0;
  *greatest = kGreatestPriority;
  return kSuccess;
}
Error cuStreamDestroy(Stream stream) {
  TUTTI_FAKE_ENTER(cuStreamDestroy);
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
  if (stream == nullptr) return kErrorInvalidHandle;
  if (captureOf(stream) != nullptr) return kErrorCaptureUnsupported;
  waitUntilIdle(stream);
  return kSuccess;
}
Error cuStreamQuery(Stream handle) {
  TUTTI_FAKE_ENTER(cuStreamQuery);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  const std::lock_guard lock(stream->mutex);
  if (stream->capture != nullptr) return kErrorCaptureUnsupported;
  return stream->done == stream->pushed ? kSuccess : kErrorNotReady;
}
Error cuStreamGetCtx(Stream handle, Context* context) {
  TUTTI_FAKE_ENTER(cuStreamGetCtx);
  const CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  *context = primaryContextOf(stream->device);
  return kSuccess;
}
Error cuStreamGetId(Stream handle, unsigned long long* id) {
  TUTTI_FAKE_ENTER(cuStreamGetId);
  const CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  *id = stream->number;
  return kSuccess;
}

}  // namespace tutti::fake

// Streams as threads that work through a queue; events; captures as recorded lists.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include "tests/fake_cuda/fake.hpp"

#if defined(__SANITIZE_THREAD__)
#define TUTTI_FAKE_SANITIZES_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TUTTI_FAKE_SANITIZES_THREADS 1
#endif
#endif
#ifdef TUTTI_FAKE_SANITIZES_THREADS
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#define TUTTI_FAKE_IGNORE(what) Annotate##what(__FILE__, __LINE__)
#else
#define TUTTI_FAKE_IGNORE(what)
#endif

namespace tutti::fake {
namespace {

/// While it lives, the thread sanitizer does not look at what this thread reads and writes, if a test allows torn data.
class Torn {
 public:
  Torn() {
    const std::lock_guard lock(machine().mutex);
    on_ = machine().settings.torn;
    if (!on_) return;
    TUTTI_FAKE_IGNORE(IgnoreReadsBegin);
    TUTTI_FAKE_IGNORE(IgnoreWritesBegin);
  }
  ~Torn() {
    if (!on_) return;
    TUTTI_FAKE_IGNORE(IgnoreReadsEnd);
    TUTTI_FAKE_IGNORE(IgnoreWritesEnd);
  }
  Torn(const Torn&) = delete;
  Torn& operator=(const Torn&) = delete;

 private:
  bool on_ = false;
};

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
Streams& streams() {
  static Streams& s = *new Streams;
  return s;
}

int randomDelayUs() {
  int most = 0;
  {
    const std::lock_guard lock(machine().mutex);
    most = machine().settings.delayUs;
  }
  static thread_local std::minstd_rand random(12345);
  return most == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(most));
}

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

void waitUntilIdle(CUstream_st* stream) {
  std::unique_lock lock(stream->mutex);
  stream->changed.wait(lock, [&] { return stream->done == stream->pushed; });
}

uint32_t load(Address address) { return __atomic_load_n(reinterpret_cast<uint32_t*>(address), __ATOMIC_ACQUIRE); }

constexpr int kGreatestPriority = -1;

/// How long a stream that waits keeps its slice.
constexpr std::chrono::microseconds kLook{500};

bool holds(Address address, uint32_t value, unsigned flags) {
  const uint32_t now = load(address);
  return flags == kWaitEqual ? now == value : static_cast<int32_t>(now - value) >= 0;
}

}  // namespace

Queue::Queue() : thread_([state = state_] { run(state); }) {}
Queue::~Queue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}
void Queue::push(Work work) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->work.push_back(std::move(work));
  }
  state_->changed.notify_all();
}
void Queue::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  std::optional<Slice> slice;
  while (true) {
    if (state->work.empty()) slice.reset();
    state->changed.wait(lock, [&] { return state->ending || !state->work.empty(); });
    if (state->work.empty()) return;
    Work work = std::move(state->work.front());
    state->work.pop_front();
    lock.unlock();
    if (const int us = randomDelayUs(); us > 0) {
      slice.reset();
      std::this_thread::sleep_for(std::chrono::microseconds(us));
    }
    if (slice) {
      slice->renew();
    } else {
      slice.emplace();
    }
    {
      const Torn torn;
      work();
    }
    work = nullptr;
    lock.lock();
  }
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

std::shared_ptr<CUgraph_st> captureOf(CUstream_st* stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->capture;
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

/// The default stream of a device waits for all streams that are not told apart from it, and no capture can contain
/// that.
bool wouldJoinCapture(Stream handle) {
  if (handle != nullptr && handle != kStreamLegacy) return false;
  const int device = deviceOf(currentContext());
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  return std::any_of(s.live.begin(), s.live.end(), [&](CUstream_st* stream) {
    return stream->blocking && stream->device == device && captureOf(stream) != nullptr;
  });
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

Error cuStreamIsCapturing(Stream handle, int* status) {
  TUTTI_FAKE_ENTER(cuStreamIsCapturing);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  if (wouldJoinCapture(handle)) return kErrorCaptureImplicit;
  *status = captureOf(stream) != nullptr ? kCaptureActive : kCaptureNone;
  return kSuccess;
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
Error cuStreamBeginCapture(Stream handle, int) {
  TUTTI_FAKE_ENTER(cuStreamBeginCapture);
  CUstream_st* stream = streamOf(handle);
  if (handle == nullptr || stream == nullptr) return kErrorInvalidHandle;
  const std::lock_guard lock(stream->mutex);
  stream->capture = std::make_shared<CUgraph_st>();
  ++capturesOfThread();
  return kSuccess;
}
Error cuStreamEndCapture(Stream handle, Graph* graph) {
  TUTTI_FAKE_ENTER(cuStreamEndCapture);
  CUstream_st* stream = streamOf(handle);
  const std::shared_ptr<CUgraph_st> captured = stream == nullptr ? nullptr : captureOf(stream);
  if (captured == nullptr) return kErrorInvalidHandle;
  --capturesOfThread();
  *graph = new CUgraph_st(*captured);
  const std::lock_guard lock(streams().mutex);
  for (CUstream_st* other : streams().live) {
    const std::lock_guard leaving(other->mutex);
    if (other->capture == captured) other->capture = nullptr;
  }
  return kSuccess;
}
Error cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  TUTTI_FAKE_ENTER(cuGraphInstantiateWithFlags);
  *exec = new CUgraphExec_st{std::make_shared<CUgraph_st>(*graph)};
  return kSuccess;
}
Error cuGraphLaunch(GraphExec exec, Stream stream) {
  TUTTI_FAKE_ENTER(cuGraphLaunch);
  return enqueue(stream, [graph = exec->graph] {
    for (const Work& work : graph->work) work();
  });
}
Error cuGraphExecDestroy(GraphExec exec) {
  TUTTI_FAKE_ENTER(cuGraphExecDestroy);
  delete exec;
  return kSuccess;
}
Error cuGraphDestroy(Graph graph) {
  TUTTI_FAKE_ENTER(cuGraphDestroy);
  delete graph;
  return kSuccess;
}

}  // namespace tutti::fake

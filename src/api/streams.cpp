// Streams of the host, and events on them.
#include "src/api/entry.hpp"
#include "src/api/handle_table.hpp"

using namespace tutti;

/// What was recorded last is all that an event is.
struct tuttiEvent {
  const uint32_t generation = forkGeneration();
  std::mutex mutex;
  std::shared_ptr<const StreamPoint> point;  // null: nothing was recorded
};

namespace {

// Never destroyed, not even at exit: threads of the user's may outlive static destructors.
HandleTable<tuttiStream>& streams() {
  static auto* const table = new HandleTable<tuttiStream>;
  return *table;
}
HandleTable<tuttiEvent>& events() {
  static auto* const table = new HandleTable<tuttiEvent>;
  return *table;
}

using Stream = std::shared_ptr<tuttiStream>;
using Event = std::shared_ptr<tuttiEvent>;

/// The error for a stream or an event in a forked child: its thread lives in the parent alone.
Status ofParent(const char* what) {
  return invalidUsage(ErrorCode::Forked, what,
                      " was made before this process was forked and is its parent's: make one in the child");
}

Result<Stream> orRefused(Stream found, tuttiStream_t stream) {
  if (found != nullptr && found->generation != forkGeneration()) return ofParent("stream");
  if (found != nullptr) return found;
  TUTTI_TRY(checkNotNull(stream, "stream"));
  return invalidArgument(
      ErrorCode::Stream,
      "stream is not one of tuttiStreamCreate, or has been destroyed; work on a CUDA stream is waited for with CUDA's "
      "own functions (cudaStreamSynchronize, cudaEventRecord, cudaStreamWaitEvent)");
}

Result<Event> orRefused(Event found, tuttiEvent_t event) {
  if (found != nullptr && found->generation != forkGeneration()) return ofParent("event");
  if (found != nullptr) return found;
  TUTTI_TRY(checkNotNull(event, "event"));
  return invalidArgument(ErrorCode::Stream, "event is not one of tuttiEventCreate, or has been destroyed");
}

Result<Stream> find(tuttiStream_t stream) { return orRefused(streams().find(stream), stream); }
Result<Event> find(tuttiEvent_t event) { return orRefused(events().find(event), event); }

/// What the event has captured; null: nothing.
Result<std::shared_ptr<const StreamPoint>> captured(tuttiEvent_t handle) {
  TUTTI_ASSIGN(const Event event, find(handle));
  const std::lock_guard lock(event->mutex);
  return event->point;
}

Status createStream(tuttiStream_t* stream) {
  TUTTI_TRY(checkNotNull(stream, "stream"));
  *stream = nullptr;
  TUTTI_ASSIGN(std::unique_ptr<HostStream> host, HostStream::create());
  *stream = streams().add(std::make_shared<tuttiStream>(tuttiStream{.host = std::move(host)}));
  return {};
}

Status destroyStream(tuttiStream_t stream) {
  TUTTI_ASSIGN(const Stream last, find(stream));
  TUTTI_TRY(asStatus(orRefused(streams().remove(stream), stream)));  // another thread may destroy it, too
  (void)last->host->synchronize();                                   // here, whoever else holds it now
  return {};
}

Status synchronize(tuttiStream_t handle) {
  TUTTI_ASSIGN(const Stream stream, find(handle));
  return stream->host->synchronize();
}

Status query(tuttiStream_t handle) {
  TUTTI_ASSIGN(const Stream stream, find(handle));
  return stream->host->query();
}

Status createEvent(tuttiEvent_t* event) {
  TUTTI_TRY(checkNotNull(event, "event"));
  *event = events().add(std::make_shared<tuttiEvent>());
  return {};
}

Status record(tuttiEvent_t handle, tuttiStream_t streamHandle) {
  TUTTI_ASSIGN(const Event event, find(handle));
  TUTTI_ASSIGN(const Stream stream, find(streamHandle));
  const std::lock_guard lock(event->mutex);  // of two records at once the later one stays
  event->point = stream->host->mark();
  return {};
}

Status query(tuttiEvent_t event) {
  TUTTI_ASSIGN(const auto point, captured(event));
  if (point == nullptr) return {};
  if (!point->passed()) return {tuttiInProgress, "what the event has captured is not done"};
  return point->await();
}

Status synchronize(tuttiEvent_t event) {
  TUTTI_ASSIGN(const auto point, captured(event));
  return point == nullptr ? Status() : point->await();
}

Status follow(tuttiStream_t handle, tuttiEvent_t event) {
  TUTTI_ASSIGN(const Stream stream, find(handle));
  TUTTI_ASSIGN(auto point, captured(event));
  if (point != nullptr) stream->host->follow(std::move(point));
  return {};
}

}  // namespace

extern "C" {

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return guarded("StreamCreate", nullptr, [&] { return createStream(stream); });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return guarded("StreamDestroy", nullptr, [&] { return destroyStream(stream); });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return guarded("StreamSynchronize", nullptr, [&] { return synchronize(stream); });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  return guarded("StreamQuery", nullptr, [&] { return query(stream); });
}

tuttiResult_t tuttiEventCreate(tuttiEvent_t* event) {
  return guarded("EventCreate", nullptr, [&] { return createEvent(event); });
}

tuttiResult_t tuttiEventDestroy(tuttiEvent_t event) {
  return guarded("EventDestroy", nullptr, [&]() -> Status {
    TUTTI_TRY(asStatus(find(event)));
    return asStatus(orRefused(events().remove(event), event));
  });
}

tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream) {
  return guarded("EventRecord", nullptr, [&] { return record(event, stream); });
}

tuttiResult_t tuttiEventQuery(tuttiEvent_t event) {
  return guarded("EventQuery", nullptr, [&] { return query(event); });
}

tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event) {
  return guarded("EventSynchronize", nullptr, [&] { return synchronize(event); });
}

tuttiResult_t tuttiStreamWaitEvent(tuttiStream_t stream, tuttiEvent_t event) {
  return guarded("StreamWaitEvent", nullptr, [&] { return follow(stream, event); });
}

}  // extern "C"

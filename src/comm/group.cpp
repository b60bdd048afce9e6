#include "src/comm/group.hpp"

#include <map>
#include <utility>

#include "src/base/threads.hpp"
#include "src/comm/fast_path.hpp"
#include "src/comm/parked_batch.hpp"

namespace tutti {
namespace {

/// The part of a group that runs on one stream: one batch per communicator.  A proxy is of one communicator.
struct Part {
  Carrier carrier;
  std::vector<std::unique_ptr<ParkedBatch>> batches;

  Batch& batchOf(const CommUse& comm) {
    for (const auto& batch : batches) {
      if (batch->handle() == comm.handle()) return batch->batch();
    }
    return batches.emplace_back(std::make_unique<ParkedBatch>(comm))->batch();
  }
};

Carrier carrierOf(tuttiComm* handle, tuttiStream_t stream) {
  return handle->comm->executor().carrier(stream, handle->own.get());
}

Status runPart(Part* part) {
  Status status = runBatches(part->batches, !part->carrier.isCaller());
  if (!status.ok()) {
    for (const auto& batch : part->batches) remember(batch->handle(), status);
  }
  return status;
}

Part& partOn(Carrier carrier, std::vector<std::shared_ptr<Part>>* parts) {
  for (const auto& part : *parts) {
    if (part->carrier == carrier) return *part;
  }
  parts->push_back(std::make_shared<Part>());
  parts->back()->carrier = carrier;
  return *parts->back();
}

/// Nothing has begun if it fails: a communicator may be gone since the call, or its join, part of the group, has
/// failed.
Result<std::vector<CommUse>> useAll(const CallGroup& group) {
  std::vector<CommUse> comms;
  for (const CallGroup::Entry& entry : group.calls) {
    TUTTI_ASSIGN(CommUse comm, use(entry.handle));
    comms.push_back(std::move(comm));
  }
  return comms;
}

/// Streams of one communicator follow each other, which takes one graph.
Status checkCaptures(const CallGroup& group) {
  std::map<const Comm*, uint64_t> captures;
  for (const CallGroup::Entry& entry : group.calls) {
    const Comm* comm = entry.handle->comm.get();
    const uint64_t capture = comm->executor().captureOf(entry.stream);
    if (capture != captures.emplace(comm, capture).first->second) {
      return invalidUsage(
          ErrorCode::GroupMixed,
          "streams that a group gives to one communicator must all be captured into one graph, or none of them");
    }
  }
  return {};
}

/// On the calling thread: streams wait for the proxy from now on.  What is captured is enqueued when a graph replays
/// it.
Status submitToProxy(std::unique_ptr<ParkedBatch> parked, ProgressQueue* queue) {
  const auto replay = [handle = parked->handle()->shared_from_this()](const std::vector<Call>& calls,
                                                                      std::function<void()> dropped) {
    return std::make_unique<ReplayJob>(handle, calls, std::move(dropped));
  };
  parked->batch().comm().watchdog().noteOtherThreads();
  TUTTI_ASSIGN(const bool captured, parked->batch().submit(replay));
  if (!captured) queue->enqueue(std::make_unique<ProxyJob>(std::move(parked)));
  return {};
}

std::vector<std::shared_ptr<Part>> partsOf(const CallGroup& group, const std::vector<CommUse>& comms) {
  std::vector<std::shared_ptr<Part>> parts;
  for (size_t i = 0; i < comms.size(); ++i) {
    const CallGroup::Entry& entry = group.calls[i];
    Batch& batch = partOn(carrierOf(entry.handle, entry.stream), &parts).batchOf(comms[i]);
    if (group.opened) batch.isGroup();
    batch.add(entry.call, entry.stream);
  }
  return parts;
}

void giveUp(const CallGroup::Join& join) {
  *join.out = nullptr;
  retire(join.handle);
}

/// `why` no join of the group has begun, when the other ranks have been told.
Status cannotJoin(const CallGroup& group, const Status& why) {
  for (const CallGroup::Join& join : group.joins) {
    giveUp(join);
    if (join.notComing) join.notComing(why);
  }
  for (const CallGroup::Presence& presence : group.presences) presence.notComing(why);
  return why;
}

Status joinAll(const CallGroup& group) {
  std::vector<std::function<Status()>> tasks;  // wait for each other, perhaps
  for (const CallGroup::Join& join : group.joins)
    tasks.emplace_back([&join] { return finishJoin(join.handle, join.join); });
  for (const CallGroup::Presence& presence : group.presences) tasks.push_back(presence.attend);
  const Result<std::vector<Status>> ends = runTogether("each communicator that a group makes", tasks);
  if (!ends.ok()) return cannotJoin(group, ends.status());
  Status first;
  for (size_t i = 0; i < ends->size(); ++i) {
    const Status& status = (*ends)[i];
    if (!status.ok() && i < group.joins.size()) giveUp(group.joins[i]);
    if (first.ok()) first = status;
  }
  return first;
}

Status startCalls(const CallGroup& group) {
  TUTTI_ASSIGN(std::vector<CommUse> comms, useAll(group));
  TUTTI_TRY(checkCaptures(group));
  const std::vector<std::shared_ptr<Part>> parts = partsOf(group, comms);
  std::shared_ptr<Part> here;
  bool background = false;
  for (const auto& part : parts) {
    if (part->carrier.proxy != nullptr) {
      TUTTI_TRY(submitToProxy(std::move(part->batches.front()), part->carrier.proxy));
      continue;
    }
    const bool waitsForOthers = !part->carrier.isCaller() || part->batches.size() > 1;
    for (const auto& batch : part->batches) {
      if (!part->carrier.isCaller()) batch->batch().comm().watchdog().noteOtherThreads();
      if (waitsForOthers) batch->park();
    }
    if (part->carrier.isCaller()) {
      here = part;
      continue;
    }
    for (const auto& batch : part->batches)
      background = background || batch->handle()->own.get() == part->carrier.thread;
    part->carrier.thread->enqueue([part] { return runPart(part.get()); });
  }
  comms.clear();  // what is parked holds up nobody who ends a communicator
  if (here) TUTTI_TRY(runPart(here.get()));
  if (background) return {tuttiInProgress, "running in the background; poll tuttiCommGetAsyncError"};
  return {};
}

}  // namespace

thread_local constinit int groupDepth = 0;

CallGroup& currentGroup() {
  static thread_local CallGroup group;
  return group;
}

Status endGroup(CallGroup* group) {
  if (group->isCallsAlone()) {
    std::vector<CallGroup::Entry> calls = std::exchange(group->calls, {});
    Status result;
    const bool done = runAgain(calls, &result);
    if (done) calls.clear();
    group->calls = std::move(calls);  // also the memory, for the next group
    if (done) return result;
  }
  CallGroup collected = std::move(*group);
  *group = CallGroup();
  if (!collected.error.ok()) {
    for (const CallGroup::Join& join : collected.joins) *join.out = nullptr;
    return collected.error;
  }
  TUTTI_TRY(joinAll(collected));
  return collected.calls.empty() ? Status() : startCalls(collected);
}

Status submit(tuttiComm* handle, const Call& call, tuttiStream_t stream) {
  if (groupDepth > 0) {
    currentGroup().calls.push_back({handle, call, stream});
    return {};
  }
  if (carrierOf(handle, stream).isCaller()) {
    TUTTI_ASSIGN(const CommUse comm, use(handle));
    return runCall(*comm, call, stream);
  }
  CallGroup single{.opened = false};
  single.calls.push_back({handle, call, stream});
  return startCalls(single);
}

}  // namespace tutti

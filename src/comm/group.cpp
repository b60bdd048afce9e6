#include "src/comm/group.hpp"

#include <algorithm>
#include <future>

#include "src/comm/launch.hpp"

namespace tutti {
namespace {

/// Counts a call that runs on a handle, so that it is not freed under it.
class InUse {
 public:
  explicit InUse(tuttiComm* handle) : handle_(handle) { handle_->users.fetch_add(1, std::memory_order_acq_rel); }
  ~InUse() { handle_->users.fetch_sub(1, std::memory_order_acq_rel); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  tuttiComm* handle_;
};

/// The part of a group that runs on one stream: one batch per communicator.
struct Part {
  HostStream* carrier = nullptr;  // nullptr: the calling thread
  std::vector<tuttiComm*> handles;
  std::vector<std::unique_ptr<Batch>> batches;
  std::vector<uint64_t> tickets;

  Batch& batchOf(tuttiComm* handle) {
    const auto found = std::find(handles.begin(), handles.end(), handle);
    if (found != handles.end()) return *batches[static_cast<size_t>(found - handles.begin())];
    handles.push_back(handle);
    batches.push_back(std::make_unique<Batch>(*handle->comm));
    tickets.push_back(handle->comm->turn().take());
    return *batches.back();
  }
};

HostStream* carrierOf(tuttiComm* handle, tuttiStream_t stream) {
  if (stream != nullptr) return stream->host.get();
  return handle->own.get();
}

Status runPart(Part* part) {
  Status status = runBatches(part->batches, part->tickets);
  for (tuttiComm* handle : part->handles) {
    if (!status.ok()) remember(handle, status);
    handle->users.fetch_sub(1, std::memory_order_acq_rel);
  }
  return status;
}

Part& partOn(HostStream* carrier, std::vector<std::shared_ptr<Part>>* parts) {
  for (const auto& part : *parts) {
    if (part->carrier == carrier) return *part;
  }
  parts->push_back(std::make_shared<Part>());
  parts->back()->carrier = carrier;
  return *parts->back();
}

std::vector<std::shared_ptr<Part>> partsOf(const Group& group) {
  std::vector<std::shared_ptr<Part>> parts;
  for (const Group::Entry& entry : group.calls) {
    partOn(carrierOf(entry.handle, entry.stream), &parts).batchOf(entry.handle).add(entry.call);
  }
  return parts;
}

Status joinAll(std::vector<Group::Join>* joins) {
  std::vector<std::future<Status>> work;
  for (const Group::Join& join : *joins) {
    work.push_back(std::async(std::launch::async, [&join] { return finishJoin(join.handle, join.join); }));
  }
  Status first;
  for (size_t i = 0; i < work.size(); ++i) {
    Status status = work[i].get();
    if (!status.ok()) *(*joins)[i].out = nullptr;
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status startCalls(const Group& group) {
  // A communicator whose join was part of the group may have failed.
  for (const Group::Entry& entry : group.calls) TUTTI_TRY(asStatus(usable(entry.handle)));
  const std::vector<std::shared_ptr<Part>> parts = partsOf(group);
  std::shared_ptr<Part> here;
  bool background = false;
  for (const auto& part : parts) {
    for (tuttiComm* handle : part->handles) handle->users.fetch_add(1, std::memory_order_acq_rel);
    if (part->carrier == nullptr) {
      here = part;
      continue;
    }
    part->carrier->enqueue([part] { return runPart(part.get()); });
    for (tuttiComm* handle : part->handles) background = background || handle->own.get() == part->carrier;
  }
  if (here) TUTTI_TRY(runPart(here.get()));
  if (background) return {tuttiInProgress, "running in the background; poll tuttiCommGetAsyncError"};
  return {};
}

}  // namespace

thread_local constinit int groupDepth = 0;

Group& currentGroup() {
  static thread_local Group group;
  return group;
}

Status endGroup(Group* group) {
  Group collected = std::move(*group);
  *group = Group();
  if (!collected.error.ok()) {
    for (const Group::Join& join : collected.joins) *join.out = nullptr;
    return collected.error;
  }
  TUTTI_TRY(joinAll(&collected.joins));
  return collected.calls.empty() ? Status() : startCalls(collected);
}

Status submit(tuttiComm* handle, const Call& call, tuttiStream_t stream) {
  if (groupDepth > 0) {
    currentGroup().calls.push_back({handle, call, stream});
    return {};
  }
  HostStream* carrier = carrierOf(handle, stream);
  if (carrier == nullptr) {
    const InUse inUse(handle);
    return runCall(*handle->comm, call);
  }
  Group single;
  single.calls.push_back({handle, call, stream});
  return startCalls(single);
}

}  // namespace tutti

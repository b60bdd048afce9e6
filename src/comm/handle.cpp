#include "src/comm/handle.hpp"

#include <sched.h>

#include <map>
#include <new>
#include <utility>

#include "src/base/caught.hpp"
#include "src/base/forked.hpp"
#include "src/base/threads.hpp"
#include "src/comm/group.hpp"

namespace tutti {
namespace {

/// Never destroyed, not even at exit: threads of the user's may outlive static destructors.
struct Handles {
  using All = std::map<tuttiComm*, std::shared_ptr<tuttiComm>>;
  ProcessMutex mutex;  // guards what follows
  All all;
  tuttiComm *oldestGone = nullptr, *newestGone = nullptr;  // a list by nextGone: to retire one takes no memory
  int nGone = 0;

  static Handles& instance() {
    static auto* const handles = [] {
      auto* const made = new Handles;
      inForkedChild([] { instance().disown(); });
      return made;
    }();
    return *handles;
  }

  // In the state, where every call looks anyway: to know the process costs a call nothing.
  void disown() {
    for (const auto& [handle, owner] : all) {
      using State = tuttiComm::State;
      const State state = handle->state.load(std::memory_order_relaxed);
      if (state == State::Joining || state == State::Ready)
        handle->state.store(State::Forked, std::memory_order_relaxed);
      // A thread of the parent may have held it, in the midst of a change.
      new (&handle->mutex) std::mutex;
      new (&handle->lastErrorText) std::string;
      new (&handle->shownErrorText) std::string;
    }
  }

  void append(tuttiComm* handle) {
    handle->nextGone = nullptr;
    (newestGone != nullptr ? newestGone->nextGone : oldestGone) = handle;
    newestGone = handle;
    ++nGone;
  }

  /// The oldest that is gone if nobody needs it; it goes to the end of the line if a parent or a caller still does.
  All::node_type takeOldest() {
    tuttiComm* const oldest = oldestGone;
    oldestGone = oldest->nextGone;
    if (oldestGone == nullptr) newestGone = nullptr;
    --nGone;
    const auto found = all.find(oldest);
    const bool free = found->second.use_count() == 1 && oldest->users.load(std::memory_order_acquire) == 0;
    if (free) return all.extract(found);
    append(oldest);
    return {};
  }
};

}  // namespace

tuttiComm* newHandle(int rank, int nRanks, const CommSettings& settings) {
  auto handle = std::make_shared<tuttiComm>();
  handle->rank = rank;
  handle->nRanks = nRanks;
  handle->settings = settings;
  Handles& handles = Handles::instance();
  const std::lock_guard lock(handles.mutex);
  return handles.all.emplace(handle.get(), handle).first->first;
}

void retire(tuttiComm* handle) noexcept {
  Handles& handles = Handles::instance();
  Handles::All::node_type freed;  // without the lock
  const std::lock_guard lock(handles.mutex);
  if (std::exchange(handle->retired, true)) return;
  handles.append(handle);
  if (handles.nGone > kGoneKept) freed = handles.takeOldest();
}

void remember(tuttiComm* handle, const Status& error) {
  const std::lock_guard lock(handle->mutex);
  handle->lastErrorText = error.text();
}

Status finishJoin(tuttiComm* handle, const JoinFunction& join) {
  Result<std::unique_ptr<Comm>> comm = caught([&] { return join(&handle->abortState); });
  const Status status = comm.status();
  if (!status.ok()) {
    handle->own.reset();
    {
      const std::lock_guard lock(handle->mutex);
      handle->error = status;
      handle->lastErrorText = status.text();
    }
    handle->state.store(tuttiComm::State::Failed, std::memory_order_release);
    return status;
  }
  handle->comm = std::move(comm).value();
  handle->callOrder = handle->comm->calls().order;
  handle->rank = handle->comm->rank();
  handle->nRanks = handle->comm->nRanks();
  handle->state.store(tuttiComm::State::Ready, std::memory_order_release);  // pairs with use()
  return {};
}

namespace {

/// All threads that a communicator with blocking = 0 needs: the other ranks are still to come, and can be told.
Status startBackground(tuttiComm* handle, JoinFunction join) {
  TUTTI_ASSIGN(handle->own, HostStream::create());
  TUTTI_ASSIGN(handle->joiner, startThread("joining in the background",
                                           [handle, work = std::move(join)] { (void)finishJoin(handle, work); }));
  return {};
}

Status joinInBackground(tuttiComm* handle, JoinFunction join, const NotComing& notComing, tuttiComm_t* out) {
  const Status started = startBackground(handle, std::move(join));
  if (started.ok()) return {tuttiInProgress, "joining in the background; poll tuttiCommGetAsyncError"};
  *out = nullptr;
  handle->own.reset();
  retire(handle);
  if (notComing) notComing(started);
  return started;
}

}  // namespace

Status startJoin(tuttiComm* handle, JoinFunction join, tuttiComm_t* out, NotComing notComing) {
  *out = handle;
  if (!handle->settings.blocking) return joinInBackground(handle, std::move(join), notComing, out);
  if (groupDepth > 0) {
    currentGroup().joins.push_back({handle, std::move(join), std::move(notComing), out});
    return {};
  }
  Status status = finishJoin(handle, join);
  if (!status.ok()) {
    *out = nullptr;
    retire(handle);
  }
  return status;
}

Result<CommUse> use(tuttiComm_t handle) {
  if (handle == nullptr)
    return invalidArgument(ErrorCode::CommunicatorInvalid, "comm is NULL; pass what a tuttiCommInit function made");
  CommUse inUse(handle);  // before the state is read: then it is not freed, or the state says that it is
  switch (handle->state.load(std::memory_order_seq_cst)) {
    case tuttiComm::State::Ready: return inUse;
    case tuttiComm::State::Joining:
      return invalidUsage(ErrorCode::StillJoining, "comm (rank ", handle->rank, " of ", handle->nRanks,
                          ") is still joining; poll tuttiCommGetAsyncError until it leaves tuttiInProgress");
    case tuttiComm::State::Gone:
      return invalidArgument(ErrorCode::CommunicatorInvalid, "comm (rank ", handle->rank, " of ", handle->nRanks,
                             ") has been destroyed or aborted");
    case tuttiComm::State::Forked: return checkProcess(handle);
    case tuttiComm::State::Failed: break;
  }
  const std::lock_guard lock(handle->mutex);
  return handle->error;
}

Status checkProcess(const tuttiComm* handle) {
  if (handle->state.load(std::memory_order_acquire) != tuttiComm::State::Forked) return {};
  return invalidUsage(ErrorCode::Forked, "comm (rank ", handle->rank, " of ", handle->nRanks,
                      ") was made before this process was forked and is its parent's: make one in the child, or start "
                      "processes that use it anew (spawn)");
}

void finishJoiner(tuttiComm* handle) {
  const std::lock_guard lock(handle->joinerMutex);
  if (handle->joiner.joinable()) handle->joiner.join();
}

void endComm(tuttiComm* handle) {
  // seq_cst: partner of CallOrder::take() and of CommUse
  if (handle->state.exchange(tuttiComm::State::Gone, std::memory_order_seq_cst) == tuttiComm::State::Gone) return;
  while (handle->users.load(std::memory_order_seq_cst) > 0) sched_yield();
  if (handle->callOrder != nullptr) handle->callOrder->drain();
  handle->own.reset();
  handle->comm.reset();
  handle->abortState.close();
  retire(handle);
}

}  // namespace tutti

// Communicators: joining, children, state, end.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/api/entry.hpp"
#include "src/base/caught.hpp"
#include "src/comm/children.hpp"
#include "src/control/session/unique_id.hpp"

using namespace tutti;

namespace {

Status checkRankAndSize(int rank, int nRanks) {
  if (nRanks < 1)
    return invalidArgument(ErrorCode::RankOutOfRange, "nRanks ", nRanks, " is less than 1; pass how many ranks join");
  if (rank < 0 || rank >= nRanks)
    return invalidArgument(ErrorCode::RankOutOfRange, "rank ", rank, " is outside 0..", nRanks - 1,
                           "; ranks count from 0, and nRanks is ", nRanks);
  return {};
}

/// `why` this rank makes no attempt to join, when the others have been told.
Status notComing(const MeetingPlace& place, int rank, int nRanks, Status why) {
  tellRendezvousPlace(place, rank, nRanks, why);
  return why;
}

NotComing tells(const MeetingPlace& place, int rank, int nRanks) {
  return [=](const Status& why) { tellRendezvousPlace(place, rank, nRanks, why, /*waits=*/false); };
}

/// The ranks of a parent, from which a child is made; a parent that has been freed meanwhile has none.
NotComing tells(tuttiComm* parent) {
  return [handle = parent->shared_from_this()](const Status& why) {
    const Result<CommUse> comm = use(handle.get());
    if (!comm.ok()) return;
    (*comm)->watchdog().fail(remoteError(ErrorCode::CannotJoin, "rank ", (*comm)->rank(),
                                         " cannot take part in making a communicator from this one: ", why.text()));
  };
}

/// Joins by a unique id, with a Session of its own.
JoinFunction joinById(const MeetingPlace& place, int rank, int nRanks, const CommSettings& settings) {
  return [=](AbortState* abortState) -> Result<std::unique_ptr<Comm>> {
    const Reach reach = staysOnHost(place.controlAddress) ? Reach::Host : Reach::Network;
    Result<std::shared_ptr<Session>> session = Session::create(reach);
    if (!session.ok()) return notComing(place, rank, nRanks, session.status());
    JoinRequest request;
    request.commId = place.commId;
    request.secret = place.secret;
    request.secretOfUser = place.secretOfUser;
    request.rank = rank;
    request.nRanks = nRanks;
    request.self = (*session)->controlAddress();
    request.rendezvous = place.controlAddress;
    Result<std::unique_ptr<Comm>> comm = Comm::join(*session, std::move(request), settings, abortState);
    const bool aborted = abortState->ended() && abortState->reason().ok();
    if (!comm.ok() && !aborted && comm.status().code() != tuttiTimeout) awaitRendezvousPlace(place.commId);
    return comm;
  };
}

/// cudaDevice: instead of the thread's current one, where ranks compute on CUDA devices; -1: that one.
Status initRank(tuttiComm_t* comm, int nRanks, const tuttiUniqueId& id, int rank, const tuttiConfig_t* config,
                int cudaDevice = -1) {
  TUTTI_TRY(checkNotNull(comm, "comm"));
  *comm = nullptr;
  const Result<MeetingPlace> place = decodeUniqueId(id);
  const Status seat = checkRankAndSize(rank, nRanks);
  Result<CommSettings> settings = seat.ok() ? resolveSettings(config, nullptr) : seat;
  if (!settings.ok()) return place.ok() ? notComing(*place, rank, nRanks, settings.status()) : settings.status();
  TUTTI_TRY(place.status());
  if (settings->cudaDevice >= 0 && cudaDevice >= 0) settings->cudaDevice = cudaDevice;
  return startJoin(newHandle(rank, nRanks, *settings), joinById(*place, rank, nRanks, *settings), comm,
                   tells(*place, rank, nRanks));
}

Status initEnv(tuttiComm_t* comm, const tuttiConfig_t* config) {
  TUTTI_TRY(checkNotNull(comm, "comm"));
  *comm = nullptr;
  const Result<CommSettings> settings = resolveSettings(config, nullptr);
  // The other ranks are found by settings that are in doubt here, and hear of it if they can be found all the same.
  Result<LaunchInfo> launch = launchInfo(Deadline::inMs(settings.ok() ? settings->timeoutMs : kTellMs));
  if (!settings.ok() && (!launch.ok() || launch->nRanks == 1)) return settings.status();
  TUTTI_TRY(launch.status());
  if (launch->nRanks == 1) {
    TUTTI_ASSIGN(launch->id, openRendezvousPlace(Reach::Host));
  }
  TUTTI_ASSIGN(const MeetingPlace place, decodeUniqueId(launch->id));
  wipe(launch->id.internal, sizeof launch->id.internal);
  if (!settings.ok()) return notComing(place, launch->rank, launch->nRanks, settings.status());
  return startJoin(newHandle(launch->rank, launch->nRanks, *settings),
                   joinById(place, launch->rank, launch->nRanks, *settings), comm,
                   tells(place, launch->rank, launch->nRanks));
}

Status initAll(tuttiComm_t* comms, int nDev, const int* devList) {
  TUTTI_TRY(checkNotNull(comms, "comms"));
  if (nDev < 1)
    return invalidArgument(ErrorCode::RankOutOfRange, "nDev ", nDev,
                           " is less than 1; pass how many ranks the process makes");
  TUTTI_ASSIGN(const tuttiUniqueId id, openRendezvousPlace(Reach::Host));
  ++groupDepth;
  Status status;
  for (int rank = 0; rank < nDev; ++rank) {
    Status joined = initRank(&comms[rank], nDev, id, rank, nullptr, devList != nullptr ? devList[rank] : rank);
    if (status.ok()) status = std::move(joined);
  }
  if (--groupDepth > 0) return status;
  Status ended = endGroup(&currentGroup());
  if (!ended.ok()) {
    for (int rank = 0; rank < nDev; ++rank) {
      if (comms[rank] != nullptr) tuttiCommAbort(comms[rank]);
      comms[rank] = nullptr;
    }
  }
  return status.ok() ? ended : status;
}

/// Children join in the same way as new communicators; the plan for it may need the parent's ranks.
JoinFunction joinChild(tuttiComm* parent, std::function<Result<ChildPlan>()> plan, const CommSettings& settings) {
  return [parent = parent->shared_from_this(), plan = std::move(plan),
          settings](AbortState* abortState) mutable -> Result<std::unique_ptr<Comm>> {
    TUTTI_ASSIGN(ChildPlan child, std::exchange(plan, nullptr)());  // lets go of the parent before the join
    return joinPlanned(&parent->abortState, std::move(child), settings, abortState);
  };
}

Status commSplit(tuttiComm_t parent, int color, int key, tuttiComm_t* newComm, const tuttiConfig_t* config) {
  TUTTI_TRY(checkNotNull(newComm, "newComm"));
  *newComm = nullptr;
  TUTTI_ASSIGN(const CommUse comm, use(parent));
  if (color < 0 && color != TUTTI_SPLIT_NOCOLOR) {
    return invalidArgument(ErrorCode::ArgumentValue, "color ", color,
                           " is negative; pass 0 or more, or TUTTI_SPLIT_NOCOLOR to stay out");
  }
  TUTTI_ASSIGN(const CommSettings settings, resolveSettings(config, &comm->settings()));
  comm->callOrder().drain();
  TUTTI_TRY(comm->failure());
  if (color == TUTTI_SPLIT_NOCOLOR) {
    const auto attend = [comm, key] { return asStatus(planSplit(*comm, TUTTI_SPLIT_NOCOLOR, key, true, true)); };
    if (groupDepth == 0) return attend();
    currentGroup().presences.push_back({attend, tells(parent)});  // other ranks of this thread are in the same group
    return {};
  }
  const auto plan = [comm, color, key, settings] {
    return planSplit(*comm, color, key, settings.splitShare, settings.blocking);
  };
  tuttiComm* const child = newHandle(-1, 0, settings);
  if (settings.splitShare) parent->abortState.adopt(child);
  return startJoin(child, joinChild(parent, plan, settings), newComm, tells(parent));
}

Status commShrink(tuttiComm_t parent, const int* list, int count, tuttiComm_t* newComm, const tuttiConfig_t* config,
                  int flags) {
  TUTTI_TRY(checkNotNull(newComm, "newComm"));
  *newComm = nullptr;
  TUTTI_ASSIGN(const CommUse comm, use(parent));
  if (count < 0)
    return invalidArgument(ErrorCode::MembershipArgument, "excludeRanksCount ", count,
                           " is negative; pass how many ranks the list has");
  if (count > 0) TUTTI_TRY(checkNotNull(list, "excludeRanksList"));
  if (flags != TUTTI_SHRINK_DEFAULT && flags != TUTTI_SHRINK_ABORT) {
    return invalidArgument(ErrorCode::ArgumentValue, "shrinkFlags ", flags,
                           " is unknown; pass TUTTI_SHRINK_DEFAULT or TUTTI_SHRINK_ABORT");
  }
  std::vector<int> excluded(list, list + count);
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  for (const int rank : excluded) {
    if (rank < 0 || rank >= comm->nRanks())
      return invalidArgument(ErrorCode::MembershipArgument, "excluded rank ", rank,
                             " is not a rank of comm; its ranks are 0..", comm->nRanks() - 1);
    if (rank == comm->rank())
      return invalidArgument(ErrorCode::MembershipArgument, "rank ", rank,
                             " excludes itself; only ranks that stay call tuttiCommShrink");
  }
  TUTTI_ASSIGN(const CommSettings settings, resolveSettings(config, &comm->settings()));
  if (flags == TUTTI_SHRINK_ABORT) {
    comm->revoke();
  } else {
    TUTTI_TRY(comm->failure());
  }
  comm->callOrder().drain();
  const auto join = [comm, excluded, flags, settings](AbortState* abortState) {
    return joinShrunk(*comm, excluded, flags == TUTTI_SHRINK_ABORT, settings, abortState);
  };
  return startJoin(newHandle(-1, 0, settings), join, newComm, tells(parent));
}

Status commGrow(tuttiComm_t parent, int nRanks, const tuttiUniqueId* id, int rank, tuttiComm_t* newComm,
                const tuttiConfig_t* config) {
  TUTTI_TRY(checkNotNull(newComm, "newComm"));
  *newComm = nullptr;
  if (parent == nullptr) {
    TUTTI_TRY(checkNotNull(id, "uniqueId (of a new rank)"));
    return initRank(newComm, nRanks, *id, rank, config);
  }
  TUTTI_ASSIGN(const CommUse comm, use(parent));
  if (rank != -1)
    return invalidArgument(ErrorCode::MembershipArgument, "rank ", rank,
                           " was passed by a rank of the old communicator, which keeps its number; pass -1");
  if (nRanks <= comm->nRanks()) {
    return invalidArgument(ErrorCode::MembershipArgument, "nRanks ", nRanks, " is not more than the ", comm->nRanks(),
                           " ranks of comm; pass the size after growing");
  }
  TUTTI_ASSIGN(const CommSettings settings, resolveSettings(config, &comm->settings()));
  const auto forget = [](tuttiUniqueId* secret) {
    if (secret != nullptr) wipe(secret->internal, sizeof secret->internal);
    delete secret;
  };
  const std::shared_ptr<tuttiUniqueId> copy(id == nullptr ? nullptr : new tuttiUniqueId(*id), forget);
  comm->callOrder().drain();
  if (const Status failure = comm->failure(); !failure.ok()) return growFailed(*comm, nRanks, id, failure);
  const auto plan = [comm, nRanks, copy, waits = settings.blocking] {
    return planGrow(*comm, nRanks, copy.get(), waits);
  };
  const auto notComing = [handle = parent->shared_from_this(), nRanks, copy](const Status& why) {
    tells(handle.get())(why);
    if (const Result<CommUse> old = use(handle.get()); old.ok()) (void)growFailed(**old, nRanks, copy.get(), why);
  };
  return startJoin(newHandle(comm->rank(), nRanks, settings), joinChild(parent, plan, settings), newComm, notComing);
}

/// The handle of a communicator that is to end, whatever state it is in.
Status checkEnding(tuttiComm_t comm) {
  TUTTI_TRY(checkNotNull(comm, "comm"));
  if (comm->state.load(std::memory_order_acquire) == tuttiComm::State::Gone) {
    return invalidArgument(ErrorCode::CommunicatorInvalid, "comm has been destroyed or aborted already");
  }
  return checkProcess(comm);
}

/// Everything that is under way, then the farewell of all ranks.
Status finishCalls(const CommUse& comm) {
  Status status;
  if (comm.handle()->own) status = comm.handle()->own->synchronize();
  const Status finalized = comm->finalize();
  return status.ok() ? finalized : status;
}

Status destroy(tuttiComm_t handle) {
  TUTTI_TRY(checkEnding(handle));
  finishJoiner(handle);
  Status status;
  {
    const Result<CommUse> comm = use(handle);  // else it never came up, or another thread aborts it
    if (comm.ok() && !handle->finalized.load()) status = caught([&] { return finishCalls(*comm); });
  }
  endComm(handle);
  return status;
}

Status abortComm(tuttiComm_t handle) {
  TUTTI_TRY(checkEnding(handle));
  handle->abortState.stop();  // ends a join, and calls in flight
  finishJoiner(handle);
  (void)caught([&]() -> Status {
    if (const Result<CommUse> comm = use(handle); comm.ok()) (*comm)->abort();
    return {};
  });
  endComm(handle);
  return {};
}

Status asyncError(tuttiComm_t handle, tuttiResult_t* out) {
  TUTTI_TRY(checkNotNull(out, "asyncError"));
  TUTTI_TRY(checkEnding(handle));
  Status state;
  if (handle->state.load(std::memory_order_acquire) == tuttiComm::State::Joining) {
    state = {tuttiInProgress, "joining"};
  } else {
    const Result<CommUse> comm = use(handle);
    state = comm.status();
    if (state.ok() && handle->own) state = handle->own->query();
    if (state.ok()) state = (*comm)->failure();
  }
  if (!state.ok()) remember(handle, state);
  *out = state.code();
  return {};
}

/// A communicator that has failed can be dumped, too.
Status dump(tuttiComm_t handle, const char* path) {
  TUTTI_TRY(checkNotNull(handle, "comm"));
  TUTTI_ASSIGN(const CommUse comm, use(handle));
  FlightRecorder& recorder = comm->watchdog().recorder();
  std::string file = path != nullptr ? path : "";
  std::error_code ignored;
  if (!file.empty() && std::filesystem::is_directory(file, ignored)) file = recorder.pathIn(file);
  const Status failure = comm->failure();
  return recorder.dump(file, failure.ok() ? "the program asked for it" : failure.text());
}

}  // namespace

extern "C" {

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nRanks, tuttiUniqueId commId, int rank) {
  return guardedCall("CommInitRank", nullptr, [&] {
    const Status status = initRank(comm, nRanks, commId, rank, nullptr);
    wipe(commId.internal, sizeof commId.internal);
    return status;
  });
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nRanks, tuttiUniqueId commId, int rank,
                                      tuttiConfig_t* config) {
  return guardedCall("CommInitRankConfig", nullptr, [&] {
    const Status status = initRank(comm, nRanks, commId, rank, config);
    wipe(commId.internal, sizeof commId.internal);
    return status;
  });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int nDev, const int* devList) {
  return guardedCall("CommInitAll", nullptr, [&] { return initAll(comms, nDev, devList); });
}

tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm, tuttiConfig_t* config) {
  return guardedCall("CommInitEnv", nullptr, [&] { return initEnv(comm, config); });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newComm, tuttiConfig_t* config) {
  return guardedCall("CommSplit", comm, [&] { return commSplit(comm, color, key, newComm, config); });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excludeRanksList, int excludeRanksCount,
                              tuttiComm_t* newComm, tuttiConfig_t* config, int shrinkFlags) {
  return guardedCall("CommShrink", comm, [&] {
    return commShrink(comm, excludeRanksList, excludeRanksCount, newComm, config, shrinkFlags);
  });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nRanks, const tuttiUniqueId* uniqueId, int rank, tuttiComm_t* newComm,
                            tuttiConfig_t* config) {
  return guardedCall("CommGrow", comm, [&] { return commGrow(comm, nRanks, uniqueId, rank, newComm, config); });
}

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags) {
  return guarded("CommRevoke", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    if (flags != 0) return invalidArgument(ErrorCode::ArgumentValue, "flags ", flags, " is unknown; pass 0");
    live->revoke();
    return {};
  });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  return guarded("CommFinalize", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    if (comm->finalized.exchange(true))
      return invalidUsage(ErrorCode::Finalized, "comm (rank ", comm->rank, " of ", comm->nRanks,
                          ") has been finalized already; only tuttiCommDestroy may follow");
    if (comm->own) TUTTI_TRY(comm->own->synchronize());
    return live->finalize();
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return guarded("CommDestroy", comm, [&] { return destroy(comm); });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return guarded("CommAbort", comm, [&] { return abortComm(comm); });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncErr) {
  return guarded("CommGetAsyncError", comm, [&] { return asyncError(comm, asyncErr); });
}

tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* count) {
  return guarded("CommCount", comm, [&]() -> Status {
    TUTTI_TRY(checkEnding(comm));
    TUTTI_TRY(checkNotNull(count, "count"));
    TUTTI_TRY(asStatus(use(comm)));
    *count = comm->nRanks;
    return {};
  });
}

tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank) {
  return guarded("CommUserRank", comm, [&]() -> Status {
    TUTTI_TRY(asStatus(use(comm)));
    TUTTI_TRY(checkNotNull(rank, "rank"));
    *rank = comm->rank;
    return {};
  });
}

tuttiResult_t tuttiCommCuDevice(tuttiComm_t comm, int* device) {
  return guarded("CommCuDevice", comm, [&]() -> Status {
    TUTTI_TRY(asStatus(use(comm)));
    TUTTI_TRY(checkNotNull(device, "device"));
    *device = comm->settings.cudaDevice;
    return {};
  });
}

tuttiResult_t tuttiCommSetTimeout(tuttiComm_t comm, int timeoutMs) {
  return guarded("CommSetTimeout", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    if (timeoutMs < 0)
      return invalidArgument(ErrorCode::ArgumentValue, "timeoutMs ", timeoutMs,
                             " is negative; pass milliseconds, or 0 to wait for ever");
    live->watchdog().setTimeoutMs(timeoutMs);
    return {};
  });
}

tuttiResult_t tuttiCommDump(tuttiComm_t comm, const char* path) {
  return guarded("CommDump", comm, [&] { return dump(comm, path); });
}

}  // extern "C"

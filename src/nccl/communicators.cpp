// Communicators: making them, their children, their state, their end.
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "src/nccl/calls.hpp"
#include "src/nccl/cliques.hpp"
#include "src/nccl/config.hpp"
#include "src/nccl/current_device.hpp"
#include "src/nccl/environment.hpp"
#include "src/nccl/errors.hpp"
#include "src/nccl/log.hpp"

using namespace tutti::nccl;

namespace {

tuttiComm_t* handles(ncclComm_t* comms) { return reinterpret_cast<tuttiComm_t*>(comms); }

tuttiUniqueId idOf(const ncclUniqueId& theirs) {
  tuttiUniqueId id;
  static_assert(sizeof id == sizeof theirs);
  std::memcpy(&id, &theirs, sizeof id);
  return id;
}

std::string keyOf(const ncclUniqueId& id) { return {id.internal, sizeof id.internal}; }

void logVersionOnce() {
  static const bool logged = [] {
    logVersion(format("NCCL version %d.%d.%d+tutti%d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, TUTTI_MAJOR,
                      TUTTI_MINOR, TUTTI_PATCH));
    return true;
  }();
  (void)logged;
}

/// What comes of a call that makes a communicator, which announced itself under `key`.
ncclResult_t made(const char* function, const std::string& key, tuttiResult_t result, ncclComm_t* comm, Shares shares) {
  const bool hasHandle = (result == tuttiSuccess || result == tuttiInProgress) && *comm != nullptr;
  if (hasHandle) {
    joinsInGroup(comm);
    joined(key, *comm, function, shares);
  } else {
    notJoined(key);
  }
  return finish(function, result);
}

/// With NCCL_COMM_ID nobody has opened the rendezvous yet; rank 0 does.
tuttiResult_t openAgreedPlace(const ncclUniqueId& theirs, int rank) {
  const std::string& address = environment().commId;
  if (address.empty() || rank != 0) return tuttiSuccess;
  tuttiUniqueId agreed;
  const tuttiResult_t known = tuttiGetUniqueIdAt(address.c_str(), 0, &agreed);
  if (known != tuttiSuccess || std::memcmp(&agreed, &theirs, sizeof agreed) != 0) return known;
  return tuttiGetUniqueIdAt(address.c_str(), 1, &agreed);
}

void logStart(const char* function, int rank, int nRanks, const std::string& key) {
  if (!infoEnabled(subject::kInit)) return;
  const int device = currentDevice();
  logInfo(subject::kInit,
          format("nccl%s rank %d nranks %d cudaDev %d nvmlDev %d busId %llx commId 0x%016llx - Init START", function,
                 rank, nRanks, device, device, busIdOf(device), hashOf(key)));
}

ncclResult_t initRank(const char* function, ncclComm_t* comm, int nRanks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config) {
  if (comm == nullptr) return fail(ncclInvalidArgument, function, "comm is NULL");
  *comm = nullptr;
  tuttiConfig_t options;
  Shares shares;
  if (const ncclResult_t bad = translateConfig(function, config, &options, &shares); bad != ncclSuccess) return bad;
  if (rank == 0) logVersionOnce();
  const std::string key = keyOf(id);
  logStart(function, rank, nRanks, key);
  if (const tuttiResult_t place = openAgreedPlace(id, rank); place != tuttiSuccess) return finish(function, place);
  joining(key);
  return made(function, key, tuttiCommInitRankConfig(handles(comm), nRanks, idOf(id), rank, &options), comm, shares);
}

ncclResult_t getUniqueId(const char* function, ncclUniqueId* uniqueId) {
  if (uniqueId == nullptr) return fail(ncclInvalidArgument, function, "uniqueId is NULL");
  const Environment& env = environment();
  if (!env.error.empty()) return fail(ncclInvalidUsage, function, env.error);
  tuttiUniqueId id;
  const tuttiResult_t result =
      env.commId.empty() ? tuttiGetUniqueId(&id) : tuttiGetUniqueIdAt(env.commId.c_str(), 0, &id);
  if (result == tuttiSuccess) std::memcpy(uniqueId, &id, sizeof id);
  return finish(function, result);
}

// On CUDA devices tutti gives each rank its own; there the environment's options are its own variables' alone.
ncclResult_t initAllOnDevices(const char* function, ncclComm_t* comms, int nDev, const int* devices) {
  static std::atomic<int> count{0};
  tuttiConfig_t options;
  Shares shares;
  if (const ncclResult_t bad = translateConfig(function, nullptr, &options, &shares); bad != ncclSuccess) return bad;
  logVersionOnce();
  (void)tuttiSetDefault("TUTTI_DEVICE", "cuda");  // this process is a program for CUDA devices
  const std::string key = "all " + std::to_string(getpid()) + " " + std::to_string(++count);
  for (int rank = 0; rank < nDev; ++rank) joining(key);
  const tuttiResult_t result = tuttiCommInitAll(handles(comms), nDev, devices);
  ncclResult_t first = ncclSuccess;
  for (int rank = 0; rank < nDev; ++rank) {
    const ncclResult_t each = made(function, key, result, &comms[rank], shares);
    if (each == ncclSuccess && options.timeoutMs != TUTTI_CONFIG_UNDEF_INT) {
      (void)tuttiCommSetTimeout(handle(comms[rank]), options.timeoutMs);
    }
    if (first == ncclSuccess) first = each;
  }
  return first;
}

// In one group, so that one thread can bring them all up.  Ranks on host memory have no device.
ncclResult_t initAll(const char* function, ncclComm_t* comms, int nDev, const int* devices) {
  ncclUniqueId id;
  if (comms == nullptr) return fail(ncclInvalidArgument, function, "comm is NULL");
  if (nDev < 1) return fail(ncclInvalidArgument, function, format("ndev %d is less than 1", nDev));
  for (int rank = 0; rank < nDev; ++rank) comms[rank] = nullptr;
  if (!onHost()) return initAllOnDevices(function, comms, nDev, devices);
  if (const ncclResult_t none = getUniqueId(function, &id); none != ncclSuccess) return none;
  (void)tuttiGroupStart();
  groupStarted();
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < nDev && (result == ncclSuccess || result == ncclInProgress); ++rank) {
    result = initRank(function, &comms[rank], nDev, id, rank, nullptr);
  }
  const ncclResult_t ended = finish(function, tuttiGroupEnd());
  groupEnded();
  const bool failedNow = result != ncclSuccess && result != ncclInProgress;
  if (!failedNow && (ended == ncclSuccess || ended == ncclInProgress)) return result == ncclSuccess ? ended : result;
  for (int rank = 0; rank < nDev; ++rank) {
    if (comms[rank] != nullptr) (void)abortComm(comms[rank]);
    comms[rank] = nullptr;
  }
  return failedNow ? result : ended;
}

/// Only what takes the place of a revoked communicator can be made of it.
ncclResult_t checkNotRevoked(const char* function, ncclComm_t comm) {
  if (!isRevoked(comm)) return ncclSuccess;
  return unsupported(function, "comm has been revoked, and is succeeded by what ncclCommShrink makes of it");
}

}  // namespace

NCCL_EXPORT(ncclResult_t, GetVersion, (int* version)) {
  if (version == nullptr) return fail(ncclInvalidArgument, "GetVersion", "version is NULL");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId)) { return getUniqueId("GetUniqueId", uniqueId); }

NCCL_EXPORT(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return initRank("CommInitRank", comm, nranks, commId, rank, nullptr);
}

NCCL_EXPORT(ncclResult_t, CommInitRankConfig,
            (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return initRank("CommInitRankConfig", comm, nranks, commId, rank, config);
}

// One rendezvous does for any number of ranks.
NCCL_EXPORT(ncclResult_t, CommInitRankScalable,
            (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config)) {
  if (nId < 1 || commIds == nullptr || (nranks > 0 && nId > nranks)) {
    return fail(ncclInvalidArgument, "CommInitRankScalable",
                format("there are %d ids for %d ranks", commIds == nullptr ? 0 : nId, nranks));
  }
  return initRank("CommInitRankScalable", newcomm, nranks, commIds[0], myrank, config);
}

NCCL_EXPORT(ncclResult_t, CommInitAll, (ncclComm_t * comm, int ndev, const int* devlist)) {
  return initAll("CommInitAll", comm, ndev, devlist);
}

NCCL_EXPORT(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  constexpr const char* kFunction = "CommSplit";
  tuttiConfig_t options;
  Shares shares = sharesOf(comm);
  if (newcomm == nullptr) return fail(ncclInvalidArgument, kFunction, "newcomm is NULL");
  if (const ncclResult_t bad = checkNotRevoked(kFunction, comm); bad != ncclSuccess) return bad;
  const ncclResult_t bad = translateChildConfig(kFunction, config, shares.split, &options, &shares);
  if (bad != ncclSuccess) return bad;
  const std::string name = childKey(comm, "color " + std::to_string(color));
  joining(name);
  return made(kFunction, name, tuttiCommSplit(handle(comm), color, key, handles(newcomm), &options), newcomm, shares);
}

NCCL_EXPORT(ncclResult_t, CommShrink,
            (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
             int shrinkFlags)) {
  constexpr const char* kFunction = "CommShrink";
  tuttiConfig_t options;
  Shares shares = sharesOf(comm);
  if (newcomm == nullptr) return fail(ncclInvalidArgument, kFunction, "newcomm is NULL");
  if (excludeRanksCount < 1) return fail(ncclInvalidArgument, kFunction, "no rank is excluded");
  if (isRevoked(comm)) shrinkFlags |= NCCL_SHRINK_ABORT;
  const bool share = shares.shrink && (shrinkFlags & NCCL_SHRINK_ABORT) == 0;
  const ncclResult_t bad = translateChildConfig(kFunction, config, share, &options, &shares);
  if (bad != ncclSuccess) return bad;
  const std::string name = childKey(comm, "shrunk");
  joining(name);
  return made(
      kFunction, name,
      tuttiCommShrink(handle(comm), excludeRanksList, excludeRanksCount, handles(newcomm), &options, shrinkFlags),
      newcomm, shares);
}

// 2.29.  Any rank of comm may ask for an id to hand to those that are to come.
NCCL_EXPORT(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId)) {
  if (comm == nullptr) return fail(ncclInvalidArgument, "CommGetUniqueId", "comm is NULL");
  if (uniqueId == nullptr) return fail(ncclInvalidArgument, "CommGetUniqueId", "uniqueId is NULL");
  tuttiUniqueId id;
  const tuttiResult_t result = tuttiGetUniqueId(&id);
  if (result == tuttiSuccess) std::memcpy(uniqueId, &id, sizeof id);
  return finish("CommGetUniqueId", result);
}

// 2.29.  New ranks know the id, ranks of the parent know the parent: with both in one process, each kind is one's own
// thread's business to destroy.
NCCL_EXPORT(ncclResult_t, CommGrow,
            (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
             ncclConfig_t* config)) {
  tuttiConfig_t options;
  Shares shares = sharesOf(comm);
  if (newcomm == nullptr) return fail(ncclInvalidArgument, "CommGrow", "newcomm is NULL");
  if (comm == nullptr && uniqueId == nullptr) {
    return fail(ncclInvalidArgument, "CommGrow", "a new rank needs an id");
  }
  ncclResult_t bad = checkNotRevoked("CommGrow", comm);
  if (bad == ncclSuccess) {
    bad = comm != nullptr ? translateChildConfig("CommGrow", config, false, &options, &shares)
                          : translateConfig("CommGrow", config, &options, &shares);
  }
  if (bad != ncclSuccess) return bad;
  const std::string name = comm != nullptr ? childKey(comm, "grown") : keyOf(*uniqueId);
  joining(name);
  const tuttiUniqueId id = uniqueId == nullptr ? tuttiUniqueId{} : idOf(*uniqueId);
  return made(
      "CommGrow", name,
      tuttiCommGrow(handle(comm), nRanks, uniqueId == nullptr ? nullptr : &id, rank, handles(newcomm), &options),
      newcomm, shares);
}

// Here and in what follows NCCL takes a NULL communicator, so that clean-up code need not look.
NCCL_EXPORT(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags)) {
  return comm == nullptr ? ncclSuccess : revokeComm(comm, revokeFlags);
}

NCCL_EXPORT(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  return comm == nullptr ? ncclSuccess : finalizeComm(comm);
}

NCCL_EXPORT(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  const ncclResult_t result = destroyComm(comm);
  logInfo(subject::kInit | subject::kDestroy, format("comm %p - Destroy COMPLETE", static_cast<void*>(comm)));
  return result;
}

NCCL_EXPORT(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  const ncclResult_t result = abortComm(comm);
  logInfo(subject::kInit | subject::kDestroy, format("comm %p - Abort COMPLETE", static_cast<void*>(comm)));
  return result;
}

NCCL_EXPORT(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  if (asyncError == nullptr) return fail(ncclInvalidArgument, "CommGetAsyncError", "asyncError is NULL");
  tuttiResult_t state = tuttiSuccess;
  const tuttiResult_t result = tuttiCommGetAsyncError(handle(comm), &state);
  if (result != tuttiSuccess) return finish("CommGetAsyncError", result);
  const bool quiet = state != tuttiInProgress && isRevoked(comm);  // as this rank wanted it
  *asyncError = quiet ? ncclSuccess : codeOf(state);
  announce(comm);
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) {
  return finish("CommCount", tuttiCommCount(handle(comm), count));
}

NCCL_EXPORT(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device)) {
  return finish("CommCuDevice", tuttiCommCuDevice(handle(comm), device));
}

NCCL_EXPORT(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank)) {
  return finish("CommUserRank", tuttiCommUserRank(handle(comm), rank));
}

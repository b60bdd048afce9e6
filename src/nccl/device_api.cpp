// The host side of NCCL's device API (nccl_device.h): communication from inside a user's kernels, which Tutti does not
// have.  Its functions are here because clients that only may use it refer to them; they say no.
//
// Teams are answered: no two ranks can load and store each other's memory ("LSA") through this API, so the LSA team of
// a rank is itself, and its rail is everyone.
#include <algorithm>
#include <cstring>

#include "src/nccl/calls.hpp"
#include "src/nccl/cliques.hpp"
#include "src/nccl/errors.hpp"

using namespace tutti::nccl;

namespace {

constexpr const char* kNoDeviceApi = "kernels cannot communicate by themselves";

Team world(ncclComm_t comm) {
  Team team{1, 0, 1};
  (void)tuttiCommCount(handle(comm), &team.nRanks);
  (void)tuttiCommUserRank(handle(comm), &team.rank);
  return team;
}

}  // namespace

NCCL_EXPORT(Team, TeamWorld, (ncclComm_t comm)) { return world(comm); }
NCCL_EXPORT(Team, TeamLsa, (ncclComm_t)) { return {1, 0, 1}; }
NCCL_EXPORT(Team, TeamRail, (ncclComm_t comm)) { return world(comm); }
NCCL_EXPORT(int, TeamRankToWorld, (ncclComm_t comm, Team team, int rank)) {
  return world(comm).rank + (rank - team.rank) * team.stride;
}
NCCL_EXPORT(int, TeamRankToLsa, (ncclComm_t, Team team, int rank)) { return (rank - team.rank) * team.stride; }

// 2.32.  Teams of hosts that reach each other by compute fabric; here a rank is alone, as in LSA.
NCCL_EXPORT(Team, TeamCft, (ncclComm_t, int)) { return {1, 0, 1}; }
NCCL_EXPORT(Team, TeamCftMultimem, (ncclComm_t)) { return {1, 0, 1}; }
NCCL_EXPORT(ncclResult_t, GetCftDeviceLeInfo, (ncclWindow_t, size_t, int, Team, uint32_t*, size_t*)) {
  return unsupported("GetCftDeviceLeInfo", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GetMultimemDeviceLeInfo, (ncclWindow_t, size_t, uint32_t*, size_t*)) {
  return unsupported("GetMultimemDeviceLeInfo", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GetPeerDeviceLeInfo, (ncclWindow_t, size_t, int, uint32_t*, size_t*)) {
  return unsupported("GetPeerDeviceLeInfo", kNoDeviceApi);
}

// A slot has eight bytes of data.
NCCL_EXPORT(int, LLA2ACalcSlots, (int maxElts, int maxEltSize)) { return maxElts * ((maxEltSize + 7) / 8); }

NCCL_EXPORT(ncclResult_t, DevCommCreate, (ncclComm_t, const void*, void*)) {
  return unsupported("DevCommCreate", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, DevCommDestroy, (ncclComm_t, const void*)) {
  return unsupported("DevCommDestroy", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, LsaBarrierCreateRequirement, (Team, int, void*, void*)) {
  return unsupported("LsaBarrierCreateRequirement", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GinBarrierCreateRequirement, (ncclComm_t, Team, int, void*, void*)) {
  return unsupported("GinBarrierCreateRequirement", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, LLA2ACreateRequirement, (int, int, void*, void*)) {
  return unsupported("LLA2ACreateRequirement", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GinOutboxCreateRequirement, (int, int, void*, void*)) {
  return unsupported("GinOutboxCreateRequirement", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GinInboxA2ACreateRequirement, (Team, int, int, void*, void*)) {
  return unsupported("GinInboxA2ACreateRequirement", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GetLsaMultimemDevicePointer, (ncclWindow_t, size_t, void**)) {
  return unsupported("GetLsaMultimemDevicePointer", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GetMultimemDevicePointer, (ncclWindow_t, size_t, void*, void**)) {
  return unsupported("GetMultimemDevicePointer", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GetLsaDevicePointer, (ncclWindow_t, size_t, int, void**)) {
  return unsupported("GetLsaDevicePointer", kNoDeviceApi);
}
NCCL_EXPORT(ncclResult_t, GetPeerDevicePointer, (ncclWindow_t, size_t, int, void**)) {
  return unsupported("GetPeerDevicePointer", kNoDeviceApi);
}

// 2.29.  Clients ask first whether there is a device API.
NCCL_EXPORT(ncclResult_t, CommQueryProperties, (ncclComm_t comm, Properties* props)) {
  constexpr const char* kFunction = "CommQueryProperties";
  if (props == nullptr) return fail(ncclInvalidArgument, kFunction, "props is NULL");
  if (props->magic != kMagic || props->size < offsetof(Properties, rank)) {
    return fail(ncclInvalidArgument, kFunction,
                "props is not initialised: start it with NCCL_COMM_PROPERTIES_INITIALIZER");
  }
  Properties own{};
  own.size = props->size;
  own.magic = props->magic;
  own.version = props->version;
  const Team team = world(comm);
  own.rank = team.rank;
  own.nRanks = own.nLsaTeams = team.nRanks;
  const tuttiResult_t result = tuttiCommCuDevice(handle(comm), &own.cudaDev);
  if (result != tuttiSuccess) return finish(kFunction, result);
  own.nvmlDev = own.cudaDev;
  own.commHash = communicatorHash(comm);
  std::memcpy(props, &own, std::min(props->size, sizeof own));
  return ncclSuccess;
}

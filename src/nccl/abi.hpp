// NCCL's binary interface: tutti/nccl.h, what later versions than it have added, and how a function is exported.
//
// Later than 2.28.9 are facts of NCCL's headers 2.30.7 (layouts, values), and of the documentation of 2.31 and 2.32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/nccl.h"
#include "tutti/tutti.h"

/// `NCCL_EXPORT(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) { body }` defines pncclCommCount, and
/// ncclCommCount as a weak name of it, so that a profiler may define ncclCommCount and call pncclCommCount.
/// Nothing here calls an exported function: it might be a profiler's.
#define NCCL_EXPORT(result, name, parameters)                                                                 \
  extern "C" __attribute__((visibility("default"))) result pnccl##name parameters;                            \
  extern "C" __attribute__((visibility("default"), weak, alias("pnccl" #name))) result nccl##name parameters; \
  result pnccl##name parameters

namespace tutti::nccl {

constexpr unsigned kMagic = NCCL_API_MAGIC;

/// ncclConfig_t with the fields of all versions up to 2.32.
struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;  // from here on not in ncclConfig_t of tutti/nccl.h
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
};
static_assert(sizeof(ncclConfig_t) == 80 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76);
static_assert(offsetof(Config, nvlinkCentricSched) == 76 && offsetof(Config, nvlsHostMode) == 112);
static_assert(sizeof(Config) == 120);
static_assert(sizeof(ncclUniqueId) == 128 && sizeof(ncclSimInfo_t) == 24 && sizeof(ncclRedOp_t) == 4);

/// ncclCollConfig_t: options of one call (2.31).
struct CallConfig {
  size_t size;
  unsigned magic;
  unsigned version;
  void* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  void* launchCompletionEvent;  // 2.32
};
static_assert(sizeof(CallConfig) == 72);

/// ncclEncryptionConfig_t (2.32).
struct EncryptionConfig {
  size_t size;
  unsigned magic;
  unsigned version;
  int mode;  // 0: none, 1: pre-shared key
  const char* psk;
};
static_assert(sizeof(EncryptionConfig) == 32);

/// ncclCommProperties_t (2.29; hostRmaSupport and railedGinType later, what follows them is of 2.32).
struct Properties {
  size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  uint64_t commHash;
  int ginMinStride;
  int ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport, cftMulticastSupport, cftCountedSupport;
};
static_assert(offsetof(Properties, commHash) == 56 && sizeof(Properties) == 152);

/// ncclTeam_t: every stride-th rank from the caller's, which is the rank-th of nRanks.
struct Team {
  int nRanks, rank, stride;
};

}  // namespace tutti::nccl

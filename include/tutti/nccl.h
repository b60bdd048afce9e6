/* NCCL's C interface, version 2.28.9, as Tutti's libnccl.so.2 offers it.
 *
 * For programs written to NCCL: with -I.../include/tutti their `#include <nccl.h>` finds this file, and with
 * tutti/nccl/libnccl.so.2 they run without change (docs/nccl-drop-in.md).  New programs use tutti/tutti.h.
 *
 * Names, values, argument order and layouts are NCCL's; what the calls mean is in NCCL's documentation and, where Tutti
 * is the same, in tutti.h.  What differs:
 *   streams   NULL, or a CUDA stream.  With TUTTI_DEVICE=host, ranks compute on host memory and a stream is NULL (the
 *             call has completed when it returns) or a tuttiStream_t, cast
 *   errors    ncclGetLastError has a sentence for every call that failed, ncclInvalidUsage for what Tutti lacks
 * included pncclX    the same function as ncclX, for profilers that define ncclX themselves
 *
 * Needs no CUDA header; where <cuda_runtime.h> can be found it is included, and those of the small floats, as NCCL's
 * header does, unless TUTTI_NCCL_WITHOUT_CUDA is defined. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

#if !defined(TUTTI_NCCL_WITHOUT_CUDA) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#if CUDART_VERSION >= 11000
#include <cuda_bf16.h>
#endif
#define TUTTI_NCCL_HAS_CUDA_HEADERS 1
#endif
#endif
#if !defined(TUTTI_NCCL_HAS_CUDA_HEADERS)
typedef struct CUstream_st* cudaStream_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
/* Up to 2.8 a version counted 1000 for the major number, from 2.9 on it counts 10000. */
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types --------------------------------------------------------------------------------------------------- */

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* operators made by ncclRedOpCreatePreMulSum are larger */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_API_MAGIC 0xcafebeef

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00 /* the parent is idle */
#define NCCL_SHRINK_ABORT 0x01   /* end the parent's operations first */
#define NCCL_REVOKE_DEFAULT 0x00

/* Options of a communicator; start from NCCL_CONFIG_INITIALIZER.  Fields that say "a GPU's" are checked and otherwise
 * have no effect here. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;       /* 0: calls may return ncclInProgress */
  int cgaClusterSize; /* a GPU's */
  int minCTAs;        /* bounds of the number of channels */
  int maxCTAs;
  const char* netName;     /* "Socket", "IB", or a transport of Tutti's */
  int splitShare;          /* 1: children share this communicator's threads */
  int trafficClass;        /* no effect */
  const char* commName;    /* for logs and errors */
  int collnetEnable;       /* no effect */
  int CTAPolicy;           /* a GPU's */
  int shrinkShare;         /* as splitShare, for ncclCommShrink */
  int nvlsCTAs;            /* a GPU's */
  int nChannelsPerNetPeer; /* no effect */
  int nvlinkCentricSched;  /* a GPU's */
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                            \
  {                                                                                                        \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT         \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_MAGIC 0x74685283
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

/* ---- Functions: ncclX, and pncclX which is the same ------------------------------------------------------------ */

#if defined(__cplusplus)
#define TUTTI_NCCL_NOTHING
#else
#define TUTTI_NCCL_NOTHING void
#endif
#define TUTTI_NCCL_FUNCTION(result, name, parameters) \
  result nccl##name parameters;                       \
  result pnccl##name parameters

/* Library */
TUTTI_NCCL_FUNCTION(ncclResult_t, GetVersion, (int* version));
TUTTI_NCCL_FUNCTION(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId));
TUTTI_NCCL_FUNCTION(const char*, GetErrorString, (ncclResult_t result));
TUTTI_NCCL_FUNCTION(const char*, GetLastError, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(void, ResetDebugInit, (TUTTI_NCCL_NOTHING));

/* Communicators */
TUTTI_NCCL_FUNCTION(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommInitRankConfig,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommInitRankScalable,
                    (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                     ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommInitAll, (ncclComm_t * comm, int ndev, const int* devlist));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommSplit,
                    (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommShrink,
                    (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                     ncclConfig_t* config, int shrinkFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommFinalize, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommDestroy, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommAbort, (ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommCount, (const ncclComm_t comm, int* count));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank));

/* Memory */
TUTTI_NCCL_FUNCTION(ncclResult_t, MemAlloc, (void** ptr, size_t size));
TUTTI_NCCL_FUNCTION(ncclResult_t, MemFree, (void* ptr));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommWindowRegister,
                    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

/* Operators */
TUTTI_NCCL_FUNCTION(ncclResult_t, RedOpCreatePreMulSum,
                    (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                     ncclComm_t comm));
TUTTI_NCCL_FUNCTION(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* Collectives */
TUTTI_NCCL_FUNCTION(ncclResult_t, AllReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, Broadcast,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, Bcast,
                    (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, Reduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                     int root, ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, AllGather,
                    (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ReduceScatter,
                    (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, AlltoAll,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, Gather,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, Scatter,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                     ncclComm_t comm, cudaStream_t stream));

/* Point to point */
TUTTI_NCCL_FUNCTION(ncclResult_t, Send,
                    (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                     cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, Recv,
                    (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                     cudaStream_t stream));

/* Groups */
TUTTI_NCCL_FUNCTION(ncclResult_t, GroupStart, (TUTTI_NCCL_NOTHING));
TUTTI_NCCL_FUNCTION(ncclResult_t, GroupEnd, (TUTTI_NCCL_NOTHING));
TUTTI_NCCL_FUNCTION(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo));

#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */

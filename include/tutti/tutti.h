/* Tutti: collective communication between threads, processes and hosts.
 *
 * The whole public API, with the headers that it includes; C99.  Calls that NCCL 2.28 has follow its arguments and
 * semantics.
 *
 * Conventions that hold for every call below, and are not repeated:
 *   count     elements of `dtype`, never bytes; zero is allowed and moves nothing
 *   [n]       a buffer of n elements of `dtype`
 *   buffers   any alignment; two buffers are equal (in place, if the call allows it) or do not overlap
 *   order     every rank of a communicator makes the same collective calls, in the same order, with the same
 *             count, dtype, op and root.  If ranks differ, all get tuttiInvalidUsage, which names the odd one
 *   stream    NULL on a host communicator: the call runs on the caller's thread and has completed when it returns.
 *             Otherwise the call returns once enqueued, and buffers are borrowed until the stream has passed it
 *   threads   one thread at a time per communicator.  A forked child gets tuttiInvalidUsage
 *   errors    tuttiInvalidArgument: nothing was started, and the communicator is unharmed.
 *             tuttiRemoteError, tuttiTimeout, tuttiSystemError: the communicator is broken; abort or shrink it.
 *             tuttiGetLastError has a sentence with the argument or rank, the reason and the remedy */
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/options.h"

#define TUTTI_MAJOR 0
#define TUTTI_MINOR 1
#define TUTTI_PATCH 0
/* X * 10000 + Y * 100 + Z */
#define TUTTI_VERSION_CODE (TUTTI_MAJOR * 10000 + TUTTI_MINOR * 100 + TUTTI_PATCH)

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types --------------------------------------------------------------------------------------------------- */

/* A rank's handle on a communicator.  The caller ends it with tuttiCommDestroy or tuttiCommAbort. */
typedef struct tuttiComm* tuttiComm_t;

/* A host stream (tuttiStreamCreate) on a host communicator, a cudaStream_t on a CUDA communicator. */
typedef struct tuttiStream* tuttiStream_t;

/* Where the ranks of a new communicator meet: address, port and a 256-bit secret.  Plain bytes, passed by value.
 * Whoever has them can join, so give them to the ranks only. */
#define TUTTI_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[TUTTI_UNIQUE_ID_BYTES];
} tuttiUniqueId;

/* Values 0 to 8 are NCCL's. */
typedef enum {
  tuttiSuccess = 0,
  tuttiUnhandledCudaError = 1,
  tuttiSystemError = 2,     /* the operating system refused something */
  tuttiInternalError = 3,   /* a mistake of Tutti's own */
  tuttiInvalidArgument = 4, /* this call's arguments; the communicator stays usable */
  tuttiInvalidUsage = 5,    /* right arguments at the wrong time, or ranks that disagree */
  tuttiRemoteError = 6,     /* a peer is dead, aborted, or unreachable */
  tuttiInProgress = 7,      /* blocking = 0: not finished, poll tuttiCommGetAsyncError */
  tuttiTimeout = 8,         /* a rank stayed silent until the deadline */
  tuttiNumResults = 9
} tuttiResult_t;

/* Values 0 to 11 are NCCL's. */
typedef enum {
  tuttiInt8 = 0,
  tuttiChar = 0,
  tuttiUint8 = 1,
  tuttiInt32 = 2,
  tuttiInt = 2,
  tuttiUint32 = 3,
  tuttiInt64 = 4,
  tuttiUint64 = 5,
  tuttiFloat16 = 6,
  tuttiHalf = 6,
  tuttiFloat32 = 7,
  tuttiFloat = 7,
  tuttiFloat64 = 8,
  tuttiDouble = 8,
  tuttiBfloat16 = 9,
  tuttiFloat8e4m3 = 10,
  tuttiFloat8e5m2 = 11,
  tuttiInt16 = 12,
  tuttiUint16 = 13,
  tuttiBool = 14, /* one byte; nonzero is true, results are 0 or 1 */
  tuttiNumTypes = 15
} tuttiDataType_t;

/* Values 0 to 4 are NCCL's.  Bitwise operators take integers and bool; logical ones take every type.
 * Integer sums and products wrap modulo 2^bits.  The average of integers is the sum divided by the number of ranks,
 * rounded toward zero.  float16, bfloat16 and float8 are combined in float and rounded once per combination. */
typedef enum {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4,
  tuttiBand = 5,
  tuttiBor = 6,
  tuttiBxor = 7,
  tuttiLand = 8,
  tuttiLor = 9,
  tuttiNumOps = 10, /* operators made by tuttiRedOpCreate* have values from here on */
  tuttiMaxRedOp = 0x7fffffff
} tuttiRedOp_t;

/* Where the scalar of tuttiRedOpCreatePreMulSum lives.  Values are NCCL's. */
typedef enum {
  tuttiScalarDevice = 0,       /* read when the operation runs */
  tuttiScalarHostImmediate = 1 /* read before the call returns */
} tuttiScalarResidence_t;

#define TUTTI_CONFIG_UNDEF_INT INT_MIN
#define TUTTI_CONFIG_UNDEF_PTR NULL
#define TUTTI_CONFIG_MAGIC 0x7a771c0fu

/* Options of one communicator; start from TUTTI_CONFIG_INITIALIZER.  An undefined field takes the environment's value
 * (tutti-info --config lists all variables), then the default.  Every rank passes the same values. */
typedef struct {
  size_t size;      /* sizeof(tuttiConfig_t) of the caller's header */
  unsigned magic;   /* TUTTI_CONFIG_MAGIC */
  unsigned version; /* TUTTI_VERSION_CODE of the caller's header */
  int blocking;     /* 1 (default): calls return when done.  0: they may return tuttiInProgress */
  int device;       /* tuttiDevice_t; default TUTTI_DEVICE_AUTO */
  int reproducible; /* 1: floating-point sums follow one binary tree over ranks: always the same bits; default 0 */
  int timeoutMs;    /* the longest wait without progress; then the peer counts as lost.  0: for ever; default 30000 */
  int nChannels;    /* parallel lanes per collective; default: the planner's choice within min and maxChannels */
  int splitShare;   /* 1 (default): children of tuttiCommSplit share their parent's threads, and end with it if it is
                       aborted or revoked; 0: neither */
  const char* transports; /* as TUTTI_TRANSPORTS: "shm,tcp", "^shm" */
  const char* netName;    /* network transport to use between hosts, e.g. "tcp" */
  const char* commName;   /* for logs and errors; copied */
  int minChannels;        /* least number of lanes, as far as possible; 1 to 64, default 1 */
  int maxChannels;        /* largest number of lanes; minChannels to 64, default 64 */
  int waitMode;           /* tuttiWaitMode_t; of this rank alone, default TUTTI_WAIT_AUTO */
  int wire;               /* tuttiWireFormat_t; default TUTTI_WIRE_FULL */
} tuttiConfig_t;

#define TUTTI_CONFIG_INITIALIZER                                                                                   \
  {                                                                                                                \
    sizeof(tuttiConfig_t), TUTTI_CONFIG_MAGIC, TUTTI_VERSION_CODE, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, \
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT,            \
        TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_INT,            \
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT                                     \
  }

#define TUTTI_SPLIT_NOCOLOR (-1)

#define TUTTI_SHRINK_DEFAULT 0 /* the parent has no operations in flight */
#define TUTTI_SHRINK_ABORT 1   /* first end the parent's operations in flight and its children, as tuttiCommRevoke */

/* A call that tuttiCommEstimate can be asked about. */
typedef enum {
  tuttiCallAllReduce = 0,
  tuttiCallBroadcast = 1,
  tuttiCallReduce = 2,
  tuttiCallAllGather = 3,
  tuttiCallReduceScatter = 4,
  tuttiCallAllToAll = 5,
  tuttiCallGather = 6,
  tuttiCallScatter = 7,
  tuttiCallBarrier = 8,
  tuttiCallSend = 9,
  tuttiCallRecv = 10,
  tuttiCallAllToAllv = 11, /* the v forms: count is that of the largest block */
  tuttiCallAllGatherv = 12,
  tuttiCallReduceScatterv = 13,
  tuttiCallGatherv = 14,
  tuttiCallScatterv = 15,
  tuttiNumCalls = 16
} tuttiCall_t;

/* What the planner expects of a call; start from TUTTI_ESTIMATE_INITIALIZER.  Texts live as long as comm does. */
typedef struct {
  size_t size;           /* sizeof(tuttiEstimate_t) of the caller's header; fields beyond it are not written */
  double timeUs;         /* of one call on an otherwise idle machine */
  const char* algorithm; /* as in TUTTI_ALGO; "send" for Send and Recv */
  const char* protocol;  /* as in TUTTI_PROTO; inside a host where there are several */
  int nChannels;         /* parallel lanes */
  int joined;            /* 1: several chunks of a step share messages (TUTTI_JOIN) */
} tuttiEstimate_t;

#define TUTTI_ESTIMATE_INITIALIZER \
  { sizeof(tuttiEstimate_t), 0, NULL, NULL, 0, 0 }

/* ---- Library ------------------------------------------------------------------------------------------------- */

/** The version of the library that is loaded, as TUTTI_VERSION_CODE. */
TUTTI_API tuttiResult_t tuttiGetVersion(int* version);

/** A short text for a result code; never NULL, static storage. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);

/** The message of the last error of `comm`, or of the calling thread if comm is NULL.  Never NULL; owned by the library
 *  and valid until the next call on comm (or on this thread). */
TUTTI_API const char* tuttiGetLastError(tuttiComm_t comm);

/** Set the default of the configuration variable `name` ("TUTTI_ALGO") for communicators made from now on.  A value in
 *  the environment takes precedence.  Process-wide; any thread.  value NULL: the built-in default again.
 *  Errors   tuttiInvalidArgument: no such variable (tutti-info --config), or a value that it cannot have */
TUTTI_API tuttiResult_t tuttiSetDefault(const char* name, const char* value);

/* ---- Communicators ------------------------------------------------------------------------------------------- */

/** Open a new rendezvous.  The calling process serves it until all ranks have joined, so it must live that long.
 *  Errors   tuttiSystemError: no usable network interface (see TUTTI_SOCKET_IFNAME) */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* uniqueId);

/** The id of the rendezvous at "host:port" ("[address]:port" with IPv6).  The same text gives the same id on all ranks,
 *  without communication.
 *  serve    1 on one process of that host, which opens the rendezvous (one per process at a time); else 0
 *  Secret   made from TUTTI_SECRET; without it from the text, which others can guess
 *  Errors   tuttiInvalidArgument: bad text.  tuttiSystemError: port taken.  tuttiInvalidUsage: already open */
TUTTI_API tuttiResult_t tuttiGetUniqueIdAt(const char* address, int serve, tuttiUniqueId* uniqueId);

/** Join as `rank` of `nRanks`.  Returns when all ranks have joined.  Every rank calls it once with the same id.
 *  Group    it returns at once, and tuttiGroupEnd joins, so one thread may join several ranks
 *  Errors   tuttiTimeout: a rank did not come.  A failure of one rank fails all with its reason, and uses up the id */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nRanks, tuttiUniqueId commId, int rank);

/** tuttiCommInitRank with options; config may be NULL.  With blocking = 0 it returns tuttiInProgress. */
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nRanks, tuttiUniqueId commId, int rank,
                                                tuttiConfig_t* config);

/** nDev ranks of one process: comms [nDev], comms[i] is rank i's.
 *  devList  [nDev] CUDA device of each rank, repeats allowed; NULL: device i for rank i.  Ignored on the host */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int nDev, const int* devList);

/** Join with rank, size and rendezvous from the launcher: tutti-run, torchrun (RANK, WORLD_SIZE, MASTER_ADDR,
 *  MASTER_PORT), Open MPI and PMIx, MPICH and Intel MPI (PMI-1), Slurm.  Without a launcher: rank 0 of 1.
 *  config   may be NULL
 *  Errors   as tuttiCommInitRank.  tuttiInvalidUsage: a launcher's variables are wrong or incomplete, or ranks of
 *           mpirun lack PMIx (libpmix.so.2, found at run time) */
TUTTI_API tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm, tuttiConfig_t* config);

/** Ranks of the same color (>= 0) form a new communicator, numbered by key, then by rank in comm.  Collective.
 *  color    TUTTI_SPLIT_NOCOLOR: take part and get NULL.  config NULL: the parent's
 *  Life     the child outlives a comm that is destroyed.  If any rank aborts or revokes comm, the child ends on all its
 *           ranks, unless config.splitShare was 0.  What happens to the child does not affect comm
 *  Errors   tuttiInvalidUsage: a rank has called shrink or grow.  tuttiRemoteError: a rank has died */
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newComm,
                                       tuttiConfig_t* config);

/** A new communicator of all ranks except those that have died, die meanwhile, or are in any caller's list.  Lists may
 *  differ.  A living rank that is left out gets tuttiRemoteError.  TUTTI_SHRINK_ABORT: comm has failed or is in use. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* excludeRanksList, int excludeRanksCount,
                                        tuttiComm_t* newComm, tuttiConfig_t* config, int shrinkFlags);

/** A new communicator of nRanks > the size of comm.  Ranks of comm keep their number and pass rank -1; new ranks pass
 *  comm NULL, their rank and the id.  One rank of comm passes the id it got from tuttiGetUniqueId, the others NULL. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nRanks, const tuttiUniqueId* uniqueId, int rank,
                                      tuttiComm_t* newComm, tuttiConfig_t* config);

/** Stop operations in flight on every rank.  comm can then be shrunk, destroyed or aborted.  Local: waits for nobody.
 *  Children  communicators that were split from comm, at any depth, end on every rank: their calls, also those under
 *            way, return tuttiRemoteError with the rank that revoked.  Communicators that were shrunk or grown from
 *            comm do not end, nor any after tuttiCommFinalize.  (ULFM revokes one communicator at a time; ncclCommAbort
 *            ends children that share resources, on its own rank)
 *  flags     0 */
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags);

/** Wait until everything enqueued on comm is done and all ranks have called this.  Collective. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);

/** Finalize if that was not done, then free.  Collective.  comm is invalid afterwards, whatever is returned. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);

/** End everything in flight on comm, tell the other ranks, and free.  Local.  Another thread may call it while a call
 *  on comm runs; that call returns an error.  Ends communicators that were split from comm, as tuttiCommRevoke does;
 *  their handles remain to be destroyed or aborted. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);

/** The state of comm: tuttiSuccess, tuttiInProgress, or the error that broke it. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncError);

TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* count);
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);
/** The CUDA device of comm, -1 on a host communicator. */
TUTTI_API tuttiResult_t tuttiCommCuDevice(tuttiComm_t comm, int* device);

/** Change config.timeoutMs of a live communicator; the same on every rank.  0: wait for ever. */
TUTTI_API tuttiResult_t tuttiCommSetTimeout(tuttiComm_t comm, int timeoutMs);

/** What the planner would choose for a call, and the time that it expects, from the link costs measured on rank 0's
 *  machine (see TUTTI_EXPLAIN).  Local: it moves nothing, waits for nobody, and makes no plan.  For a collective the
 *  answer is the same on every rank, wherever its buffers lie.
 *  count, dtype, op, root  as in the call; root is the peer of Send and Recv.  Arguments that it lacks are ignored
 *  estimate                estimate->size must be set; the other fields are written
 *  Errors                  tuttiInvalidArgument; tuttiInvalidUsage: TUTTI_ALGO_STRICT=1 refuses the call */
TUTTI_API tuttiResult_t tuttiCommEstimate(tuttiComm_t comm, tuttiCall_t call, size_t count, tuttiDataType_t dtype,
                                          tuttiRedOp_t op, int root, tuttiEstimate_t* estimate);

/* ---- Memory -------------------------------------------------------------------------------------------------- */

/** Memory that ranks of this host can access directly: page-aligned, zeroed; bytes 0 gives NULL.  Free it with
 *  tuttiMemFree.  With TUTTI_DEVICE=cuda it is memory of the thread's device, not zeroed (docs/cuda.md). */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** ptr, size_t bytes);
/** Free memory of tuttiMemAlloc.  No operation may use it, and no communicator have it registered.  NULL is allowed. */
TUTTI_API tuttiResult_t tuttiMemFree(void* ptr);

/** Let operations on comm use the memory [buff, buff + bytes) in place, if the machine allows it.  Local.
 *  Rules    while tuttiCommRegister or tuttiCommDeregister runs, no operation uses the memory and nobody writes to it:
 *           its pages may be moved (docs/guide.md).  Free the memory only after tuttiCommDeregister
 *  handle   owned by comm; pass it to tuttiCommDeregister */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buff, size_t bytes, void** handle);
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle);

/* ---- Groups -------------------------------------------------------------------------------------------------- */

/** Calls between Start and the outermost End are collected, and End starts them together.  Groups nest.  A group lets
 *  one thread drive several communicators, and make sends and receives in any order, without deadlock.
 *  Errors   End returns the first error of a collected call.  After a bad argument nothing of the group is started */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);

/** End the innermost group.  If it is the outermost, drop its calls and write the microseconds that they would take on
 *  otherwise idle machines: the sum over calls (see tuttiCommEstimate), of several communicators the longest.  Else
 *  *timeUs is 0.
 *  Errors   as tuttiGroupEnd; tuttiInvalidUsage: communicators were to be made in the group */
TUTTI_API tuttiResult_t tuttiGroupSimulateEnd(double* timeUs);

/* ---- Operators ----------------------------------------------------------------------------------------------- */

/** An operator that multiplies each rank's input by that rank's scalar, then sums.  For comm and dtype only; dtype is a
 *  number type.  Every rank makes one; free it with tuttiRedOpDestroy.
 *  scalar   [1] of dtype; residence says when it is read */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t dtype,
                                                  tuttiScalarResidence_t residence, tuttiComm_t comm);

/** inout[i] = in[i] (op) inout[i] for i < count, `in` being of the lower ranks.  Called from any thread. */
typedef void (*tuttiRedFunction_t)(const void* in, void* inout, size_t count, tuttiDataType_t dtype, void* context);

/** A user-defined operator for comm and any dtype.  Host communicators only.
 *  function     associative; commutative = 0: operands are combined in rank order
 *  context      borrowed until the operator is destroyed
 *  Source       MPI 4.1, section 6.9.5 (MPI_Op_create) */
TUTTI_API tuttiResult_t tuttiRedOpCreate(tuttiRedOp_t* op, tuttiRedFunction_t function, int commutative, void* context,
                                         tuttiComm_t comm);

/** Free an operator.  Operations that were enqueued with it may still run. */
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ---- Collectives --------------------------------------------------------------------------------------------- */

/** Reduce over all ranks; every rank ends with the same result.
 *  sendbuff  [count], recvbuff [count]; in place when equal.
 *  Source    MPI 4.1, section 6.9.6 (MPI_Allreduce) */
TUTTI_API tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);

/** Copy root's sendbuff [count] to every rank's recvbuff [count].  sendbuff is read on root only. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype,
                                       int root, tuttiComm_t comm, tuttiStream_t stream);

/** Reduce over all ranks into root's recvbuff [count], which may be NULL elsewhere. */
TUTTI_API tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype,
                                    tuttiRedOp_t op, int root, tuttiComm_t comm, tuttiStream_t stream);

/** Every rank's sendbuff [sendcount] to recvbuff [nRanks * sendcount] of all, in rank order.
 *  In place: sendbuff == recvbuff + rank * sendcount. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tuttiDataType_t dtype,
                                       tuttiComm_t comm, tuttiStream_t stream);

/** Reduce sendbuff [nRanks * recvcount]; rank r keeps block r in recvbuff [recvcount].
 *  In place: recvbuff == sendbuff + rank * recvcount. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           tuttiDataType_t dtype, tuttiRedOp_t op, tuttiComm_t comm,
                                           tuttiStream_t stream);

/** Block j of sendbuff [nRanks * count] becomes block `rank` of rank j's recvbuff [nRanks * count].
 *  In place when equal. */
TUTTI_API tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype,
                                      tuttiComm_t comm, tuttiStream_t stream);

/** Every rank's sendbuff [count] to root's recvbuff [nRanks * count], in rank order.
 *  In place on root: sendbuff == recvbuff + root * count. */
TUTTI_API tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype, int root,
                                    tuttiComm_t comm, tuttiStream_t stream);

/** Block j of root's sendbuff [nRanks * count] to rank j's recvbuff [count].
 *  In place on root: recvbuff == sendbuff + root * count. */
TUTTI_API tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t dtype,
                                     int root, tuttiComm_t comm, tuttiStream_t stream);

/** No rank returns (no stream passes) before every rank has entered the call. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* The v forms take a count and a displacement, in elements, for each rank.  Arrays have nRanks entries and are read
 * before the call returns.  Received blocks must not overlap. */

/** sendcounts[j] elements at sendbuff + sdispls[j] go to rank j, which receives them at its rdispls[rank]; its
 *  recvcounts[rank] is the same number.  In place (sendbuff == recvbuff) needs equal send and receive layouts.
 *  Source: MPI 4.1, section 6.8 (MPI_Alltoallv) */
TUTTI_API tuttiResult_t tuttiAllToAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                       void* recvbuff, const size_t recvcounts[], const size_t rdispls[],
                                       tuttiDataType_t dtype, tuttiComm_t comm, tuttiStream_t stream);

/** Rank r contributes recvcounts[r] (= its sendcount) elements, which arrive at displs[r] of every recvbuff.
 *  In place: sendbuff == recvbuff + displs[rank]. */
TUTTI_API tuttiResult_t tuttiAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t recvcounts[], const size_t displs[], tuttiDataType_t dtype,
                                        tuttiComm_t comm, tuttiStream_t stream);

/** Reduce; rank r keeps the recvcounts[r] elements at displs[r] of sendbuff.  In place: recvbuff == sendbuff +
 *  displs[rank]. */
TUTTI_API tuttiResult_t tuttiReduceScatterv(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                            const size_t displs[], tuttiDataType_t dtype, tuttiRedOp_t op,
                                            tuttiComm_t comm, tuttiStream_t stream);

/** tuttiGather with blocks of different sizes: rank r's sendcount elements arrive at displs[r] of root's recvbuff.
 *  recvcounts and displs are read on root only. */
TUTTI_API tuttiResult_t tuttiGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t recvcounts[],
                                     const size_t displs[], tuttiDataType_t dtype, int root, tuttiComm_t comm,
                                     tuttiStream_t stream);

/** tuttiScatter with blocks of different sizes: sendcounts[j] elements at displs[j] of root's sendbuff go to rank j.
 *  sendcounts and displs are read on root only. */
TUTTI_API tuttiResult_t tuttiScatterv(const void* sendbuff, const size_t sendcounts[], const size_t displs[],
                                      void* recvbuff, size_t recvcount, tuttiDataType_t dtype, int root,
                                      tuttiComm_t comm, tuttiStream_t stream);

/* ---- Point to point ------------------------------------------------------------------------------------------ */

/** Send `count` elements to `peer`, which must call tuttiRecv with the same count and dtype.  Messages between two
 *  ranks arrive in order.  Sends and receives that depend on each other (exchange, send to oneself) need a group. */
TUTTI_API tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t dtype, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t dtype, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#include "tutti/diagnosis.h"
#include "tutti/streams.h"
#endif /* TUTTI_TUTTI_H_ */

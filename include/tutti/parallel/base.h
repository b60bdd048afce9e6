/* Tutti's training layers: what they have in common.  C99.
 *
 * Conventions that hold for every header of this folder, and are not repeated:
 *   library     libtutti_parallel.so, written on tutti.h alone; no framework, no automatic differentiation
 *   tensors     views of the caller's memory; no call frees it, or keeps it longer than its comment says
 *   memory      the host's, or a CUDA device's if the header allows it: the device of the communicator's rank, without
 *               a communicator the calling thread's current one.  Other memory gets tuttiInvalidUsage
 *   streams     work on CUDA memory is enqueued on the calling thread's stream (tuttiParallelSetStream), in the order
 *               of calls.  A call waits for the device only if its comment says so.  Calls cannot be captured.  Calls
 *               without a handle load kernels, unless a layer's handle is alive on the device
 *   dtypes      tuttiFloat32 and tuttiFloat64, unless a comment says more
 *   groups      communicators are borrowed and must outlive what was made from them.  A layer uses its communicator
 *               only inside its own calls, or a private copy if a comment says so
 *   failures    if a rank aborts or revokes a communicator, everything that layers have split from it ends on every
 *               rank, a grid's groups too (tuttiCommRevoke): calls return tuttiRemoteError and name that rank
 *   order       every rank of a group makes the same calls in the same order
 *   threads     one thread at a time per handle
 *   handles     a _Create call makes one, owned by the caller; its _Destroy call frees it and allows NULL
 *   errors      the tuttiResult_t of tutti.h; tuttiParallelGetLastError has the message.  tuttiInvalidArgument and
 *               tuttiInvalidUsage leave the handle unharmed
 *   structs     a config starts with its own size; start from its _INITIALIZER, so that fields can be added */
#ifndef TUTTI_PARALLEL_BASE_H_
#define TUTTI_PARALLEL_BASE_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The message of the last error of this library on the calling thread.  Never NULL; valid until the next error. */
TUTTI_API const char* tuttiParallelGetLastError(void);

/** Set the CUDA stream on which this thread's calls of this library enqueue work.  NULL (initially): the device's
 *  default stream.  A handle's work on one stream comes before its work on the next.  The stream must outlive the
 *  handles that worked on it. */
TUTTI_API tuttiResult_t tuttiParallelSetStream(tuttiStream_t stream);

/* ---- Tensors ------------------------------------------------------------------------------------------------- */

#define TUTTI_MAX_DIMS 4

/* A view: element (i, j, ...) lies at data + (i * strides[0] + j * strides[1] + ...) elements. */
typedef struct {
  void* data;
  tuttiDataType_t dtype;
  int device; /* TUTTI_DEVICE_HOST, or TUTTI_DEVICE_CUDA where a header says so */
  int nDims;
  int64_t shape[TUTTI_MAX_DIMS];
  int64_t strides[TUTTI_MAX_DIMS]; /* in elements */
} tuttiTensor_t;

/** A matrix of rows x columns whose rows begin `stride` elements apart. */
static inline tuttiTensor_t tuttiMatrixOf(void* data, tuttiDataType_t dtype, int64_t rows, int64_t columns,
                                          int64_t stride) {
  tuttiTensor_t t;
  t.data = data;
  t.dtype = dtype;
  t.device = TUTTI_DEVICE_HOST;
  t.nDims = 2;
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.shape[2] = t.shape[3] = 1;
  t.strides[0] = stride;
  t.strides[1] = 1;
  t.strides[2] = t.strides[3] = 0;
  return t;
}

/** A contiguous vector. */
static inline tuttiTensor_t tuttiVectorOf(void* data, tuttiDataType_t dtype, int64_t count) {
  tuttiTensor_t t = tuttiMatrixOf(data, dtype, count, 1, 1);
  t.nDims = 1;
  t.shape[1] = 1;
  t.strides[1] = 0;
  return t;
}

/* ---- How sums are rounded -------------------------------------------------------------------------------------- */

typedef enum {
  /* The fastest.  A layout repeats its bits only as far as the kernels and tutti.h do. */
  tuttiNumericsFast = 0,
  /* The same bits in every layout: every sum that a layout may cut (over micro-batches, over the inner dimension of a
   * product, over tokens) follows one fixed binary tree over fixed leaves, wherever the leaves lie. */
  tuttiNumericsLayoutInvariant = 1
} tuttiNumerics_t;

/* ---- Splits ---------------------------------------------------------------------------------------------------- */

/** Cut `total` items into n contiguous parts as even as possible.  Bounds are multiples of `unit`, except the last,
 *  which is total.  Earlier parts get the rest.
 *  cuts     [n + 1] written: part r is [cuts[r], cuts[r + 1]), maybe empty
 *  weights  [n] or NULL: parts in proportion to them (a slow rank, a smaller machine) */
TUTTI_API tuttiResult_t tuttiSplitEven(int64_t total, int64_t unit, int n, const double* weights, int64_t* cuts);

/* ---- Traffic --------------------------------------------------------------------------------------------------- */

/* Calls and bytes of a rank, counted or expected, by kind of call; start from TUTTI_TRAFFIC_INITIALIZER.
 *   bytes  AllReduce: the vector.  AllGather(v), ReduceScatter(v): the whole vector.  AllToAll(v): what this rank sends
 *          to others.  Broadcast, Send, Recv: the message */
typedef struct {
  size_t size; /* sizeof(tuttiTraffic_t) of the caller's header */
  uint64_t calls[tuttiNumCalls];
  uint64_t bytes[tuttiNumCalls];
  double wireBytes; /* sent by an average rank: 2(n-1)/n, (n-1)/n, or 1 of the above */
} tuttiTraffic_t;

#define TUTTI_TRAFFIC_INITIALIZER \
  { sizeof(tuttiTraffic_t), {0}, {0}, 0 }

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_BASE_H_ */

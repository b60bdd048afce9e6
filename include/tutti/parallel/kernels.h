/* The computations that the layers use, and their defaults for host memory. */
#ifndef TUTTI_PARALLEL_KERNELS_H_
#define TUTTI_PARALLEL_KERNELS_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c = op(a) op(b), or c += op(a) op(b), row-major.  op(a) is m x k, op(b) is k x n, c is m x n. */
typedef struct {
  tuttiDataType_t dtype; /* tuttiFloat32 or tuttiFloat64, of all three */
  int transposeA;        /* a is stored k x m */
  int transposeB;        /* b is stored n x k */
  int accumulate;        /* c += */
  int64_t m, n, k;       /* any may be 0; with k = 0, c becomes or stays what an empty sum makes it */
  const void* a;
  const void* b;
  void* c;
  int64_t lda, ldb, ldc; /* elements from one stored row to the next */
} tuttiMatmul_t;

/** Start from TUTTI_KERNELS_INITIALIZER.  A user's own functions go here; they may be called from several threads. */
typedef struct {
  size_t size;   /* sizeof(tuttiKernels_t) of the caller's header */
  void* context; /* handed to each function */
  tuttiResult_t (*matmul)(void* context, const tuttiMatmul_t* call);
  const char* name; /* for reports */
} tuttiKernels_t;

#define TUTTI_KERNELS_INITIALIZER \
  { sizeof(tuttiKernels_t), NULL, NULL, NULL }

/** The fastest matrix product of this machine: OpenBLAS's, if libopenblas.so.0 is found when this is first called,
 *  else Tutti's own loops.  Before OpenBLAS is loaded OPENBLAS_CORETYPE is set to the best that the processor can do,
 *  and OPENBLAS_NUM_THREADS to 1, unless the environment has them: a rank is a thread, and old versions take new
 *  processors for old ones.  name says what it is, for example "OpenBLAS SkylakeX, 1 thread". */
TUTTI_API tuttiResult_t tuttiKernelsFast(tuttiKernels_t* kernels);

/** Tutti's own loops.  An element's bits depend on its row of op(a), its column of op(b) and k only: not on m, n,
 *  strides, position, nor the processor (each product is rounded, then added, in the order of k). */
TUTTI_API tuttiResult_t tuttiKernelsInvariant(tuttiKernels_t* kernels);

/** c = op(a) op(b) where the sum over k is cut into leaves that are added along the tree of sums.h.
 *  kCuts  [nLeaves + 1], from 0 to k; leaf l is the sum over [kCuts[l], kCuts[l + 1]) in order */
TUTTI_API tuttiResult_t tuttiMatmulLeaves(const tuttiMatmul_t* call, const int64_t* kCuts, int nLeaves);

/* ---- Elementwise and per row; rows are tokens.  On the host or CUDA -------------------------------------------- */

/** y = GELU(x), tanh form; all contiguous, x and y may be the same. */
TUTTI_API tuttiResult_t tuttiGelu(const tuttiTensor_t* x, const tuttiTensor_t* y);
/** dx = dy * GELU'(x). */
TUTTI_API tuttiResult_t tuttiGeluBackward(const tuttiTensor_t* x, const tuttiTensor_t* dy, const tuttiTensor_t* dx);

/** y = (x - mean) / sqrt(variance + 1e-5) * gamma + beta by rows; x, y [rows, width], gamma, beta [width]. */
TUTTI_API tuttiResult_t tuttiLayerNorm(const tuttiTensor_t* x, const tuttiTensor_t* gamma, const tuttiTensor_t* beta,
                                       const tuttiTensor_t* y);
/** dx, dgamma and dbeta are written.  Leaf l of dgamma and dbeta [nLeaves, width] is the sum over rows
 *  [rowCuts[l], rowCuts[l + 1]).  Add leaves with tuttiTreeAllReduce, also if other ranks hold other rows. */
TUTTI_API tuttiResult_t tuttiLayerNormBackward(const tuttiTensor_t* x, const tuttiTensor_t* gamma,
                                               const tuttiTensor_t* dy, const int64_t* rowCuts, int nLeaves,
                                               const tuttiTensor_t* dx, const tuttiTensor_t* dgamma,
                                               const tuttiTensor_t* dbeta);

/* ---- Attention on one rank ----------------------------------------------------------------------------------- */

/* Grouped-query attention over `batch` sequences: row b * queries + i of q is position queryStart + i of sequence b,
 * columns [h * headDim, (h + 1) * headDim) are head h; query head h uses head h * kvHeads / heads of k and v. */
typedef struct {
  size_t size;        /* sizeof(tuttiAttention_t) of the caller's header */
  int64_t batch;      /* sequences */
  int64_t queries;    /* positions of each sequence in q */
  int64_t keys;       /* positions of each sequence in k and v */
  int64_t queryStart; /* position of the first query, of the first key: for a causal mask over parts of a sequence */
  int64_t keyStart;
  int64_t heads;   /* a multiple of kvHeads */
  int64_t kvHeads; /* = heads without grouping */
  int64_t headDim;
  int causal;   /* 1: a query sees keys up to its own position */
  double scale; /* of the scores; 0: 1 / sqrt(headDim) */
  /* Scores are computed in tiles of so many queries and keys, cut at multiples of that in the sequence's positions.
   * 0: 128 and 512 on the host, 1024 and 1024 on CUDA.  The bits depend on them */
  int64_t queryTile, keyTile;
} tuttiAttention_t;

#define TUTTI_ATTENTION_INITIALIZER \
  { sizeof(tuttiAttention_t), 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0 }

/** out = softmax(scale q k^T) v per head.  On the host or CUDA.
 *  kernels NULL: tuttiKernelsFast.  On CUDA that and NULL are cuBLASLt's products, tuttiKernelsInvariant Tutti's own on
 *          the device; a table of one's own gets device memory and enqueues on the thread's stream
 *  q, out  [batch * queries, heads * headDim];  k, v  [batch * keys, kvHeads * headDim]; rows may be strided
 *  lse     [batch * queries, heads] contiguous: logarithm of the sum of exponentials, -infinity for a query that sees
 *          no key (its row of out is 0); needed by the backward pass and to merge parts of a sequence */
TUTTI_API tuttiResult_t tuttiAttentionForward(const tuttiAttention_t* shape, const tuttiKernels_t* kernels,
                                              const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                                              const tuttiTensor_t* out, const tuttiTensor_t* lse);
/** dq, dk, dv are written.  out and lse belong to all keys, also if k and v are only some of them; dq is then the share
 *  of those. */
TUTTI_API tuttiResult_t tuttiAttentionBackward(const tuttiAttention_t* shape, const tuttiKernels_t* kernels,
                                               const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                                               const tuttiTensor_t* out, const tuttiTensor_t* lse,
                                               const tuttiTensor_t* dout, const tuttiTensor_t* dq,
                                               const tuttiTensor_t* dk, const tuttiTensor_t* dv);
/** Bytes that a forward or backward call needs beside its arguments: a tile's scores, e bytes an element.  They do not
 *  grow with the sequence.  With tq = min(queryTile, queries) and tk = min(keyTile, keys):
 *  - forward   e tq (tk + 2)
 *  - backward  2 e tq tk
 *  - device    TUTTI_DEVICE_HOST, or TUTTI_DEVICE_CUDA: times as many heads as fit in 256 MiB */
TUTTI_API tuttiResult_t tuttiAttentionMemory(const tuttiAttention_t* shape, tuttiDataType_t dtype, int64_t device,
                                             int backward, size_t* bytes);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_KERNELS_H_ */

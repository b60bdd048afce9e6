/* Sequence (context) parallelism: ranks hold different tokens of a sequence, and attention combines them.
 *
 *   Ulysses   all-to-alls turn parts of the sequence into whole sequences of some heads, and back (Jacobs et al., 2023)
 *   ring      keys and values travel, queries stay; parts are merged by their log-sum-exp (Liu et al., 2023)
 *   gather    keys and values of all ranks are gathered; gradients go back by a reduce-scatter
 *   2-D       Ulysses within groups, ring or gather between them (Fang and Zhao, "USP", 2024)
 *
 * Memory is the host's or CUDA's; on CUDA keys and values travel on a stream beside the caller's.  Under a causal mask
 * the ring's ranks have equal work only with zigzag or striped tokens. */
#ifndef TUTTI_PARALLEL_SP_H_
#define TUTTI_PARALLEL_SP_H_

#include "tutti/parallel/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiSp* tuttiSp_t;

typedef enum {
  tuttiTokensContiguous = 0, /* an even part each */
  tuttiTokensZigzag = 1,     /* of 2n parts rank r has r and 2n-1-r */
  tuttiTokensStriped = 2     /* rank r has tokens r, r + n, r + 2n, ... */
} tuttiTokens_t;

typedef struct {
  size_t size;                     /* sizeof(tuttiSpConfig_t) of the caller's header */
  int64_t sequence;                /* tokens of a whole sequence; without leaves at least as many as ranks */
  int64_t batch;                   /* sequences.  Default 1 */
  int64_t heads, kvHeads, headDim; /* of the whole model; Ulysses gives its ranks whole groups of heads */
  int causal;
  double scale;                  /* 0: 1 / sqrt(headDim) */
  int tokens;                    /* tuttiTokens_t: how the ring's ranks divide the sequence */
  int gather;                    /* 1: keys and values are gathered, not passed round; contiguous tokens only */
  int overlap;                   /* 1 (default): the next keys and values travel while this rank computes */
  const tuttiKernels_t* kernels; /* as for tuttiAttentionForward */
  /* 0 (default): fast.  Else the same bits for any division: keys and values are gathered, and their gradients summed
   * over that many leaves of queries along the tree of sums.h.  Tokens are contiguous and cut at bounds of leaves over
   * all ranks of both groups; at most that many ranks have tokens.  Equal to tuttiTpConfig_t.leaves if both are used */
  int leaves;
  int64_t
      device; /* tuttiDevice_t.  TUTTI_DEVICE_AUTO (default): that of the communicators' ranks, the host without one */
  int64_t queryTile, keyTile; /* as in tuttiAttention_t */
} tuttiSpConfig_t;

#define TUTTI_SP_CONFIG_INITIALIZER \
  { sizeof(tuttiSpConfig_t), 0, 1, 0, 0, 0, 1, 0, tuttiTokensContiguous, 0, 1, NULL, 0, TUTTI_DEVICE_AUTO, 0, 0 }

/** The sequence is divided over the ring's ranks, and each part contiguously over the ranks of its ulysses group.
 *  ulysses, ring  the groups along the two axes; NULL: none.  A thread of sp uses ring while a call runs */
TUTTI_API tuttiResult_t tuttiSpCreate(tuttiSp_t* sp, tuttiComm_t ulysses, tuttiComm_t ring,
                                      const tuttiSpConfig_t* config);
TUTTI_API tuttiResult_t tuttiSpDestroy(tuttiSp_t sp);

/** How many tokens of each sequence this rank has, maybe 0, and their positions in the order of rows.
 *  positions  [*count], written; NULL: not wanted */
TUTTI_API tuttiResult_t tuttiSpTokens(tuttiSp_t sp, int64_t* count, int64_t* positions);
/** Number of elements that the forward pass keeps for the backward pass. */
TUTTI_API tuttiResult_t tuttiSpSaved(tuttiSp_t sp, size_t* count);

/** Attention of this rank's tokens to all tokens of their sequence.  Rows are tokens: row b * count + i is this rank's
 *  token i of sequence b.
 *  q, out  [batch * count, heads * headDim];  k, v  [batch * count, kvHeads * headDim]; contiguous
 *  saved   [tuttiSpSaved] of q's dtype; until the backward pass of this call */
TUTTI_API tuttiResult_t tuttiSpForward(tuttiSp_t sp, const tuttiTensor_t* q, const tuttiTensor_t* k,
                                       const tuttiTensor_t* v, const tuttiTensor_t* out, void* saved);
/** dq, dk, dv of this rank's tokens are written. */
TUTTI_API tuttiResult_t tuttiSpBackward(tuttiSp_t sp, const void* saved, const tuttiTensor_t* dout,
                                        const tuttiTensor_t* dq, const tuttiTensor_t* dk, const tuttiTensor_t* dv);

/** counted: all traffic of sp so far.  expected: of one forward and one backward pass, by the formula.  May be NULL. */
TUTTI_API tuttiResult_t tuttiSpTraffic(tuttiSp_t sp, tuttiDataType_t dtype, tuttiTraffic_t* counted,
                                       tuttiTraffic_t* expected);
/** counted: the most bytes that a call has held beside its arguments.  expected: the most of a forward and a backward
 *  pass by the formula of docs/parallel/sp.md.  May be NULL. */
TUTTI_API tuttiResult_t tuttiSpMemory(tuttiSp_t sp, tuttiDataType_t dtype, size_t* counted, size_t* expected);
/** The share of the ring's time that ranks use, by visible scores: their mean over ranks, divided by the sum over hops
 *  of the most on one rank.  1 is perfect; a contiguous causal ring has n / (2n - 1) with many tokens. */
TUTTI_API tuttiResult_t tuttiSpBalance(tuttiSp_t sp, double* balance);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_SP_H_ */

/* Sequence (context) parallelism: the tokens of a sequence lie on different ranks, and attention brings them together.
 *
 *   Ulysses   an all-to-all turns parts of the sequence into whole sequences of some heads, and back (Jacobs et al.,
 * 2023) ring      keys and values go round, queries stay; parts are merged by their log-sum-exp (Liu et al., 2023)
 *   gather    keys and values of all ranks are gathered; gradients go back by a reduce-scatter
 *   2-D       Ulysses within groups, ring or gather between them (Fang and Zhao, "USP", 2024)
 *
 * On the host or CUDA, where all that a call takes is the device's memory and keys and values travel on a stream beside
 * the caller's.
 *
 * Under a causal mask the ring's ranks have equal work only if their tokens are dealt fairly: zigzag or striped. */
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
  /* 0 (default): fast.  Else the same bits for any division: keys and values are gathered, their gradients summed over
   * that many leaves of queries along the tree of sums.h.  Contiguous tokens, cut at bounds of leaves over all ranks of
   * both groups, so that at most that many have some.  As many as tuttiTpConfig_t.leaves where both are used */
  int leaves;
  int64_t
      device; /* tuttiDevice_t.  TUTTI_DEVICE_AUTO (default): that of the communicators' ranks, the host without one */
  int64_t queryTile, keyTile; /* as in tuttiAttention_t */
} tuttiSpConfig_t;

#define TUTTI_SP_CONFIG_INITIALIZER \
  { sizeof(tuttiSpConfig_t), 0, 1, 0, 0, 0, 1, 0, tuttiTokensContiguous, 0, 1, NULL, 0, TUTTI_DEVICE_AUTO, 0, 0 }

/** ulysses, ring  the groups along the two axes; NULL: none.  The sequence is divided over the ring's ranks, and each
 * part contiguously over the ranks of its ulysses group.  Calls on ring come from a thread of sp's while a call runs.
 */
TUTTI_API tuttiResult_t tuttiSpCreate(tuttiSp_t* sp, tuttiComm_t ulysses, tuttiComm_t ring,
                                      const tuttiSpConfig_t* config);
TUTTI_API tuttiResult_t tuttiSpDestroy(tuttiSp_t sp);

/** How many tokens of each sequence this rank has, maybe none, and (unless NULL) their positions in it, in the order of
 *  rows. */
TUTTI_API tuttiResult_t tuttiSpTokens(tuttiSp_t sp, int64_t* count, int64_t* positions);
/** Elements of what the forward pass keeps for the backward pass. */
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

/** All that went through sp, and what one forward and one backward pass cause by the formula (either may be NULL). */
TUTTI_API tuttiResult_t tuttiSpTraffic(tuttiSp_t sp, tuttiDataType_t dtype, tuttiTraffic_t* counted,
                                       tuttiTraffic_t* expected);
/** The most memory that a call has held so far beside its arguments, in bytes, and what a forward and a backward pass
 * hold at most by the formula: numbers of tokens times widths and tiles of scores (docs/parallel/sp.md).  Either may be
 * NULL. */
TUTTI_API tuttiResult_t tuttiSpMemory(tuttiSp_t sp, tuttiDataType_t dtype, size_t* counted, size_t* expected);
/** Of the visible entries of the scores: their mean over the ring's ranks, over the sum of each hop's most on one rank;
 *  1 is perfect, n / (2n - 1) is a contiguous causal ring when tokens are many. */
TUTTI_API tuttiResult_t tuttiSpBalance(tuttiSp_t sp, double* balance);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_SP_H_ */

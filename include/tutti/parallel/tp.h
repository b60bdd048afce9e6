/* Tensor parallelism: matrices cut over the ranks of a group, after Megatron-LM (Shoeybi et al., 2019; with sequence
 * parallelism Korthikanti et al., 2022).
 *
 *   shapes  rows of x and y are tokens.  A weight is [outputs, inputs] of this rank and belongs to the caller
 *   tokens  without sequence parallelism activations between layers are whole on every rank.  With it a rank holds
 *           tokens [cuts[rank], cuts[rank + 1]) of tuttiTpSplit(tokens, 1) there; layers gather and scatter them
 *   memory  host or CUDA.  On CUDA products are cuBLASLt's, found at run time, or a given table's, which gets device
 *           memory and enqueues on the thread's stream.  Layout-invariant products are Tutti's own and have the host's
 *           bits */
#ifndef TUTTI_PARALLEL_TP_H_
#define TUTTI_PARALLEL_TP_H_

#include "tutti/parallel/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiTp* tuttiTp_t;
typedef struct tuttiLinear* tuttiLinear_t;

typedef struct {
  size_t size;          /* sizeof(tuttiTpConfig_t) of the caller's header */
  int numerics;         /* tuttiNumerics_t */
  int sequenceParallel; /* 1: tokens are cut over the ranks between the layers */
  int leaves;           /* layout-invariant: leaves of every sum that is cut; the same in all layouts that are to agree.
                           At most that many ranks get a part of anything.  Default 8 */
  int tiles;            /* fast: sums go out in that many parts, each while the next part's product is computed */
  const tuttiKernels_t* kernels; /* NULL: tuttiKernelsFast; layout-invariant products are always Tutti's own */
  int tokenLeaves;               /* 0.  Any other value is refused: see tokenComm */
  int64_t device; /* tuttiDevice_t, of 64 bits so that older headers' structs are shorter.  TUTTI_DEVICE_AUTO (default):
                     that of the communicator's rank, the host without one */
  /* Ranks outside of tp that have other tokens of the same sequences, in the order of their tokens; NULL (default):
   * none. Gradients of weights are then sums over the tokens of all of them, on each of them.  Used on the caller's
   * thread. Not with sequenceParallel */
  tuttiComm_t tokenComm;
  /* With tokenComm and layout-invariant: tokens of a whole sequence, as in tuttiSpConfig_t.  A call takes one sequence,
   * of which a rank has the tokens of tuttiTpTokens; other numbers of tokens are tuttiInvalidArgument */
  int64_t sequence;
} tuttiTpConfig_t;

#define TUTTI_TP_CONFIG_INITIALIZER \
  { sizeof(tuttiTpConfig_t), tuttiNumericsFast, 0, 8, 1, NULL, 0, TUTTI_DEVICE_AUTO, NULL, 0 }

/** comm NULL: one rank that holds everything.  config may be NULL.  With tiles > 1 a thread of tp uses comm while a
 *  call below runs. */
TUTTI_API tuttiResult_t tuttiTpCreate(tuttiTp_t* tp, tuttiComm_t comm, const tuttiTpConfig_t* config);
/** Destroy what was made from tp first. */
TUTTI_API tuttiResult_t tuttiTpDestroy(tuttiTp_t tp);
/** Traffic of tp since it was made, or since the last call with reset = 1. */
TUTTI_API tuttiResult_t tuttiTpTraffic(tuttiTp_t tp, tuttiTraffic_t* traffic, int reset);

/** How tp cuts `total` items (features, heads * headDim, vocabulary, tokens) that stay together in units: evenly; in
 *  layout-invariant mode at bounds of leaves.  cuts [nRanks + 1]. */
TUTTI_API tuttiResult_t tuttiTpSplit(tuttiTp_t tp, int64_t total, int64_t unit, int64_t* cuts);
/** The leaves of `total` items in units: leafCuts [config.leaves + 1], the later ones empty if there are few units. */
TUTTI_API tuttiResult_t tuttiTpLeaves(tuttiTp_t tp, int64_t total, int64_t unit, int64_t* leafCuts);
/** Which split of a layer is cheaper by the planner's estimate, if its input is cut over the ranks.
 *  column  written.  1: gather the input and split by outputs, which moves tokens x inputs.  0: split by inputs and
 *          scatter the sums, which moves tokens x outputs */
TUTTI_API tuttiResult_t tuttiTpCheaperSplit(tuttiTp_t tp, int64_t tokens, int64_t inputs, int64_t outputs,
                                            tuttiDataType_t dtype, int* column);

/* ---- Regions: an operation forward, its conjugate backward ------------------------------------------------------ */

typedef enum {
  tuttiRegionCopy = 0,         /* identity; backward sum over the ranks */
  tuttiRegionReduce = 1,       /* sum over the ranks; backward identity */
  tuttiRegionScatter = 2,      /* keep this rank's part along dim; backward gather */
  tuttiRegionGather = 3,       /* join the parts along dim; backward keep this rank's part */
  tuttiRegionGatherTokens = 4, /* join the parts; backward sum over the ranks, and each keeps its part */
  tuttiRegionReduceScatter = 5 /* sum over the ranks, and each keeps its part; backward join the parts */
} tuttiRegion_t;

/** x to y, forward or (backward = 1) from y's gradient x to x's gradient y.  Both are contiguous matrices.
 *  dim   0: rows are cut, 1: columns; ReduceScatter and GatherTokens cut rows
 *  cuts  [nRanks + 1] along dim; ignored by Copy and Reduce
 *  Sums  layout-invariant: x stands for this rank's leaves, added along the tree of sums.h.  tuttiInvalidArgument where
 *        the leaves of some rank take more than one vector; tuttiTreeAllReduceTensors takes leaves themselves */
TUTTI_API tuttiResult_t tuttiTpRegion(tuttiTp_t tp, tuttiRegion_t region, int backward, const tuttiTensor_t* x, int dim,
                                      const int64_t* cuts, const tuttiTensor_t* y);

/* ---- Sums over tokens --------------------------------------------------------------------------------------------- *
 * Gradients of parameters that the program itself has (norms, positions), and means over tokens.  `whole` 0: over rows
 * as they are between the layers; 1: over all tokens of tp's ranks, which are more with sequence parallelism. */

/** How config.sequence tokens are cut over the ranks of tokenComm: evenly, which in fast mode is a proposal; in
 *  layout-invariant mode at bounds of leaves, as tuttiSp_t with as many leaves does.
 *  cuts  [ranks of tokenComm + 1]; a rank may have none */
TUTTI_API tuttiResult_t tuttiTpTokens(tuttiTp_t tp, int64_t* cuts);
/** The leaves of such a sum on this rank: leaf l is rows [rowCuts[l], rowCuts[l + 1]).  One in fast mode.
 *  tokens   of tp's ranks, as in tuttiLinearForward
 *  nLeaves  how many, maybe 0; rowCuts [config.leaves + 1], of which *nLeaves + 1 are written */
TUTTI_API tuttiResult_t tuttiTpTokenLeaves(tuttiTp_t tp, int64_t tokens, int whole, int* nLeaves, int64_t* rowCuts);
/** sum += the leaves of all ranks that have tokens, on each of them: tp's with sequence parallelism (whole 0), or
 *  tokenComm's.  Layout-invariant: along the tree of sums.h.
 *  leaves  [nLeaves, elements of sum], contiguous; not written */
TUTTI_API tuttiResult_t tuttiTpTokenSum(tuttiTp_t tp, int whole, const tuttiTensor_t* leaves, const tuttiTensor_t* sum);
/** The traffic of one sum of `count` elements, by the formula; added to *traffic. */
TUTTI_API tuttiResult_t tuttiTpTokenPredict(tuttiTp_t tp, int whole, int64_t count, tuttiDataType_t dtype,
                                            tuttiTraffic_t* traffic);

/* ---- Linear layers --------------------------------------------------------------------------------------------- */

typedef struct {
  size_t size; /* sizeof(tuttiLinearConfig_t) of the caller's header */
  int64_t inputs;
  int64_t outputs;
  int64_t unit;        /* what is cut stays together in these units: headDim, or a group of heads.  Default 1 */
  const int64_t* cuts; /* [nRanks + 1] along what is cut, or NULL: tuttiTpSplit.  Copied */
  int whole;           /* column: y is gathered, all outputs on every rank; row: x is whole, this rank takes its part */
} tuttiLinearConfig_t;

#define TUTTI_LINEAR_CONFIG_INITIALIZER \
  { sizeof(tuttiLinearConfig_t), 0, 0, 1, NULL, 0 }

/** y = x w^T + bias with w cut by outputs: w [outputs here, inputs], bias [outputs here], y [tokens, outputs here]. */
TUTTI_API tuttiResult_t tuttiColumnLinearCreate(tuttiLinear_t* linear, tuttiTp_t tp, const tuttiLinearConfig_t* config);
/** y = x w^T + bias with w cut by inputs: w [outputs, inputs here], bias [outputs] whole, x [tokens, inputs here]. */
TUTTI_API tuttiResult_t tuttiRowLinearCreate(tuttiLinear_t* linear, tuttiTp_t tp, const tuttiLinearConfig_t* config);
TUTTI_API tuttiResult_t tuttiLinearDestroy(tuttiLinear_t linear);
/** The cuts that the layer goes by, [nRanks + 1]. */
TUTTI_API tuttiResult_t tuttiLinearCuts(tuttiLinear_t linear, int64_t* cuts);

/** Shapes as above; with sequence parallelism a column layer's x and a row layer's y have this rank's tokens only.
 *  tokens  of the whole group's activation
 *  bias    NULL: none.  y is contiguous where it is a sum or gathered */
TUTTI_API tuttiResult_t tuttiLinearForward(tuttiLinear_t linear, int64_t tokens, const tuttiTensor_t* x,
                                           const tuttiTensor_t* w, const tuttiTensor_t* bias, const tuttiTensor_t* y);
/** dx is written (NULL: not wanted), dw and dbias (NULL: none) are added to.  Gradients have the shapes of what they
 *  are gradients of; dbias of a row layer is the whole one on every rank.
 *  With tokenComm dw and dbias are of the tokens of all its ranks, which then all want them. */
TUTTI_API tuttiResult_t tuttiLinearBackward(tuttiLinear_t linear, int64_t tokens, const tuttiTensor_t* x,
                                            const tuttiTensor_t* w, const tuttiTensor_t* dy, const tuttiTensor_t* dx,
                                            const tuttiTensor_t* dw, const tuttiTensor_t* dbias);
/** The traffic of one forward (passes & 1) and one backward pass (passes & 2) with dx, by the formula; added to
 *  *traffic.  passes & 4: backward is two calls, one for dx and one for the other two.
 *  What dw and dbias move with tokenComm is tuttiTpTokenPredict's. */
TUTTI_API tuttiResult_t tuttiLinearPredict(tuttiLinear_t linear, int64_t tokens, tuttiDataType_t dtype, int passes,
                                           tuttiTraffic_t* traffic);

/* ---- Vocabulary ------------------------------------------------------------------------------------------------ */

/** out[t] = table[ids[t]], where this rank holds rows [cuts[rank], cuts[rank + 1]) of the table.
 *  ids  [tokens] int32, all tokens on every rank; an id outside [0, cuts[nRanks]) is tuttiInvalidArgument
 *  out  [tokens, width], or this rank's tokens with sequence parallelism; contiguous
 *
 *  On CUDA ids may be in host memory, which is read at once, or in device memory: the check waits for the stream. */
TUTTI_API tuttiResult_t tuttiVocabEmbedding(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* ids,
                                            const tuttiTensor_t* table, const tuttiTensor_t* out);
/** dtable += the gradient; with tokenComm of the tokens of all its ranks. */
TUTTI_API tuttiResult_t tuttiVocabEmbeddingBackward(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* ids,
                                                    const tuttiTensor_t* dout, const tuttiTensor_t* dtable);

/** loss[t] = -log softmax(logits[t])[targets[t]] over a vocabulary that is cut like the table's rows.
 *  logits   [tokens, vocabulary here], all tokens on every rank
 *  targets  [tokens] int32, as ids above;  loss  [tokens], the same on every rank
 *  dlogits  NULL, or (softmax - target) * scale, as logits; may be logits itself */
TUTTI_API tuttiResult_t tuttiVocabCrossEntropy(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* logits,
                                               const tuttiTensor_t* targets, const tuttiTensor_t* loss,
                                               const tuttiTensor_t* dlogits, double scale);

/** The traffic of one embedding (passes & 1), its backward (& 2), and one cross entropy (& 4), by the formula; added to
 *  *traffic.  What dtable moves with tokenComm is tuttiTpTokenPredict's. */
TUTTI_API tuttiResult_t tuttiVocabPredict(tuttiTp_t tp, int64_t tokens, int64_t width, tuttiDataType_t dtype,
                                          int passes, tuttiTraffic_t* traffic);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_TP_H_ */

/* What a layout of a transformer costs, by formula: memory, bytes on the wire, time of a step.  Needs no ranks. */
#ifndef TUTTI_PARALLEL_PLANNER_H_
#define TUTTI_PARALLEL_PLANNER_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  tuttiRecomputeNone = 0,
  tuttiRecomputeSelective = 1, /* attention's scores are computed again (or never kept) */
  tuttiRecomputeFull = 2,      /* only the input of each layer is kept */
  tuttiRecomputeAlternate = 3  /* attention's result and every second product's are kept, all else is computed again;
                                  searches leave it out */
} tuttiRecompute_t;

/** Start from TUTTI_MODEL_SHAPE_INITIALIZER. */
typedef struct {
  size_t size;
  double layers, hidden, heads, sequence;
  double parameters; /* all of the layers'; 0: 12 layers hidden^2, with experts as many more as they have.  What is more
                        than attention's and the experts' is an MLP that all tokens pass */
  double vocabulary; /* 0: embedding and head are left out */
  double experts;    /* in the place of each MLP; 0: none */
  double choices;    /* experts of each token */
  double expertWidth; /* 0: 4 hidden / choices */
  double kvHeads;     /* of keys and values, for a ring's bytes; 0: heads */
  double keyBlock;    /* keys whose scores with all queries exist at a time; 0: tiles of 1024 x 1024, as kernels.h */
  double visible;     /* the part of the scores that attention computes.  Default 1; 0.5: skips a causal mask's half */
  double attentionWidth; /* of all heads together, of scores and values in the mean; 0: hidden */
} tuttiModelShape_t;

#define TUTTI_MODEL_SHAPE_INITIALIZER \
  { sizeof(tuttiModelShape_t), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0 }

/** Start from TUTTI_LAYOUT_INITIALIZER. */
typedef struct {
  size_t size;
  int tp, pp, dp;       /* ranks along each axis */
  int chunks;           /* stages per pipeline rank, interleaved */
  int zero;             /* stage, 0 to 3 */
  int sequenceParallel; /* with tp */
  int recompute;        /* tuttiRecompute_t */
  double microBatch;    /* sequences */
  int microBatches;     /* per step and data-parallel rank; 0: as many as fill the pipeline, pp or with chunks 2 pp */
  double valueBytes, gradientBytes, optimizerBytes; /* per parameter; 2, 4, 12: bf16 with float32 masters and AdamW */
  int cp; /* ranks over the tokens of a sequence, as a ring; they share the other axes' work like replicas */
  int ep; /* ranks over experts, each with micro-batches of its own.  Ranks are tp x cp x ep x pp x dp */
} tuttiLayout_t;

#define TUTTI_LAYOUT_INITIALIZER \
  { sizeof(tuttiLayout_t), 1, 1, 1, 1, 0, 0, tuttiRecomputeNone, 1, 0, 2, 4, 12, 1, 1 }

/** Start from TUTTI_LAYOUT_COST_INITIALIZER.  Bytes, of the fullest rank (the first pipeline stage). */
typedef struct {
  size_t size;
  double values, gradients, optimizer; /* of the layers */
  double activations;                  /* of 16-bit elements, without the embedding and the head */
  double tpBytes, ppBytes, dpBytes;    /* sent by a rank per step */
  double bubble;                       /* of ideal time, by simulation: (p - 1) / (chunks m) where ranks only fill and
                                          drain the pipeline */
  double cpBytes, epBytes; /* as tpBytes: a ring's keys, values and their gradients; evenly chosen experts */
  double working;          /* beside activations while backward is in a layer: what is computed again in it */
  double logits;           /* on the last stage, from forward to backward of the head; 4 bytes each */
  int inFlight;            /* micro-batches whose activations it holds at once, counted per stage (chunk) */
} tuttiLayoutCost_t;

#define TUTTI_LAYOUT_COST_INITIALIZER \
  { sizeof(tuttiLayoutCost_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** What a layout costs.
 *  - activations  per layer sbh (10 + 24/t + 5as/(ht)) with tensor parallelism, all over t with sequence parallelism
 *                 (Korthikanti et al., "Reducing Activation Recomputation", 2022, table 2 and section 4.2.3).  Over cp
 *                 ranks s is their part of the tokens
 *  - pipeline     from simulating tuttiScheduleCreate's 1f1b or, with chunks, interleaved: bubble is bubbleOverIdeal
 *                 with a backward of two forwards and what it computes again, inFlight is peakInFlight, ppBytes the
 *                 messages of the rank that sends most.  Of many micro-batches the first and last are simulated
 *  - working      with full recomputation what one layer keeps otherwise, and with any recomputation a tile of scores
 *                 and their gradients (docs/parallel/planner.md).  It also sends again what forward sends, if full
 *  - Errors       tuttiInvalidArgument: thousands of stages, which are too many to simulate */
TUTTI_API tuttiResult_t tuttiLayoutCost(const tuttiModelShape_t* model, const tuttiLayout_t* layout,
                                        tuttiLayoutCost_t* cost);

/* ---- Search ---------------------------------------------------------------------------------------------------- */

/** Generations of GPUs whose products of matrices are known by shape and type (docs/parallel/planner.md). */
typedef enum { tuttiGpuUnknown = 0, tuttiGpuA100 = 1, tuttiGpuH100 = 2, tuttiGpuB200 = 3, tuttiGpuH200 = 4 } tuttiGpu_t;

/** Operations per second that a generation reaches in `count` products of m x k by k x n at once.
 *  - elementBytes  2: bf16 and fp16; 1: fp8, from Hopper on */
TUTTI_API tuttiResult_t tuttiMatmulRate(int gpu, int elementBytes, double m, double n, double k, double count,
                                        double* flops);

/** What ranks run on; start from TUTTI_MACHINE_INITIALIZER, or tuttiMachineMeasure.  Bandwidths are bytes per second
 *  that one rank sends. */
typedef struct {
  size_t size;
  int ranks, perNode; /* ranks per node: neighbours in rank order */
  double flops;       /* per second that a rank sustains in matrix products */
  double memory;      /* bytes per rank; 0: no bound */
  double nodeBandwidth, nodeLatencyUs;
  double bandwidth, latencyUs; /* between nodes */
  double overlap;              /* the part of data-parallel messages that computation can hide.  Default 0.9 */
  const double* speeds;        /* [ranks] of the ranks, relative to flops; NULL: all 1 */
  int gpu;          /* tuttiGpu_t: every product by its shape, what lies between them by memory, in place of flops */
  int elementBytes; /* with gpu: of products' operands, 2 or 1.  Default 2 */
  double watts;     /* with gpu: the limit that its power is set to; 0: the generation's own */
  double attentionFlops;  /* with gpu: of attention by blocks of keys, both passes; 0: FlashAttention 2's on it */
  double memoryBandwidth; /* with gpu: of its memory by the data sheet, bytes per second; 0: the generation's own */
  int adapters; /* of a node that the collectives of one group use at once, each for a part of the bytes: at most one
                   for each of its ranks there.  0: all of these */
  double sustained; /* with gpu: the part of the data sheet's rate that products keep up, whatever the watts; 0: the
                       generation's own */
  double castBytes; /* with gpu: read and written of an operand that goes from 2 bytes to 1; 0: the generation's own */
  /* Of a program's stage 3, in place of this library's: */
  int gathers;      /* of values for a micro-batch; 0: two, for forward and backward */
  int tensors;      /* of a layer, gathered and scattered one by one; 0: a layer goes at once */
  int memoryCopies; /* with gpu: how often what is gathered and scattered is copied in memory beside that */
  double partUs;    /* of the host for every rank's part of each of them; nothing hides it */
  int zeroPlus; /* as ZeRO++: values gathered in 1 byte and kept in the node for backward, gradients in half a byte */
} tuttiMachine_t;

#define TUTTI_MACHINE_INITIALIZER                                                                                     \
  {                                                                                                                   \
    sizeof(tuttiMachine_t), 1, 8, 1e12, 0, 100e9, 5, 10e9, 10, 0.9, NULL, tuttiGpuUnknown, 2, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0                                                                                                       \
  }

/** Fills machine for the ranks of comm, all taken for one node: links from the planner's estimates of all-reduces,
 *  flops from a matrix product of tuttiKernelsFast on this rank.  Collective; ranks may get different flops. */
TUTTI_API tuttiResult_t tuttiMachineMeasure(tuttiComm_t comm, tuttiMachine_t* machine);

/* A layout and what it is expected to take; milliseconds of a step. */
typedef struct {
  tuttiLayout_t layout;
  tuttiLayoutCost_t cost;
  const char* schedule;               /* a name for tuttiScheduleCreate */
  double memory;                      /* bytes of the fullest rank, with embedding, head and what stage 3 gathers */
  double computeMs, tpMs, ppMs, dpMs; /* of which dpMs beside backward where it can */
  double bubbleMs, exposedMs;         /* exposed: what of dpMs is waited for */
  double cpMs, epMs;                  /* cpMs: of a ring's messages what attention does not hide: gradients, at least */
  double unevenMs;                    /* what the slowest ranks add after shares and stages are divided by speed */
  double stepMs;
  size_t bucketBytes; /* for tuttiDdpConfig_t */
  int prefetch;       /* for tuttiZeroConfig_t */
  int tiles;          /* for tuttiTpConfig_t */
  int fits;
  char why[96]; /* why it is not the best: what fills the memory, or where its time goes */
} tuttiPlan_t;

/** All layouts tp x cp x ep x pp x dp of machine.ranks (cp leaves a rank at least 1024 tokens, ep an expert), with
 * every stage of ZeRO, recomputation, size of micro-batch and number of chunks (at most 512 stages), the best first;
 * those that do not fit come last.  Axes lie as tp, cp, ep, pp, dp, innermost first.
 *
 *  - batch  sequences per step
 *  - plans  [capacity] are written; *count is how many layouts there are
 *
 *  Model of time: products at flops; an all-reduce of B bytes over n ranks takes 2(n-1) latencies and 2(n-1)/n B at the
 *  slowest link's bandwidth.  Between nodes that link is of all adapters that the group uses of a node, and only as
 * many of the latencies are the network's as there are nodes.  Tensor and pipeline messages are waited for,
 * data-parallel ones go beside backward. */
TUTTI_API tuttiResult_t tuttiPlanSearch(const tuttiModelShape_t* model, const tuttiMachine_t* machine, int batch,
                                        tuttiPlan_t* plans, size_t capacity, size_t* count);

/** The plan of one given layout: what it costs, and in `why` where its time goes, or why it does not fit.  Unless the
 *  layout sets microBatches, they are batch over what its replicas take at once.
 *  Errors  tuttiInvalidArgument: the layout is not of machine.ranks, or its replicas do not divide the batch */
TUTTI_API tuttiResult_t tuttiPlanLayout(const tuttiModelShape_t* model, const tuttiMachine_t* machine, int batch,
                                        const tuttiLayout_t* layout, tuttiPlan_t* plan);

/** How a plan divides work by machine.speeds: micro-batches over data-parallel ranks [dp + 1] and layers over stages
 *  [pp * chunks + 1].  Either may be NULL. */
TUTTI_API tuttiResult_t tuttiPlanShares(const tuttiModelShape_t* model, const tuttiMachine_t* machine,
                                        const tuttiPlan_t* plan, int batch, int64_t* microBatches, int64_t* layers);

/** Days of training: (recompute ? 8 : 6) tokens parameters / (ranks flops) seconds. */
TUTTI_API tuttiResult_t tuttiTrainingDays(double parameters, double tokens, double ranks, double flops, int recompute,
                                          double* days);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_PLANNER_H_ */

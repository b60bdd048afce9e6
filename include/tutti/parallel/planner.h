/* What a layout of a transformer costs, by formula: memory per rank and bytes on the wire.  Needs no ranks. */
#ifndef TUTTI_PARALLEL_PLANNER_H_
#define TUTTI_PARALLEL_PLANNER_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  tuttiRecomputeNone = 0,
  tuttiRecomputeSelective = 1, /* attention's scores are computed again (or never kept) */
  tuttiRecomputeFull = 2       /* only the input of each layer is kept */
} tuttiRecompute_t;

/** Start from TUTTI_MODEL_SHAPE_INITIALIZER. */
typedef struct {
  size_t size;
  double layers, hidden, heads, sequence;
  double parameters; /* 0: 12 layers hidden^2 */
} tuttiModelShape_t;

#define TUTTI_MODEL_SHAPE_INITIALIZER \
  { sizeof(tuttiModelShape_t), 0, 0, 0, 0, 0 }

/** Start from TUTTI_LAYOUT_INITIALIZER. */
typedef struct {
  size_t size;
  int tp, pp, dp;                                   /* ranks along each axis */
  int chunks;                                       /* stages per pipeline rank, interleaved */
  int zero;                                         /* stage, 0 to 3 */
  int sequenceParallel;                             /* with tp */
  int recompute;                                    /* tuttiRecompute_t */
  double microBatch;                                /* sequences */
  int microBatches;                                 /* per step and data-parallel rank; 0: at least pp */
  double valueBytes, gradientBytes, optimizerBytes; /* per parameter; 2, 4, 12: bf16 with float32 masters and AdamW */
} tuttiLayout_t;

#define TUTTI_LAYOUT_INITIALIZER \
  { sizeof(tuttiLayout_t), 1, 1, 1, 1, 0, 0, tuttiRecomputeNone, 1, 0, 2, 4, 12 }

/** Start from TUTTI_LAYOUT_COST_INITIALIZER.  Bytes, of the fullest rank (the first pipeline stage). */
typedef struct {
  size_t size;
  double values, gradients, optimizer; /* of the layers */
  double activations;                  /* of 16-bit elements, without the embedding and the head */
  double tpBytes, ppBytes, dpBytes;    /* sent by a rank per step */
  double bubble;                       /* of ideal time: (p - 1) / (chunks m) */
} tuttiLayoutCost_t;

#define TUTTI_LAYOUT_COST_INITIALIZER \
  { sizeof(tuttiLayoutCost_t), 0, 0, 0, 0, 0, 0, 0, 0 }

/** Activations after Korthikanti et al. ("Reducing Activation Recomputation", 2022), table 2 and section 4.2.3: per
 * layer sbh (10 + 24/t + 5as/(ht)) with tensor parallelism, all over t with sequence parallelism; min(m, p)
 * micro-batches of the first stage's layers are in flight, times 1 + (p-1)/(pv) for v chunks. */
TUTTI_API tuttiResult_t tuttiLayoutCost(const tuttiModelShape_t* model, const tuttiLayout_t* layout,
                                        tuttiLayoutCost_t* cost);

/** Days of training: (recompute ? 8 : 6) tokens parameters / (ranks flops) seconds. */
TUTTI_API tuttiResult_t tuttiTrainingDays(double parameters, double tokens, double ranks, double flops, int recompute,
                                          double* days);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_PLANNER_H_ */

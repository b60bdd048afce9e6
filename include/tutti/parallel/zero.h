/* Data parallelism whose states are cut over the ranks (Rajbhandari et al., "ZeRO", 2020; FSDP: Zhao et al., 2023).
 *
 *   stage   cut over the ranks               sent per step by each rank, of bytes B of all values, m micro-batches
 *   0       nothing                          all-reduce of the gradients: 2(n-1)/n B
 *   1       the optimizer's states           reduce-scatter, all-gather: 2(n-1)/n B
 *   2       and gradients                    m reduce-scatters, all-gather: (m+1)(n-1)/n B
 *   3       and values                       2m all-gathers (m without reshardAfterForward), m reduce-scatters
 *
 *   units   parameters form units, for example a transformer block.  Values of a unit are gathered and freed together,
 *           and so are its gradients summed.  A unit is one flat vector of its parameters; rank r owns slice r of an
 *           even cut
 *   memory  host or CUDA.  On CUDA tuttiZeroStep waits only for the norm, if it is asked for; reports have no times
 *
 *   per step:  for each micro-batch:
 *                tuttiZeroBegin
 *                forward:   for each unit: tuttiZeroUnshard; compute; tuttiZeroReshard(afterForward = 1)
 *                backward:  for each unit: tuttiZeroUnshard; compute, adding to gradients; tuttiZeroGradReady for each
 *                           parameter; tuttiZeroReshard(afterForward = 0)
 *              tuttiZeroStep */
#ifndef TUTTI_PARALLEL_ZERO_H_
#define TUTTI_PARALLEL_ZERO_H_

#include "tutti/parallel/dp.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiZero* tuttiZero_t;

typedef enum {
  tuttiSgd = 0,
  tuttiMomentum = 1, /* velocity = beta1 * velocity + gradient */
  tuttiAdamW = 2     /* Loshchilov and Hutter, 2019: decay apart from the gradient */
} tuttiOptimizerKind_t;

/** Start from TUTTI_OPTIMIZER_INITIALIZER. */
typedef struct {
  size_t size;
  int kind;
  double learningRate;
  double beta1, beta2, epsilon;
  double weightDecay;
} tuttiOptimizer_t;

#define TUTTI_OPTIMIZER_INITIALIZER \
  { sizeof(tuttiOptimizer_t), tuttiAdamW, 1e-3, 0.9, 0.95, 1e-8, 0.1 }

/** Update some elements once, for programs that keep their own states (with tuttiDdp_t).  All tensors are contiguous,
 *  of value's dtype, count and device.
 *  step           1 at the first
 *  gradientScale  multiplies the gradient (clipping)
 *  first, second  states, zero before the first step: momentum has the first, AdamW both; others may be NULL */
TUTTI_API tuttiResult_t tuttiOptimizerUpdate(const tuttiOptimizer_t* optimizer, int64_t step, double gradientScale,
                                             unsigned parameterFlags, const tuttiTensor_t* value,
                                             const tuttiTensor_t* gradient, const tuttiTensor_t* first,
                                             const tuttiTensor_t* second);

typedef struct {
  size_t size;      /* sizeof(tuttiZeroConfig_t) of the caller's header */
  int stage;        /* 0 to 3; default 1 */
  int numerics;     /* tuttiNumerics_t; layout-invariant: the sum's leaves are the micro-batches, in rank order */
  int microBatches; /* of this rank per step, at least 1; stages 2 and 3: the same on all.  Default 1 */
  int prefetch;     /* stage 3: units gathered ahead of the one asked for.  Default 1 */
  int reshardAfterForward; /* stage 3: 1 (default) free a unit after forward; 0: keep it until after backward */
  int overlap;             /* 1 (default): a thread of the handle's gathers and sums while its owner computes */
  int broadcast;           /* 1 (default): all begin with rank 0's values */
  tuttiDataType_t values;  /* what values are kept as: as the parameters (default), or tuttiBfloat16 with float32
                              parameters, which then stay as master copies in the shards */
  double clip;             /* scale gradients so that their norm is at most that; 0: not */
  tuttiComm_t replicas;    /* hybrid sharding: ranks that hold the same shard; gradients are summed over them too.
                              NULL: none.  Fast numerics */
  tuttiComm_t norm;        /* over whom the norm is taken, if other axes hold more of the model; NULL: comm.  Of the
                              same kind of device */
  tuttiOptimizer_t optimizer;
} tuttiZeroConfig_t;

#define TUTTI_ZERO_CONFIG_INITIALIZER                                                             \
  {                                                                                               \
    sizeof(tuttiZeroConfig_t), 1, tuttiNumericsFast, 1, 1, 1, 1, 1, tuttiNumTypes, 0, NULL, NULL, \
        TUTTI_OPTIMIZER_INITIALIZER                                                               \
  }

/** Collective.  Makes private copies of comm and config.replicas.  The values are copied: the handle keeps its own.
 *  units  [n] the unit of each parameter, from 0, not falling, without gaps; NULL: one unit
 *  comm   NULL: one rank
 *  Errors tuttiInvalidUsage: ranks hold different parameters; the sentence names the rank and the parameter */
TUTTI_API tuttiResult_t tuttiZeroCreate(tuttiZero_t* zero, tuttiComm_t comm, const tuttiParameter_t* parameters,
                                        const int* units, size_t n, const tuttiZeroConfig_t* config);
/** Collective.  NULL is allowed. */
TUTTI_API tuttiResult_t tuttiZeroDestroy(tuttiZero_t zero);

/** A view of a parameter's value.  Stage 3: while its unit is unsharded, else tuttiInvalidUsage.  Others: always, and
 *  the same until the handle is destroyed. */
TUTTI_API tuttiResult_t tuttiZeroValue(tuttiZero_t zero, size_t parameter, tuttiTensor_t* value);
/** A view to which backward adds a parameter's gradient, of the parameter's dtype.  It is zero at the start of each
 *  micro-batch (stages 2 and 3, layout-invariant) or step.  Stages 2 and 3: valid until the last tuttiZeroGradReady of
 *  its unit.  Its contents are unspecified after tuttiZeroStep. */
TUTTI_API tuttiResult_t tuttiZeroGradient(tuttiZero_t zero, size_t parameter, tuttiTensor_t* gradient);

/** Begin this rank's next micro-batch. */
TUTTI_API tuttiResult_t tuttiZeroBegin(tuttiZero_t zero);
/** Gather the values of a unit.  They are there when this returns, and the next units, in the direction of the last two
 *  calls, are on their way.  Stages 0 to 2: nothing to do. */
TUTTI_API tuttiResult_t tuttiZeroUnshard(tuttiZero_t zero, int unit);
/** The unit is not needed any more in this pass.  afterForward: 1 after forward, 0 after backward. */
TUTTI_API tuttiResult_t tuttiZeroReshard(tuttiZero_t zero, int unit, int afterForward);
/** This micro-batch's share of a gradient is complete.  Every parameter, in every micro-batch, once. */
TUTTI_API tuttiResult_t tuttiZeroGradReady(tuttiZero_t zero, size_t parameter);
/** Average over all micro-batches, clip, update.
 *  norm  of the average gradient before clipping; NULL: not wanted (and not computed without clipping) */
TUTTI_API tuttiResult_t tuttiZeroStep(tuttiZero_t zero, double* norm);
/** As config.optimizer.learningRate, from the next step on. */
TUTTI_API tuttiResult_t tuttiZeroSetLearningRate(tuttiZero_t zero, double learningRate);

/** Elements [*begin, *end) of a parameter (row-major) that this rank owns, and, unless NULL, a view of their values
 *  (the master copies where there are such), valid until the handle is destroyed. */
TUTTI_API tuttiResult_t tuttiZeroOwned(tuttiZero_t zero, size_t parameter, int64_t* begin, int64_t* end,
                                       tuttiTensor_t* values);

/** A view of the optimizer's states of the elements that tuttiZeroOwned names: state 0 is momentum's velocity or
 * AdamW's first moment, 1 its second. */
TUTTI_API tuttiResult_t tuttiZeroOwnedState(tuttiZero_t zero, size_t parameter, int state, tuttiTensor_t* values);
/** Tell the layer that the program has replaced what tuttiZeroOwned and tuttiZeroOwnedState show, from a checkpoint or
 *  other ranks.  Collective, between steps.  steps: how many were made before. */
TUTTI_API tuttiResult_t tuttiZeroLoaded(tuttiZero_t zero, int64_t steps);

/* Start from TUTTI_ZERO_REPORT_INITIALIZER. */
typedef struct {
  size_t size;
  size_t bytesNow;          /* values, gradients, states and master copies held */
  size_t bytesPeak;         /* since the handle was made; buffers that live in one call are not counted */
  size_t bytesExpected;     /* between steps, by the formula */
  size_t bytesPeakExpected; /* at most, by the formula */
  double communicationMs;   /* of the last step: the thread that sends was busy */
  double exposedMs;         /* of the last step: the owner waited for it */
  tuttiTraffic_t traffic;   /* of all steps; without the 48 bytes of a norm */
  tuttiTraffic_t expected;  /* of one step, by the formula */
} tuttiZeroReport_t;

#define TUTTI_ZERO_REPORT_INITIALIZER \
  { sizeof(tuttiZeroReport_t), 0, 0, 0, 0, 0, 0, TUTTI_TRAFFIC_INITIALIZER, TUTTI_TRAFFIC_INITIALIZER }

/** Local.  Set report->size; the other fields are written. */
TUTTI_API tuttiResult_t tuttiZeroReport(tuttiZero_t zero, tuttiZeroReport_t* report);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_ZERO_H_ */

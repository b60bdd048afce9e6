/* Data parallelism: every rank holds all parameters and computes its own micro-batches.  Gradients are summed.
 *
 *   tuttiDdpCreate
 *   per step:  for each of this rank's micro-batches:
 *                tuttiDdpBegin; forward; backward, which adds to the gradients and calls tuttiDdpGradReady for each
 *              tuttiDdpFinish; gradients now hold the average over all micro-batches of all ranks
 *
 *   buckets  gradients lie in buckets, which are summed while backward goes on.  A bucket is sent when it and all
 *            before it are ready, in the same order on all ranks.  After the first step buckets are rebuilt in the
 *            order in which rank 0's gradients became ready (Li et al., "PyTorch Distributed", VLDB 2020)
 *   memory   host or CUDA.  On CUDA tuttiDdpFinish returns when the sums are enqueued, and only the first one waits;
 *            reports have no times */
#ifndef TUTTI_PARALLEL_DP_H_
#define TUTTI_PARALLEL_DP_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiDdp* tuttiDdp_t;

#define TUTTI_PARAMETER_NO_DECAY 1u /* no weight decay */
#define TUTTI_PARAMETER_COUNTED_ELSEWHERE \
  2u /* a copy: another rank counts it in norms (replicated over another axis) */

typedef struct {
  const char* name;    /* the same on every rank; part of what is compared when ranks meet.  Copied */
  tuttiTensor_t value; /* contiguous; all parameters of one dtype */
  unsigned flags;      /* TUTTI_PARAMETER_* */
} tuttiParameter_t;

/* The number format in which gradients travel. */
typedef enum {
  tuttiWireExact = 0, /* their own type */
  tuttiWireBf16 = 1,  /* rounded to bfloat16, summed in float32, the sum rounded again: half the bytes */
  tuttiWireInt8 = 2   /* blocks of 256 with one float32 scale each, summed in float32: 65/256 of the bytes */
} tuttiWire_t;

typedef struct {
  size_t size;      /* sizeof(tuttiDdpConfig_t) of the caller's header */
  int numerics;     /* tuttiNumerics_t; layout-invariant: the sum's leaves are the micro-batches, in rank order */
  int wire;         /* tuttiWire_t; other than exact: float32, fast numerics */
  int microBatches; /* of this rank per step; ranks may differ, and 0 is allowed.  Default 1 */
  double weight;    /* of each of this rank's micro-batches (its number of samples); default 1.  Layout-invariant: 1 */
  int average;      /* 1 (default): divide by the sum of weights over all micro-batches; 0: the sum */
  int overlap;      /* 1 (default): buckets are sent while backward goes on; 0: in tuttiDdpFinish */
  int broadcast;    /* 1 (default): rank 0's values go to all when the handle is made */
  size_t bucketBytes;      /* least size of a bucket; 0: the size that reaches 80 % of the planner's best bandwidth */
  size_t firstBucketBytes; /* of the first bucket, which should leave early; 0: min(1 MiB, bucketBytes) */
  int guard;    /* 1 finds mistakes: nothing overlaps, and tuttiDdpFinish refuses gradients that were written after
                   their tuttiDdpGradReady (tuttiInvalidUsage on all ranks).  Default 0 */
  int feedback; /* 1: keep what rounding takes from a bucket and add it in the next step (error feedback: Seide et al.
                   2014, Karimireddy et al. 2019).  Needs a wire that is not exact, and memory for the gradients once
                   more and an n-th of that.  Starts anew when buckets are rebuilt.  Default 0 */
} tuttiDdpConfig_t;

#define TUTTI_DDP_CONFIG_INITIALIZER \
  { sizeof(tuttiDdpConfig_t), tuttiNumericsFast, tuttiWireExact, 1, 1.0, 1, 1, 1, 0, 0, 0, 0 }

/** Collective: makes a private copy of comm, on which a thread of the handle's sends.
 *  parameters  [n]; values are written here if config.broadcast, and not touched later
 *  comm        NULL: one rank
 *  Errors      tuttiInvalidUsage: ranks hold different parameters; the sentence names the rank and the parameter */
TUTTI_API tuttiResult_t tuttiDdpCreate(tuttiDdp_t* ddp, tuttiComm_t comm, const tuttiParameter_t* parameters, size_t n,
                                       const tuttiDdpConfig_t* config);
/** Collective.  In the middle of a step, or after one that failed, it waits for nobody, and other ranks' calls on the
 *  handle fail at once. */
TUTTI_API tuttiResult_t tuttiDdpDestroy(tuttiDdp_t ddp);

/** A view of a parameter's gradient in its bucket, of the value's shape.  Valid until the first tuttiDdpFinish or the
 *  next tuttiDdpShare, which rebuild the buckets; then until the handle is destroyed. */
TUTTI_API tuttiResult_t tuttiDdpGradient(tuttiDdp_t ddp, size_t parameter, tuttiTensor_t* gradient);

/** Begin this rank's next micro-batch.  Gradients are zero at the first; backward adds to them. */
TUTTI_API tuttiResult_t tuttiDdpBegin(tuttiDdp_t ddp);
/** This micro-batch's share of a parameter's gradient is complete.  A parameter that gets no such call has none.
 *  Errors   tuttiInvalidUsage: twice in one micro-batch */
TUTTI_API tuttiResult_t tuttiDdpGradReady(tuttiDdp_t ddp, size_t parameter);
/** Wait until all gradients are summed.
 *  Errors   tuttiInvalidUsage: there were fewer micro-batches than config.microBatches */
TUTTI_API tuttiResult_t tuttiDdpFinish(tuttiDdp_t ddp);

/** Set this rank's micro-batches from the next step on; ranks may differ, and 0 is allowed.  Collective, between steps.
 *  Views of tuttiDdpGradient become invalid. */
TUTTI_API tuttiResult_t tuttiDdpShare(tuttiDdp_t ddp, int microBatches);

/* Start from TUTTI_DDP_REPORT_INITIALIZER. */
typedef struct {
  size_t size;
  int nBuckets;
  size_t bucketBytes;      /* that buckets aim at */
  int steps;               /* finished */
  double communicationMs;  /* of the last step: the thread that sends was busy */
  double exposedMs;        /* of the last step: tuttiDdpFinish waited; on CUDA both are 0 */
  tuttiTraffic_t traffic;  /* of all steps */
  tuttiTraffic_t expected; /* of one step, by the formula */
} tuttiDdpReport_t;

#define TUTTI_DDP_REPORT_INITIALIZER \
  { sizeof(tuttiDdpReport_t), 0, 0, 0, 0, 0, TUTTI_TRAFFIC_INITIALIZER, TUTTI_TRAFFIC_INITIALIZER }

/** Local.  Set report->size; the other fields are written. */
TUTTI_API tuttiResult_t tuttiDdpReport(tuttiDdp_t ddp, tuttiDdpReport_t* report);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_DP_H_ */

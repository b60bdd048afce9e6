/* Pipeline parallelism: stages of layers on different ranks, through which micro-batches flow.
 *
 * A schedule is data: a list of actions per rank.  It is checked and can be simulated before anything runs.  It can be
 * written as CSV, edited, and read back. */
#ifndef TUTTI_PARALLEL_PP_H_
#define TUTTI_PARALLEL_PP_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  tuttiActionForward = 0,
  tuttiActionBackward = 1,      /* gradients of input and weights */
  tuttiActionBackwardInput = 2, /* of the input only; BackwardWeight of the same micro-batch comes later */
  tuttiActionBackwardWeight = 3,
  tuttiActionSendForward = 4,  /* the stage's output, to the next stage's rank */
  tuttiActionRecvForward = 5,  /* the stage's input */
  tuttiActionSendBackward = 6, /* the gradient of the stage's input, to the previous stage's rank */
  tuttiActionRecvBackward = 7,
  tuttiNumActions = 8
} tuttiActionKind_t;

typedef struct {
  int kind;  /* tuttiActionKind_t */
  int stage; /* 0 to stages - 1, in the order in which activations flow */
  int micro; /* micro-batch */
} tuttiAction_t;

typedef struct tuttiSchedule* tuttiSchedule_t;

/** A schedule by name, for p ranks with one stage each but where it says otherwise.
 *
 *  - gpipe: all forward, then all backward (Huang et al., 2019)
 *  - 1f1b: one forward, one backward; at most p micro-batches in flight (Narayanan et al., 2021)
 *  - interleaved: 1f1b over `chunks` stages per rank (the same), groups of p micro-batches at a time.  Where p does not
 *    divide micro-batches, groups are longer or shorter; on no rank are more than p chunks + p - 1 in flight, counted
 *    per stage
 *  - breadth-first: `chunks` stages per rank; all micro-batches through one before the next (Lamy-Poirier, 2023)
 *  - zb-h1: backward in two halves, and that of the weights fills gaps; 1f1b's memory (Qi et al., 2024)
 *  - zb-h2: as zb-h1 with up to twice the memory, and no gap between the first and the last action of a rank: better
 *    where steps follow each other and no rank waits for all others between them
 *  - zbv: as zb-h2 in 1f1b's memory; two stages per rank that lie in a V: rank r has stages r and 2p-1-r
 *
 *  microBatches is at least 1; stages times micro-batches is below 2^24.  chunks is 1 unless the list names it.  zb-h2,
 *  and zbv of fewer than 2p-1 micro-batches, are made by list scheduling under the memory's bound, with equal costs for
 *  the three kinds of work. */
TUTTI_API tuttiResult_t tuttiScheduleCreate(tuttiSchedule_t* schedule, const char* name, int nRanks, int chunks,
                                            int microBatches);
/** A schedule from CSV: a row per rank, cells like "2F0" (stage 2, forward, micro-batch 0), with F, B, I, W for
 *  computations and SF, RF, SB, RB for messages.  Empty cells and lines are ignored; a line of commas alone is a rank
 *  that does nothing.  If there are no message cells, messages are added.  Checked as by tuttiScheduleValidate. */
TUTTI_API tuttiResult_t tuttiScheduleParse(tuttiSchedule_t* schedule, const char* csv);
TUTTI_API tuttiResult_t tuttiScheduleDestroy(tuttiSchedule_t schedule);

/** The schedule as CSV.  Owned by the schedule; valid until the next tuttiScheduleCsv on it. */
TUTTI_API tuttiResult_t tuttiScheduleCsv(tuttiSchedule_t schedule, const char** csv);
/** Numbers of ranks, stages and micro-batches; each may be NULL. */
TUTTI_API tuttiResult_t tuttiScheduleShape(tuttiSchedule_t schedule, int* nRanks, int* stages, int* microBatches);
/** Which rank has a stage. */
TUTTI_API tuttiResult_t tuttiScheduleRankOf(tuttiSchedule_t schedule, int stage, int* rank);
/** Actions of a rank, in order; live as long as the schedule. */
TUTTI_API tuttiResult_t tuttiScheduleActions(tuttiSchedule_t schedule, int rank, const tuttiAction_t** actions,
                                             int* count);

/** Check that every computation occurs once, on the rank of its stage and after what it needs, that every message is
 *  sent and received once, and that nothing deadlocks.
 *  buffers    messages that may be under way from a rank to each other one; 0: a send waits for its receive
 *  complaint  "" or a sentence with the first wrong action; valid until the next call on the schedule */
TUTTI_API tuttiResult_t tuttiScheduleValidate(tuttiSchedule_t schedule, int buffers, const char** complaint);

/** Start from TUTTI_SIMULATION_INITIALIZER.  Times are in any one unit. */
typedef struct {
  size_t size;
  double forward, backwardInput, backwardWeight; /* of one stage and micro-batch; Backward takes both */
  double message;                                /* from the end of a computation to where it can be used */
  double total;                                  /* results: until the last rank is done */
  double ideal;                                  /* the most that any rank computes */
  double bubbleOverTotal;                        /* (total - ideal) / total */
  double bubbleOverIdeal;                        /* (total - ideal) / ideal, the form of (p - 1) / m */
  int peakInFlight; /* micro-batches of which some rank holds activations at once, counted per stage */
  double span;      /* the longest from a rank's first computation to the end of its last.  Steps that follow each other
                       take no longer each, if no rank waits for all others between them (Qi et al., 2024, section 4) */
} tuttiSimulation_t;

#define TUTTI_SIMULATION_INITIALIZER \
  { sizeof(tuttiSimulation_t), 1, 1, 1, 0, 0, 0, 0, 0, 0, 0 }

/** Simulate one step.  The inputs of `simulation` are read, the results written. */
TUTTI_API tuttiResult_t tuttiScheduleSimulate(tuttiSchedule_t schedule, tuttiSimulation_t* simulation);
/** The most micro-batches, counted per stage, of which a rank holds activations at once: from a forward to the end of
 *  its backward, or BackwardWeight. */
TUTTI_API tuttiResult_t tuttiScheduleInFlight(tuttiSchedule_t schedule, int rank, int* most);

/** Cut layers into contiguous stages so that the costliest stage costs least.  costs [layers], cuts [stages + 1]. */
TUTTI_API tuttiResult_t tuttiBalanceStages(const double* costs, int layers, int stages, int64_t* cuts);

/* ---- Running --------------------------------------------------------------------------------------------------- */

/* A user's stages; each returns tuttiSuccess or what the step then fails with. */
typedef struct {
  size_t size; /* sizeof(tuttiStages_t) of the caller's header */
  void* context;
  /* in is NULL for stage 0, out for the last; both hold `count` elements and live for the call */
  tuttiResult_t (*forward)(void* context, int stage, int micro, const void* in, void* out);
  /* dout is NULL for the last stage, din for stage 0; weights = 0: BackwardWeight will come */
  tuttiResult_t (*backward)(void* context, int stage, int micro, const void* dout, void* din, int weights);
  tuttiResult_t (*backwardWeight)(void* context, int stage, int micro);
  int64_t device; /* tuttiDevice_t: whose memory in, out, dout and din are.  TUTTI_DEVICE_AUTO (default): that of the
                     communicator's rank, the host without one */
} tuttiStages_t;

#define TUTTI_STAGES_INITIALIZER \
  { sizeof(tuttiStages_t), NULL, NULL, NULL, NULL, TUTTI_DEVICE_AUTO }

typedef struct tuttiPipeline* tuttiPipeline_t;

/** Collective over comm, whose rank r has the schedule's row r.  Makes communicators of the pairs that exchange
 *  messages; sends go out from threads of the handle, so that no order of messages can deadlock.
 *  schedule  the same on all ranks; validated here.  Not needed afterwards
 *  count     elements between two stages, of `dtype`, the same everywhere
 *
 *  On CUDA those threads have streams of their own, and stages enqueue on the caller's stream.  A step waits until
 *  other ranks have enqueued theirs, not for the device. */
TUTTI_API tuttiResult_t tuttiPipelineCreate(tuttiPipeline_t* pipeline, tuttiComm_t comm, tuttiSchedule_t schedule,
                                            size_t count, tuttiDataType_t dtype, const tuttiStages_t* stages);
/** Collective, unless a step has failed. */
TUTTI_API tuttiResult_t tuttiPipelineDestroy(tuttiPipeline_t pipeline);
/** Run all micro-batches, forward and backward.  Collective.  An error of a stage fails the step on all ranks. */
TUTTI_API tuttiResult_t tuttiPipelineStep(tuttiPipeline_t pipeline);
/** Messages since the handle was made, and of one step by the formula (either may be NULL). */
TUTTI_API tuttiResult_t tuttiPipelineTraffic(tuttiPipeline_t pipeline, tuttiTraffic_t* counted,
                                             tuttiTraffic_t* expected);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_PP_H_ */

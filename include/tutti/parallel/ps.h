/* A parameter server: some ranks hold the values, the others compute gradients (Li et al., "Scaling Distributed Machine
 * Learning with the Parameter Server", 2014).
 *
 *   every rank     tuttiPsCreate
 *   a server       tuttiPsServe, which returns when all workers have left
 *   a worker       per step: tuttiPsPull; forward; backward; tuttiPsPush of the step's gradients
 *   every rank     tuttiPsDestroy
 *
 * The last `servers` ranks are the servers.  The rows of each parameter are cut evenly over them, so that a worker
 * sends its gradients once and receives the values once per step, whatever the number of workers.
 *
 * With a CUDA communicator workers' parameters and gradients are in CUDA memory, and are copied through the host's when
 * the stream of tuttiParallelSetStream has done what it holds; servers hold and update values on the host. */
#ifndef TUTTI_PARALLEL_PS_H_
#define TUTTI_PARALLEL_PS_H_

#include "tutti/parallel/zero.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiPs* tuttiPs_t;

/* A flag of tuttiParameter_t: rows (of the first dimension) are pulled and pushed by number, and only rows that
 * somebody pushed in a step are updated in it. */
#define TUTTI_PARAMETER_SPARSE 4u

/* A worker may leave before the others; steps after that are averages over those that are left. */
#define TUTTI_PS_ASYNCHRONOUS (-1)

typedef struct {
  size_t size; /* sizeof(tuttiPsConfig_t) of the caller's header */
  int servers; /* how many of the last ranks; default 1 */
  /* 0 (default): a step's gradients are averaged over all workers along the tree of sums.h, and a pull waits for the
   *    step before it: the bits of layout-invariant data parallelism with one micro-batch per worker and step.
   * k > 0: each gradient is applied as it comes, weighted by 1 / workers; a pull waits until no worker is more than k
   *    steps behind (Ho et al., "Stale Synchronous Parallel", 2013).
   * TUTTI_PS_ASYNCHRONOUS: as it comes, and no pull waits */
  int staleness;
  int backup;    /* staleness 0: a step is made of the first workers - backup gradients, later ones are dropped (Chen et
                    al., "Revisiting Distributed Synchronous SGD", 2016).  Default 0 */
  int timeoutMs; /* how long a message may take to come; a worker computes between two.  0 (default): for ever, and
                    only the death of a peer ends a wait */
  tuttiOptimizer_t optimizer; /* the servers'; states lie there */
} tuttiPsConfig_t;

#define TUTTI_PS_CONFIG_INITIALIZER \
  { sizeof(tuttiPsConfig_t), 1, 0, 0, 0, TUTTI_OPTIMIZER_INITIALIZER }

/** Collective over comm, which is not used afterwards.  Values begin as rank 0's.
 *  parameters  [n] the same list on all ranks, of one dtype, contiguous; a worker's are where tuttiPsPull writes and
 *              must outlive the handle; a server's are only looked at for their shapes (data may be NULL)
 *  Errors      tuttiInvalidUsage: ranks hold different lists; tuttiInvalidArgument: no worker or no server is left */
TUTTI_API tuttiResult_t tuttiPsCreate(tuttiPs_t* ps, tuttiComm_t comm, const tuttiParameter_t* parameters, size_t n,
                                      const tuttiPsConfig_t* config);
/** Collective.  A worker that has not failed takes its leave of the servers here. */
TUTTI_API tuttiResult_t tuttiPsDestroy(tuttiPs_t ps);

/** Whether this rank is a server. */
TUTTI_API tuttiResult_t tuttiPsIsServer(tuttiPs_t ps, int* server);

/** On a server: answer workers until all have left.
 *  Errors  tuttiRemoteError: a worker died and the others cannot go on without it (staleness 0 without backup workers,
 *          or fewer than workers - backup are left); the other workers' calls fail with that sentence */
TUTTI_API tuttiResult_t tuttiPsServe(tuttiPs_t ps);

/** On a worker: write the values of all parameters except sparse ones into the parameters.  Waits as config.staleness
 *  says. */
TUTTI_API tuttiResult_t tuttiPsPull(tuttiPs_t ps);
/** On a worker, after tuttiPsPull of the step: write some rows of a sparse parameter into the parameter.
 *  rows  [n] rising */
TUTTI_API tuttiResult_t tuttiPsPullRows(tuttiPs_t ps, size_t parameter, const int64_t* rows, int64_t n);
/** On a worker, before tuttiPsPush of the step: send the gradient of some rows of a sparse parameter.
 *  rows      [n] rising;  gradient  [n, row] contiguous */
TUTTI_API tuttiResult_t tuttiPsPushRows(tuttiPs_t ps, size_t parameter, const int64_t* rows, int64_t n,
                                        const void* gradient);
/** On a worker: send the gradients of all other parameters.  This ends the worker's step.
 *  gradients  [n] of the parameters' shapes, contiguous; those of sparse parameters are not looked at */
TUTTI_API tuttiResult_t tuttiPsPush(tuttiPs_t ps, const tuttiTensor_t* gradients);

/* Start from TUTTI_PS_REPORT_INITIALIZER.  What a role does not have is 0. */
typedef struct {
  size_t size;
  int64_t steps;   /* worker: pushed; server: updates made */
  int64_t dropped; /* server: gradients that came too late (backup) */
  int64_t stalest; /* server: by how many steps the values of a pull were ahead of the slowest worker's, at most */
  tuttiTraffic_t traffic;  /* values and gradients sent and received, without headers of 32 bytes and rows' numbers */
  tuttiTraffic_t expected; /* of one step of this worker, sparse rows aside */
} tuttiPsReport_t;

#define TUTTI_PS_REPORT_INITIALIZER \
  { sizeof(tuttiPsReport_t), 0, 0, 0, TUTTI_TRAFFIC_INITIALIZER, TUTTI_TRAFFIC_INITIALIZER }

/** Local.  Set report->size; the other fields are written. */
TUTTI_API tuttiResult_t tuttiPsReport(tuttiPs_t ps, tuttiPsReport_t* report);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_PS_H_ */

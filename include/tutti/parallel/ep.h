/* Expert parallelism: tokens travel to the ranks that have their experts, and back (Lepikhin et al., "GShard", 2021).
 *
 *   per micro-batch:  tuttiEpRoute (ids of experts); tuttiEpDispatch; experts compute; tuttiEpCombine
 *   backward:         tuttiEpCombineBackward; experts' backward; tuttiEpDispatchBackward
 *
 *   memory  host or CUDA; on CUDA all tensors of Dispatch and Combine are device memory.  Route waits for the stream,
 *           because its results are on the host
 *   order   arriving rows are ordered by expert, then by the token's rank, then by its row, then by its choice */
#ifndef TUTTI_PARALLEL_EP_H_
#define TUTTI_PARALLEL_EP_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiEp* tuttiEp_t;

typedef struct {
  size_t size; /* sizeof(tuttiEpConfig_t) of the caller's header */
  int experts; /* of the whole group */
  int choices; /* experts of each token.  Default 1 */
  const int64_t*
      owners;       /* [nRanks + 1] rank r has experts [owners[r], owners[r + 1]), maybe none; NULL: even.  Copied */
  int64_t capacity; /* tokens that an expert takes from each rank at most, the first ones; 0: all (dropless) */
  int64_t device;   /* tuttiDevice_t.  TUTTI_DEVICE_AUTO (default): that of the communicator's rank, the host without
                       one */
} tuttiEpConfig_t;

#define TUTTI_EP_CONFIG_INITIALIZER \
  { sizeof(tuttiEpConfig_t), 0, 1, NULL, 0, TUTTI_DEVICE_AUTO }

/** comm NULL: one rank that has all experts. */
TUTTI_API tuttiResult_t tuttiEpCreate(tuttiEp_t* ep, tuttiComm_t comm, const tuttiEpConfig_t* config);
/** Local. */
TUTTI_API tuttiResult_t tuttiEpDestroy(tuttiEp_t ep);

/** Choose which tokens go where, in place of the last call's routes.  Ranks may have different numbers of tokens.
 *  ids        [tokens, choices] int32, an expert each; in host memory or memory of ep's device
 *  received   written: number of rows that come to this rank
 *  perExpert  [experts here] written: rows of each expert; NULL: not wanted */
TUTTI_API tuttiResult_t tuttiEpRoute(tuttiEp_t ep, const tuttiTensor_t* ids, int64_t* received, int64_t* perExpert);
/** How many rows of each expert here come from each rank, for example to keep gradients of each rank's tokens apart.
 *  rows  [experts here, nRanks], written */
TUTTI_API tuttiResult_t tuttiEpRowsFrom(tuttiEp_t ep, int64_t* rows);
/** How many of this rank's (token, choice) pairs exceeded the capacity and were dropped. */
TUTTI_API tuttiResult_t tuttiEpDropped(tuttiEp_t ep, int64_t* dropped);

/** x [tokens, width] to y [received, width], both contiguous, float32 or float64. */
TUTTI_API tuttiResult_t tuttiEpDispatch(tuttiEp_t ep, const tuttiTensor_t* x, const tuttiTensor_t* y);
/** dx = the sum over choices of what comes back of dy, in the order of choices. */
TUTTI_API tuttiResult_t tuttiEpDispatchBackward(tuttiEp_t ep, const tuttiTensor_t* dy, const tuttiTensor_t* dx);

/** out[t] = the sum over choices c of weights[t][c] * the row that comes back, in the order of choices; dropped ones
 *  add 0.
 *  y        [received, width], contiguous;  out  [tokens, width]
 *  weights  [tokens, choices], of y's dtype
 *  kept     [tokens * choices * width] elements, written: the rows that came back, for the backward pass */
TUTTI_API tuttiResult_t tuttiEpCombine(tuttiEp_t ep, const tuttiTensor_t* y, const tuttiTensor_t* weights,
                                       const tuttiTensor_t* out, void* kept);
/** dy and dweights are written.  dout [tokens, width]; weights and kept as in tuttiEpCombine. */
TUTTI_API tuttiResult_t tuttiEpCombineBackward(tuttiEp_t ep, const tuttiTensor_t* dout, const tuttiTensor_t* weights,
                                               const void* kept, const tuttiTensor_t* dy,
                                               const tuttiTensor_t* dweights);

/** The auxiliary loss that keeps experts evenly loaded, for the present routes (Fedus, Zoph and Shazeer, "Switch
 *  Transformers", JMLR 23, 2022, section 2.2): coefficient * experts * the sum over experts e of f_e P_e.  f_e is the
 *  share of (token, choice) pairs that ask for e, dropped ones too, and P_e the mean of probabilities[.][e].  An even
 *  load gives `coefficient`.  On CUDA it waits for probabilities.
 *  - probabilities   [tokens, experts] of the router, contiguous, float32 or float64
 *  - allRanks        0: this rank's tokens alone, the same in every layout.  1: tokens of all ranks; collective
 *  - loss            written
 *  - dprobabilities  NULL, or added to: the loss's gradient, with f_e as constants */
TUTTI_API tuttiResult_t tuttiEpBalanceLoss(tuttiEp_t ep, const tuttiTensor_t* probabilities, double coefficient,
                                           int allRanks, double* loss, const tuttiTensor_t* dprobabilities);

/** counted: all traffic of ep so far.  expected: traffic of one call with `width` columns and the present routes.
 *  back  0: Dispatch or CombineBackward.  1: Combine or DispatchBackward.  counted and expected may be NULL */
TUTTI_API tuttiResult_t tuttiEpTraffic(tuttiEp_t ep, int64_t width, tuttiDataType_t dtype, int back,
                                       tuttiTraffic_t* counted, tuttiTraffic_t* expected);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_EP_H_ */

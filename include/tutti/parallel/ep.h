/* Expert parallelism: tokens travel to the ranks that have their experts, and back (Lepikhin et al., "GShard", 2021).
 *
 *   per micro-batch:  tuttiEpRoute (ids of experts); tuttiEpDispatch; experts compute; tuttiEpCombine
 *   backward:         tuttiEpCombineBackward; experts' backward; tuttiEpDispatchBackward
 *
 * On the host or CUDA: all that Dispatch and Combine take is the device's memory there.  Route waits for the stream,
 * since its numbers are the host's.
 *
 * What arrives is in an order that depends on the tokens only: by expert, then by the rank the token is of, then by its
 * row, then by its choice. */
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
TUTTI_API tuttiResult_t tuttiEpDestroy(tuttiEp_t ep);

/** Which tokens go where; ranks may have different numbers of tokens, also none.  Replaces the routes of the last call.
 *  ids       [tokens, choices] int32, an expert each; in the host's memory or ep's device's
 *  received  how many rows come to this rank
 *  perExpert [experts here] how many rows of them are each expert's; NULL: not wanted */
TUTTI_API tuttiResult_t tuttiEpRoute(tuttiEp_t ep, const tuttiTensor_t* ids, int64_t* received, int64_t* perExpert);
/** Of the rows that come to this rank, how many come from where: rows [experts here, nRanks], for example to keep the
 *  gradients of each rank's tokens apart. */
TUTTI_API tuttiResult_t tuttiEpRowsFrom(tuttiEp_t ep, int64_t* rows);
/** How many of this rank's (token, choice) pairs were dropped for want of capacity. */
TUTTI_API tuttiResult_t tuttiEpDropped(tuttiEp_t ep, int64_t* dropped);

/** x [tokens, width] to y [received, width], both contiguous, float32 or float64. */
TUTTI_API tuttiResult_t tuttiEpDispatch(tuttiEp_t ep, const tuttiTensor_t* x, const tuttiTensor_t* y);
/** dx = the sum over choices of what comes back of dy, in the order of choices. */
TUTTI_API tuttiResult_t tuttiEpDispatchBackward(tuttiEp_t ep, const tuttiTensor_t* dy, const tuttiTensor_t* dx);

/** out[t] = the sum over choices c of weights[t][c] * what comes back of y, in the order of choices; dropped ones add
 * 0. weights  [tokens, choices], of y's dtype kept     [tokens * choices * width] elements: what came back, for the
 * backward pass */
TUTTI_API tuttiResult_t tuttiEpCombine(tuttiEp_t ep, const tuttiTensor_t* y, const tuttiTensor_t* weights,
                                       const tuttiTensor_t* out, void* kept);
TUTTI_API tuttiResult_t tuttiEpCombineBackward(tuttiEp_t ep, const tuttiTensor_t* dout, const tuttiTensor_t* weights,
                                               const void* kept, const tuttiTensor_t* dy,
                                               const tuttiTensor_t* dweights);

/** The loss that keeps experts evenly loaded, of the present routes (Fedus, Zoph and Shazeer, "Switch Transformers",
 * JMLR 23, 2022, section 2.2): coefficient * experts * the sum over experts e of f_e P_e, with f_e the share of (token,
 * choice) pairs that ask for e, dropped ones too, and P_e the mean of probabilities[.][e].  It is `coefficient` where
 * both are even. Waits for probabilities on CUDA.
 *
 *  - probabilities   [tokens, experts] of the router, contiguous, float32 or float64
 *  - allRanks        0: of this rank's tokens alone, so that no layout changes it; 1: of those of all ranks together,
 * which all call it
 *  - loss            written
 *  - dprobabilities  NULL, or added to: the loss's gradient, f_e taken as constants */
TUTTI_API tuttiResult_t tuttiEpBalanceLoss(tuttiEp_t ep, const tuttiTensor_t* probabilities, double coefficient,
                                           int allRanks, double* loss, const tuttiTensor_t* dprobabilities);

/** All that went through ep, and what the present routes cause for `width` columns in one Dispatch or Combine, forward
 * or backward (each the same from the other side: `back` = 0 for Dispatch and CombineBackward, 1 for the other two).
 *  Either may be NULL. */
TUTTI_API tuttiResult_t tuttiEpTraffic(tuttiEp_t ep, int64_t width, tuttiDataType_t dtype, int back,
                                       tuttiTraffic_t* counted, tuttiTraffic_t* expected);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_EP_H_ */

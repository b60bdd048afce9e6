/* Sums whose bits do not depend on where their operands lie.
 *
 * A sum is cut into a fixed number of leaves, which are added along one binary tree: of n leaves the left child has the
 * largest power of two below n.  A rank holds a contiguous run of leaves.  It adds subtrees that lie wholly in its run
 * and sends the results to the rank that owns that slice of the vector, which completes the sum in the tree's order.
 * If runs are subtrees (powers of two, evenly split), the bytes on the wire are those of an all-reduce. */
#ifndef TUTTI_PARALLEL_SUMS_H_
#define TUTTI_PARALLEL_SUMS_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** out[i] = the tree's sum of leaf l's element i over all leaves; the same bits for every leafCuts and rank count.
 *  leaves    [leafCuts[rank + 1] - leafCuts[rank]][count] of dtype (float32 or float64); not written
 *  leafCuts  [nRanks + 1], from 0 to the number of leaves (at least 1), not falling; the same on every rank
 *  out       [count]; does not overlap leaves
 *  comm      NULL: this rank is the only one */
TUTTI_API tuttiResult_t tuttiTreeAllReduce(const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                                           const int64_t* leafCuts, tuttiComm_t comm);

/** As tuttiTreeAllReduce, and adds what this rank moved to *traffic. */
TUTTI_API tuttiResult_t tuttiTreeAllReduceCounted(const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                                                  const int64_t* leafCuts, tuttiComm_t comm, tuttiTraffic_t* traffic);

/** As tuttiTreeAllReduceCounted, on the host or CUDA.
 *  leaves   [leaves of this rank, count] and out [count], contiguous
 *  traffic  NULL: not wanted */
TUTTI_API tuttiResult_t tuttiTreeAllReduceTensors(const tuttiTensor_t* leaves, const tuttiTensor_t* out,
                                                  const int64_t* leafCuts, tuttiComm_t comm, tuttiTraffic_t* traffic);

/** As tuttiTreeAllReduce, but this rank keeps elements [sliceCuts[rank], sliceCuts[rank + 1]) only.
 *  sliceCuts  [nRanks + 1], from 0 to count
 *  out        [sliceCuts[rank + 1] - sliceCuts[rank]] */
TUTTI_API tuttiResult_t tuttiTreeReduceScatter(const void* leaves, void* out, tuttiDataType_t dtype,
                                               const int64_t* leafCuts, const int64_t* sliceCuts, tuttiComm_t comm);

/** The sum of squares of tensors that are spread over ranks, rounded once: the same bits for every distribution.
 *  Squares count in units of 2^-80, so sums are exact integers.  On CUDA it waits for the sum.
 *  tensors  [n], contiguous; each element of the whole is passed by exactly one rank of comm
 *  comm     NULL: this rank is the only one
 *  sum      infinite or NaN if an element is, or if a square reaches 2^40 */
TUTTI_API tuttiResult_t tuttiSumOfSquares(const tuttiTensor_t* tensors, size_t n, tuttiComm_t comm, double* sum);

/** A hash of a tensor's bits that can be added up over its pieces, modulo 2^64, in any order.
 *  key    names the whole tensor; first  is the position in it of t's element 0.  t is contiguous, of any dtype.
 *  On CUDA it waits for the hash. */
TUTTI_API tuttiResult_t tuttiTensorHash(const tuttiTensor_t* t, uint64_t key, int64_t first, uint64_t* hash);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_SUMS_H_ */

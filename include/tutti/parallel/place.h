/* Memory for tensors where a rank computes, and what moves values to and from it: for programs that have no other
 * source of device memory. */
#ifndef TUTTI_PARALLEL_PLACE_H_
#define TUTTI_PARALLEL_PLACE_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiPlace* tuttiPlace_t;

/** device  TUTTI_DEVICE_HOST, or TUTTI_DEVICE_CUDA: the device that is current on this thread, 0 where none is.  A
 * place is used by one thread at a time */
TUTTI_API tuttiResult_t tuttiPlaceCreate(tuttiPlace_t* place, int device);
/** All of its memory goes, and its stream; waits for them.  NULL is allowed. */
TUTTI_API tuttiResult_t tuttiPlaceDestroy(tuttiPlace_t place);
/** A stream of the place's own, for tuttiParallelSetStream and the calls of tutti.h; NULL on the host.  Ranks that are
 *  threads and share a device need one each: in one stream each would wait for the other. */
TUTTI_API tuttiResult_t tuttiPlaceStream(tuttiPlace_t place, tuttiStream_t* stream);

/** Zeroed, in the order of the thread's stream.  0 bytes: NULL. */
TUTTI_API tuttiResult_t tuttiPlaceAlloc(tuttiPlace_t place, size_t bytes, void** data);
/** The memory goes to who asks next; what the thread's stream has to do with it is done first.  NULL is allowed. */
TUTTI_API tuttiResult_t tuttiPlaceFree(tuttiPlace_t place, void* data);

/** to = from: vectors or matrices of one shape and dtype.  Both in the place's memory, with any strides between rows of
 *  float32 or float64, else contiguous; or one in the host's, contiguous: then it waits. */
TUTTI_API tuttiResult_t tuttiPlaceCopy(tuttiPlace_t place, const tuttiTensor_t* from, const tuttiTensor_t* to);
/** to += from: matrices or vectors of one shape in the place's memory, float32 or float64. */
TUTTI_API tuttiResult_t tuttiPlaceAdd(tuttiPlace_t place, const tuttiTensor_t* from, const tuttiTensor_t* to);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_PLACE_H_ */

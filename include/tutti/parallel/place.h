/* Memory for tensors on a rank's device, and copies to and from it, for programs without another source of device
 * memory. */
#ifndef TUTTI_PARALLEL_PLACE_H_
#define TUTTI_PARALLEL_PLACE_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiPlace* tuttiPlace_t;

/** device  TUTTI_DEVICE_HOST, or TUTTI_DEVICE_CUDA: this thread's current device, 0 without one */
TUTTI_API tuttiResult_t tuttiPlaceCreate(tuttiPlace_t* place, int device);
/** Wait for the place's stream, then free it and all memory of the place. */
TUTTI_API tuttiResult_t tuttiPlaceDestroy(tuttiPlace_t place);
/** The place's own stream, for tuttiParallelSetStream and the calls of tutti.h; NULL on the host.  Owned by the place.
 *  Ranks that are threads and share a device need one each: in one stream each would wait for the other. */
TUTTI_API tuttiResult_t tuttiPlaceStream(tuttiPlace_t place, tuttiStream_t* stream);

/** Zeroed memory, in the order of the thread's stream.  Owned by the place; 0 bytes: NULL. */
TUTTI_API tuttiResult_t tuttiPlaceAlloc(tuttiPlace_t place, size_t bytes, void** data);
/** Give memory back for later tuttiPlaceAlloc calls, after the work on the thread's stream.  NULL is allowed. */
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

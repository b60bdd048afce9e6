/* Streams of the host, and events on them.  Part of tutti.h, which includes it.
 *
 * They serve host communicators as CUDA's streams and events serve devices.
 *   threads  any number of threads may use a stream or an event at once
 *   errors   tuttiInvalidArgument: any other handle, a cudaStream_t too (use cudaEventRecord and cudaStreamWaitEvent),
 *            or NULL (a call without a stream has completed when it returns) */
#ifndef TUTTI_STREAMS_H_
#define TUTTI_STREAMS_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Streams ------------------------------------------------------------------------------------------------- */

/** A queue with a thread of its own; operations on it run in the order of their calls. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/** Wait for enqueued operations, then free.  Events that were recorded on the stream stay valid. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);
/** Wait for enqueued operations.  Returns the first error of an operation since the last call. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/** tuttiSuccess when idle, tuttiInProgress when not, or the first error as above. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);

/* ---- Events -------------------------------------------------------------------------------------------------- */

/* A mark between the operations of a stream. */
typedef struct tuttiEvent* tuttiEvent_t;

/** A new event.  It is complete, because nothing was recorded.  Owned by the caller; free it with tuttiEventDestroy. */
TUTTI_API tuttiResult_t tuttiEventCreate(tuttiEvent_t* event);
/** Free an event.  Does not wait; waits for it that have begun go on. */
TUTTI_API tuttiResult_t tuttiEventDestroy(tuttiEvent_t event);
/** Make the event stand for the operations that are enqueued on the stream now, instead of those recorded before.
 *  Waits that have begun or are enqueued keep the old ones.  Calls of an open group are enqueued by tuttiGroupEnd and
 *  do not count yet. */
TUTTI_API tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream);
/** tuttiSuccess if all recorded operations are done, tuttiInProgress if not, or the error of tuttiEventSynchronize. */
TUTTI_API tuttiResult_t tuttiEventQuery(tuttiEvent_t event);
/** Wait for the recorded operations.  An abort of their communicators ends the wait.
 *  Errors   the first error of a recorded operation, every time, unless tuttiStreamSynchronize or tuttiStreamQuery had
 *           returned it before the record.  The stream returns it too */
TUTTI_API tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event);
/** Make operations that are enqueued on the stream from now on wait for the event, of any stream and communicator.  The
 *  caller does not wait.  An error of a recorded operation becomes an error of this stream, which goes on. */
TUTTI_API tuttiResult_t tuttiStreamWaitEvent(tuttiStream_t stream, tuttiEvent_t event);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_STREAMS_H_ */

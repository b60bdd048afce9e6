/* Streams of the host, and events on them.  Part of tutti.h, which includes it.
 *
 * They are what CUDA's are to devices, and those of a host communicator only: a handle of anything else, a cudaStream_t
 * too, is refused with tuttiInvalidArgument (on CUDA streams: cudaEventRecord, cudaStreamWaitEvent), and so is NULL,
 * as a call without a stream has completed when it returns.  Any number of threads may use a stream or an event at
 * once. */
#ifndef TUTTI_STREAMS_H_
#define TUTTI_STREAMS_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Streams ------------------------------------------------------------------------------------------------- */

/** A queue with a thread of its own; operations on it run in the order of their calls. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/** Waits for what is enqueued, then frees.  Events that were recorded on the stream stay as good as before. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);
/** Wait for what is enqueued; returns the first error of an operation since the last call. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/** tuttiSuccess when idle, tuttiInProgress when not, or the first error as above. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);

/* ---- Events -------------------------------------------------------------------------------------------------- */

/* A mark between the operations of a stream. */
typedef struct tuttiEvent* tuttiEvent_t;

/** An event that is complete, as nothing has been recorded. */
TUTTI_API tuttiResult_t tuttiEventCreate(tuttiEvent_t* event);
/** Does not wait: waits for what was recorded go on as if it were still there. */
TUTTI_API tuttiResult_t tuttiEventDestroy(tuttiEvent_t event);
/** Capture what is enqueued on the stream by now, instead of what the event captured before; waits that have begun or
 *  are enqueued go on for that.  Calls that an open group has collected are enqueued by tuttiGroupEnd, so not before.
 */
TUTTI_API tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream);
/** tuttiSuccess when all that was captured is done, tuttiInProgress when not, or the error that tuttiEventSynchronize
 *  returns. */
TUTTI_API tuttiResult_t tuttiEventQuery(tuttiEvent_t event);
/** Wait for what was captured.  Ends as soon as that ends, which an abort of its communicators brings about, too.
 *  Returns the first error of an operation captured that the stream had not told by tuttiStreamSynchronize or
 *  tuttiStreamQuery before the record; each time that it is asked, and the stream still tells it on its own. */
TUTTI_API tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event);
/** What is enqueued on the stream from now on waits for what the event has captured, of whatever stream and
 *  communicator.  The caller does not wait.  An error of what was captured becomes one of this stream, which goes on.
 */
TUTTI_API tuttiResult_t tuttiStreamWaitEvent(tuttiStream_t stream, tuttiEvent_t event);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_STREAMS_H_ */

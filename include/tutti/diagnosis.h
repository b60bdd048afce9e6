/* What ranks have been doing, for those who look for the one that hangs, and the word of a launcher that one has ended.
 * Part of tutti.h, which includes it. */
#ifndef TUTTI_DIAGNOSIS_H_
#define TUTTI_DIAGNOSIS_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Write the flight record of comm here: its last calls with their times, those under way, and whom it waits for.  All
 *  ranks' files together tell tutti-trace who is behind.  Local: waits for nobody, nor for calls of other threads; a
 *  communicator that has failed has its record, too, until it is destroyed.
 *  path     a file; a folder, for "tutti-COMMUNICATOR-rankRANK.dump" in it; NULL: where TUTTI_DUMP says
 *  Errors   tuttiSystemError: the file cannot be written */
TUTTI_API tuttiResult_t tuttiCommDump(tuttiComm_t comm, const char* path);

/** For launchers that serve the rendezvous of the ranks they start: the process of this rank has ended.  If it has not
 *  met the others they fail at once, with its number and `how`; else nothing happens.  Not before the last process that
 *  could come as this rank is gone.
 *  uniqueId  of tuttiGetUniqueId, in this process
 *  how       completes "rank 3 ...": "ended with status 0"
 *  Errors    tuttiInvalidArgument */
TUTTI_API tuttiResult_t tuttiRankEnded(tuttiUniqueId uniqueId, int rank, const char* how);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_DIAGNOSIS_H_ */

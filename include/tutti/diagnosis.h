/* Flight records, which show the rank that hangs, and a launcher's report that a rank has ended.
 * Part of tutti.h, which includes it. */
#ifndef TUTTI_DIAGNOSIS_H_
#define TUTTI_DIAGNOSIS_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Write the flight record of comm on this rank: its last calls with their times, calls under way, and the rank for
 *  which it waits.  tutti-trace reads the files of all ranks.  Local: it waits for nobody, not even for calls of other
 *  threads.  A communicator that has failed keeps its record until it is destroyed.
 *  path     a file; a folder, for "tutti-COMMUNICATOR-rankRANK.dump" in it; NULL: where TUTTI_DUMP says
 *  Errors   tuttiSystemError: the file cannot be written */
TUTTI_API tuttiResult_t tuttiCommDump(tuttiComm_t comm, const char* path);

/** For launchers that serve the rendezvous of the ranks they start: report that the process of this rank has ended.  If
 *  it has not met the others, they fail at once with its number and `how`; else nothing happens.  Call it only when no
 *  process is left that could join as this rank.
 *  uniqueId  of tuttiGetUniqueId, in this process
 *  how       completes "rank 3 ...": "ended with status 0"
 *  Errors    tuttiInvalidArgument */
TUTTI_API tuttiResult_t tuttiRankEnded(tuttiUniqueId uniqueId, int rank, const char* how);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_DIAGNOSIS_H_ */

/* What ranks have been doing, for those who look for the one that hangs.  Part of tutti.h, which includes it. */
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

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_DIAGNOSIS_H_ */

/* Training that goes on when ranks come, go, slow down or die.
 *
 *   pieces  describe what a rank holds of whole tensors.  They move to another division without a file (tuttiReshard),
 *           by a file (tuttiCheckpointSave, tuttiCheckpointLoad), or from a neighbour's memory (tuttiMirrorRestore).
 *           Divisions and rank counts may differ
 *   memory  data of pieces is in memory of the communicator's device, the host or CUDA.  CUDA memory is read after the
 *           work on the stream of tuttiParallelSetStream, and copied through as much host memory.  Calls wait.  Files
 *           load on either device */
#ifndef TUTTI_PARALLEL_FT_H_
#define TUTTI_PARALLEL_FT_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements [begin, end), row-major, of the box of rows [row0, row1) and columns [column0, column1) of a whole matrix;
 * a vector has one row.  The box is what tensor parallelism leaves of it, [begin, end) what ZeRO leaves of the box. */
typedef struct {
  const char* name;      /* of the whole tensor: tensors of one name are one tensor */
  tuttiDataType_t dtype; /* any */
  int64_t rows, columns; /* of the whole; the same in all its pieces */
  int64_t row0, row1, column0, column1;
  int64_t begin, end;
  void* data; /* [end - begin], contiguous */
} tuttiPiece_t;

/** The piece that is all of a tensor. */
static inline tuttiPiece_t tuttiPieceOf(const char* name, tuttiDataType_t dtype, int64_t rows, int64_t columns,
                                        void* data) {
  tuttiPiece_t p;
  p.name = name;
  p.dtype = dtype;
  p.rows = rows;
  p.columns = columns;
  p.row0 = p.column0 = p.begin = 0;
  p.row1 = rows;
  p.column1 = columns;
  p.end = rows * columns;
  p.data = data;
  return p;
}

/** Fill the pieces that ranks want from the pieces that ranks have.  Collective: one all-to-all of elements that are
 *  elsewhere.  An element that several ranks have comes from one of them, from this rank if it has it.
 *  have, want  [nHave], [nWant]; data of want does not overlap data of have.  To leave, want nothing and then shrink
 *              the communicator; to join, have nothing
 *  moved       bytes that this rank sent to others; may be NULL
 *  Errors      tuttiInvalidUsage on all ranks: nobody has an element that is wanted (the sentence names the tensor of
 *              the rank that lacks it), or pieces of one name differ in dtype or shape */
TUTTI_API tuttiResult_t tuttiReshard(tuttiComm_t comm, const tuttiPiece_t* have, size_t nHave, const tuttiPiece_t* want,
                                     size_t nWant, uint64_t* moved);

/* ---- Checkpoints ----------------------------------------------------------------------------------------------- */

/** Each rank writes its pieces to a file of its own in folder/step-N.  The step counts as saved when all have.
 *  Collective.  folder is created if it is missing; several hosts need a folder that all of them see.
 *  Errors  tuttiSystemError on all ranks: one could not write; the sentence names it */
TUTTI_API tuttiResult_t tuttiCheckpointSave(tuttiComm_t comm, const char* folder, int64_t step,
                                            const tuttiPiece_t* pieces, size_t n);
/** Fill pieces from a saved step, at any layout and rank count.  Collective.  Data is verified by its hash.
 *  step  which, or -1: the newest that is complete; becomes the one that was loaded
 *  Errors  tuttiSystemError: no such step, or a file cannot be read or is not as it was written; tuttiInvalidUsage: it
 *          lacks an element.  On all ranks */
TUTTI_API tuttiResult_t tuttiCheckpointLoad(tuttiComm_t comm, const char* folder, int64_t* step,
                                            const tuttiPiece_t* pieces, size_t n);

/* ---- Replicas -------------------------------------------------------------------------------------------------- */

/** Collective over ranks that should hold the same bits: compares a hash of each piece.
 *  Errors  tuttiInvalidUsage on all ranks: some differ; the sentence names the tensor and the ranks that are not of the
 *          majority */
TUTTI_API tuttiResult_t tuttiReplicaCheck(tuttiComm_t comm, const tuttiPiece_t* pieces, size_t n);

/* ---- Mirrors: each rank keeps a copy of its neighbour's pieces ------------------------------------------------- */

typedef struct tuttiMirror* tuttiMirror_t;

/** Collective.  Holds two generations of this rank's and of the rank before it's pieces: four times their bytes.
 *  pieces  [n] as they are divided now; data is read by tuttiMirrorUpdate.  comm is used by it only */
TUTTI_API tuttiResult_t tuttiMirrorCreate(tuttiMirror_t* mirror, tuttiComm_t comm, const tuttiPiece_t* pieces,
                                          size_t n);
/** Local.  comm need not be alive. */
TUTTI_API tuttiResult_t tuttiMirrorDestroy(tuttiMirror_t mirror);
/** Collective, between steps: this rank's pieces go to the next rank.  After an error the generation before is whole.
 */
TUTTI_API tuttiResult_t tuttiMirrorUpdate(tuttiMirror_t mirror, int64_t step);
/** Collective over `comm`, a communicator of survivors (tuttiCommShrink): fills pieces from the newest step that all of
 *  them have, the lost rank's from its neighbour.
 *  step    the step that the pieces are of
 *  Errors  tuttiInvalidUsage: an element is lost (two neighbours died), or there was no update */
TUTTI_API tuttiResult_t tuttiMirrorRestore(tuttiMirror_t mirror, tuttiComm_t comm, const tuttiPiece_t* pieces, size_t n,
                                           int64_t* step);

/* ---- Stragglers ------------------------------------------------------------------------------------------------ */

typedef struct tuttiPace* tuttiPace_t;

typedef struct {
  size_t size;
  int window;   /* number of last steps, whose median counts.  Default 20 */
  double ratio; /* a rank that takes that many times the median rank's time is a straggler.  Default 1.3 */
} tuttiPaceConfig_t;

#define TUTTI_PACE_CONFIG_INITIALIZER \
  { sizeof(tuttiPaceConfig_t), 20, 1.3 }

/** Local.  comm: borrowed, used by tuttiPaceShares.  config may be NULL. */
TUTTI_API tuttiResult_t tuttiPaceCreate(tuttiPace_t* pace, tuttiComm_t comm, const tuttiPaceConfig_t* config);
/** Local. */
TUTTI_API tuttiResult_t tuttiPaceDestroy(tuttiPace_t pace);
/** Local: this rank computed `share` units (micro-batches, layers) in a step, in `milliseconds` without waiting. */
TUTTI_API tuttiResult_t tuttiPaceStep(tuttiPace_t pace, double milliseconds, double share);
/** Shares of `total` units: in proportion to the ranks' speeds if there is a straggler, else even.  Collective.
 *  cuts     [nRanks + 1] for tuttiDdpShare, or as cuts of layers or tokens
 *  slowest  the slowest rank;  ratio  its time per unit over the median rank's.  Either may be NULL
 *  Errors   tuttiInvalidUsage: a rank has no steps yet */
TUTTI_API tuttiResult_t tuttiPaceShares(tuttiPace_t pace, int64_t total, int64_t* cuts, int* slowest, double* ratio);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_FT_H_ */

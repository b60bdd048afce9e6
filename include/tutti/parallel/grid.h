/* Ranks in a grid with named axes. */
#ifndef TUTTI_PARALLEL_GRID_H_
#define TUTTI_PARALLEL_GRID_H_

#include "tutti/parallel/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiGrid* tuttiGrid_t;

typedef struct {
  size_t size;           /* sizeof(tuttiGridConfig_t) of the caller's header */
  const int* nodeOfRank; /* [nRanks] which node each rank lies on; NULL: ask the hosts when tuttiGridCheck is called */
} tuttiGridConfig_t;

#define TUTTI_GRID_CONFIG_INITIALIZER \
  { sizeof(tuttiGridConfig_t), NULL }

/** Arrange the ranks of `world` along axes.  Local: makes no communicator.
 *  axes    "tp=2,cp=1,pp=4,dp=0": the first is innermost (neighbouring ranks, the fastest links).  Names are letters,
 *          digits and _; a size of 0, at most once, takes what the others leave.  Their product is the size of world.
 *          Llama 3.1's order is tp, cp, pp, dp
 *  config  may be NULL
 *  Errors  tuttiInvalidArgument: the product does not fit, an axis comes twice, or a name is none */
TUTTI_API tuttiResult_t tuttiGridCreate(tuttiGrid_t* grid, tuttiComm_t world, const char* axes,
                                        const tuttiGridConfig_t* config);

/** Destroys the groups that were made.  Collective.  NULL is allowed. */
TUTTI_API tuttiResult_t tuttiGridDestroy(tuttiGrid_t grid);

/** A second arrangement of the same ranks, for example with an axis "ep" for experts where the first has "dp" and "cp".
 *  Axes of the same name that have to be the same groups are listed in `shared` ("tp-pp"; NULL: none).
 *  The view is a grid of its own; grid must outlive it.
 *  Errors  tuttiInvalidArgument: as tuttiGridCreate, or a shared axis whose groups differ (the sentence names a rank)
 */
TUTTI_API tuttiResult_t tuttiGridView(tuttiGrid_t* view, tuttiGrid_t grid, const char* axes, const char* shared);

/** The size of an axis, or the product for several ("dp-cp").  An axis that the grid lacks is an error. */
TUTTI_API tuttiResult_t tuttiGridSize(tuttiGrid_t grid, const char* axes, int* size);
/** A rank's place along an axis, or in the group of several; rank -1 is the caller's. */
TUTTI_API tuttiResult_t tuttiGridCoordinate(tuttiGrid_t grid, const char* axes, int rank, int* coordinate);
/** The world rank at a place: "tp=1,dp=0"; axes that are not named are the caller's. */
TUTTI_API tuttiResult_t tuttiGridRankAt(tuttiGrid_t grid, const char* place, int* rank);
/** World ranks of the group along axes in which `rank` (-1: the caller) is, in the group's order.
 *  ranks  room for `capacity` entries; *count is how many there are */
TUTTI_API tuttiResult_t tuttiGridMembers(tuttiGrid_t grid, const char* axes, int rank, int* ranks, int capacity,
                                         int* count);

/** The communicator of the caller's group along axes ("tp", or fused "dp-cp").  Made on first use, by all ranks of
 *  world together; the same one on later calls.  Ranks in it are ordered as in world.  Owned by the grid. */
TUTTI_API tuttiResult_t tuttiGridGroup(tuttiGrid_t grid, const char* axes, tuttiComm_t* comm);

/** Whether axes lie on links as their order says: an axis may leave a node only if all axes outside it do.
 *  report  a text of one line per finding, "" when there is none; valid until the next call on this grid.
 *  Collective over world unless config.nodeOfRank was given. */
TUTTI_API tuttiResult_t tuttiGridCheck(tuttiGrid_t grid, const char** report);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_PARALLEL_GRID_H_ */

/* The smallest Tutti program: every rank contributes its number plus one, and all learn the sum.
 *   tutti-run -n 4 ./allreduce        (or mpirun, srun, torchrun; alone it is one rank of one) */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  tuttiComm_t comm;
  if (tuttiCommInitEnv(&comm, NULL) != tuttiSuccess) return fprintf(stderr, "%s\n", tuttiGetLastError(NULL)), 1;
  int rank = 0, nRanks = 0;
  tuttiCommUserRank(comm, &rank);
  tuttiCommCount(comm, &nRanks);
  float mine = (float)(rank + 1), sum = 0;
  if (tuttiAllReduce(&mine, &sum, 1, tuttiFloat32, tuttiSum, comm, NULL) != tuttiSuccess)
    return fprintf(stderr, "%s\n", tuttiGetLastError(comm)), 1;
  printf("rank %d of %d: sum %g\n", rank, nRanks, sum);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

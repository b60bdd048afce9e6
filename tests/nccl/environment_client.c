/* Two processes, one sum.  With NCCL_COMM_ID each makes the id itself, and they never talk before they meet. */
#include "tests/nccl/client.h"

enum { kProcesses = 2, kCount = 50000 };

/* With NCCL_COMM_BLOCKING=0 calls are under way when they return. */
static void settle(ncclResult_t result, ncclComm_t comm) {
  while (result == ncclInProgress) {
    usleep(1000);
    NCCL(ncclCommGetAsyncError(comm, &result));
  }
  NCCL(result);
}

static void body(int rank, void* pipes) {
  static float data[kCount];
  ncclUniqueId id;
  ncclComm_t comm;
  if (getenv("NCCL_COMM_ID") != NULL) {
    NCCL(ncclGetUniqueId(&id));
  } else {
    id = shareId(rank, kProcesses, pipes);
  }
  const ncclResult_t joined = ncclCommInitRank(&comm, kProcesses, id, rank);
  settle(joined, comm);
  for (int i = 0; i < kCount; ++i) data[i] = (float)(rank + i);
  settle(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, NULL), comm);
  for (int i = 0; i < kCount; ++i) CHECK(data[i] == (float)(1 + 2 * i));
  NCCL(ncclCommDestroy(comm));
}

int main(void) {
  int pipes[kProcesses][2];
  for (int p = 0; p < kProcesses; ++p) CHECK(pipe(pipes[p]) == 0);
  return onProcesses(kProcesses, body, pipes);
}

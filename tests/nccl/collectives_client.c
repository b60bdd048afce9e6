/* A program written to NCCL: every function that moves data, on host memory (TUTTI_DEVICE=host).
 *   collectives_client PROCESSES RANKS_EACH
 * Ranks of one process belong to one thread, which makes every call for all of them in a group. */
#include "tests/nccl/client.h"

enum { kMostRanks = 8, kBlock = 1003 };

typedef struct {
  int n, mine, first;
  ncclComm_t comm[kMostRanks];
  float *in[kMostRanks], *out[kMostRanks]; /* [n * kBlock] */
  void* registered[kMostRanks];
} World;

static int inputOf(int rank, int i) { return (rank + 1) * (i % 5 + 1); }
static int sumOfRanks(int n) { return n * (n + 1) / 2; }

static void fillInputs(World* w) {
  for (int r = 0; r < w->mine; ++r) {
    for (int i = 0; i < w->n * kBlock; ++i) {
      w->in[r][i] = (float)inputOf(w->first + r, i);
      w->out[r][i] = -1;
    }
  }
}

/* The call for all ranks of this process; r counts them. */
#define FOR_ALL(w, call)                            \
  do {                                              \
    NCCL(ncclGroupStart());                         \
    for (int r = 0; r < (w)->mine; ++r) NCCL(call); \
    NCCL(ncclGroupEnd());                           \
  } while (0)
/* The condition for all ranks and elements. */
#define HOLDS(w, count, condition)                      \
  for (int r = 0; r < (w)->mine; ++r) {                 \
    const int rank = (w)->first + r;                    \
    (void)rank;                                         \
    for (int i = 0; i < (count); ++i) CHECK(condition); \
  }

static void reductions(World* w) {
  const int n = w->n;
  fillInputs(w);
  FOR_ALL(w, ncclAllReduce(w->in[r], w->out[r], kBlock, ncclFloat, ncclSum, w->comm[r], NULL));
  HOLDS(w, kBlock, w->out[r][i] == (float)(sumOfRanks(n) * (i % 5 + 1)));
  FOR_ALL(w, ncclAllReduce(w->in[r], w->in[r], kBlock, ncclFloat32, ncclMax, w->comm[r], NULL));
  HOLDS(w, kBlock, w->in[r][i] == (float)inputOf(n - 1, i));
  fillInputs(w);
  FOR_ALL(w, ncclAllReduce(w->in[r], w->out[r], kBlock, ncclFloat, ncclAvg, w->comm[r], NULL));
  HOLDS(w, kBlock, w->out[r][i] * (float)(2 * n) - (float)(2 * sumOfRanks(n) * (i % 5 + 1)) < 1e-3f);
  fillInputs(w);
  FOR_ALL(w, ncclReduce(w->in[r], w->out[r], kBlock, ncclFloat, ncclSum, n - 1, w->comm[r], NULL));
  HOLDS(w, kBlock, w->out[r][i] == (rank == n - 1 ? (float)(sumOfRanks(n) * (i % 5 + 1)) : -1));
  fillInputs(w);
  FOR_ALL(w, ncclReduceScatter(w->in[r], w->out[r], kBlock, ncclFloat, ncclSum, w->comm[r], NULL));
  HOLDS(w, kBlock, w->out[r][i] == (float)(sumOfRanks(n) * ((rank * kBlock + i) % 5 + 1)));
  FOR_ALL(w, ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, w->comm[r], NULL));
}

static void copies(World* w) {
  const int n = w->n;
  fillInputs(w);
  FOR_ALL(w, ncclBroadcast(w->in[r], w->out[r], kBlock, ncclFloat, n - 1, w->comm[r], NULL));
  HOLDS(w, kBlock, w->out[r][i] == (float)inputOf(n - 1, i));
  FOR_ALL(w, ncclBcast(w->in[r], kBlock, ncclFloat, 0, w->comm[r], NULL));
  HOLDS(w, kBlock, w->in[r][i] == (float)inputOf(0, i));
  fillInputs(w);
  FOR_ALL(w, ncclAllGather(w->in[r], w->out[r], kBlock, ncclFloat, w->comm[r], NULL));
  HOLDS(w, n * kBlock, w->out[r][i] == (float)inputOf(i / kBlock, i % kBlock));
  fillInputs(w);
  FOR_ALL(w, ncclAlltoAll(w->in[r], w->out[r], kBlock, ncclFloat, w->comm[r], NULL));
  HOLDS(w, n * kBlock, w->out[r][i] == (float)inputOf(i / kBlock, rank * kBlock + i % kBlock));
  fillInputs(w);
  FOR_ALL(w, ncclGather(w->in[r], w->out[r], kBlock, ncclFloat, 0, w->comm[r], NULL));
  HOLDS(w, n * kBlock, w->out[r][i] == (rank == 0 ? (float)inputOf(i / kBlock, i % kBlock) : -1));
  fillInputs(w);
  FOR_ALL(w, ncclScatter(w->in[r], w->out[r], kBlock, ncclFloat, n - 1, w->comm[r], NULL));
  HOLDS(w, kBlock, w->out[r][i] == (float)inputOf(n - 1, rank * kBlock + i));
}

static void messages(World* w) {
  fillInputs(w);
  NCCL(ncclGroupStart());
  for (int r = 0; r < w->mine; ++r) {
    const int rank = w->first + r;
    NCCL(ncclSend(w->in[r], kBlock, ncclFloat, (rank + 1) % w->n, w->comm[r], NULL));
    NCCL(ncclRecv(w->out[r], kBlock, ncclFloat, (rank + w->n - 1) % w->n, w->comm[r], NULL));
  }
  NCCL(ncclGroupEnd());
  HOLDS(w, kBlock, w->out[r][i] == (float)inputOf((rank + w->n - 1) % w->n, i));
}

static void operators(World* w) {
  ncclRedOp_t op[kMostRanks];
  fillInputs(w);
  for (int r = 0; r < w->mine; ++r) {
    float factor = (float)(w->first + r + 1);
    NCCL(ncclRedOpCreatePreMulSum(&op[r], &factor, ncclFloat, ncclScalarHostImmediate, w->comm[r]));
    CHECK(op[r] >= ncclNumOps);
  }
  FOR_ALL(w, ncclAllReduce(w->in[r], w->out[r], kBlock, ncclFloat, op[r], w->comm[r], NULL));
  int squares = 0;
  for (int k = 1; k <= w->n; ++k) squares += k * k;
  HOLDS(w, kBlock, w->out[r][i] == (float)(squares * (i % 5 + 1)));
  for (int r = 0; r < w->mine; ++r) NCCL(ncclRedOpDestroy(op[r], w->comm[r]));
  for (int r = 0; r < w->mine; ++r) CHECK(ncclRedOpDestroy(ncclSum, w->comm[r]) == ncclInvalidArgument);
}

/* Ranks of odd and even number apart, in reverse order; rank 0 of three or more is left out. */
static void split(World* w) {
  ncclComm_t child[kMostRanks];
  const int leaves = w->n >= 3;
  FOR_ALL(w, ncclCommSplit(w->comm[r], leaves && w->first + r == 0 ? NCCL_SPLIT_NOCOLOR : (w->first + r) % 2,
                           -(w->first + r), &child[r], NULL));
  NCCL(ncclGroupStart());
  for (int r = 0; r < w->mine; ++r) {
    if (child[r] != NULL) NCCL(ncclAllReduce(w->in[r], w->out[r], 1, ncclFloat, ncclSum, child[r], NULL));
  }
  NCCL(ncclGroupEnd());
  for (int r = 0; r < w->mine; ++r) {
    const int rank = w->first + r;
    CHECK((child[r] == NULL) == (leaves && rank == 0));
    if (child[r] == NULL) continue;
    int sum = 0, size = 0, place = 0, has = -1, says = -1;
    for (int other = rank % 2; other < w->n; other += 2) {
      if (leaves && other == 0) continue;
      sum += inputOf(other, 0);
      size += 1;
      place += other > rank;
    }
    NCCL(ncclCommCount(child[r], &has));
    NCCL(ncclCommUserRank(child[r], &says));
    CHECK(has == size && says == place && w->out[r][0] == (float)sum);
  }
  for (int r = 0; r < w->mine; ++r) NCCL(ncclCommDestroy(child[r]));
}

/* All but the last rank go on without it. */
static void shrink(World* w) {
  ncclComm_t child[kMostRanks];
  int excluded = w->n - 1;
  if (w->n == 1) return;
  NCCL(ncclGroupStart());
  for (int r = 0; r < w->mine; ++r) {
    child[r] = NULL;
    if (w->first + r == excluded) continue;
    NCCL(ncclCommShrink(w->comm[r], &excluded, 1, &child[r], NULL, NCCL_SHRINK_DEFAULT));
  }
  NCCL(ncclGroupEnd());
  NCCL(ncclGroupStart());
  for (int r = 0; r < w->mine; ++r) {
    if (child[r] != NULL) NCCL(ncclAllReduce(w->in[r], w->out[r], 1, ncclFloat, ncclSum, child[r], NULL));
  }
  NCCL(ncclGroupEnd());
  for (int r = 0; r < w->mine; ++r) {
    if (child[r] != NULL) CHECK(w->out[r][0] == (float)sumOfRanks(w->n - 1));
    if (child[r] != NULL) NCCL(ncclCommDestroy(child[r]));
  }
}

static void windows(World* w) {
  for (int r = 0; r < w->mine; ++r) {
    ncclWindow_t window = NULL;
    NCCL(ncclCommWindowRegister(w->comm[r], w->in[r], kBlock * sizeof(float), &window, NCCL_WIN_COLL_SYMMETRIC));
    CHECK(window != NULL);
    NCCL(ncclCommWindowDeregister(w->comm[r], window));
    CHECK(ncclCommWindowDeregister(w->comm[r], window) == ncclInvalidArgument);
    CHECK(ncclCommWindowRegister(w->comm[r], w->in[r], 1, &window, 1 << 20) == ncclInvalidArgument);
  }
}

static void simulation(World* w) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  fillInputs(w);
  NCCL(ncclGroupStart());
  for (int r = 0; r < w->mine; ++r) {
    NCCL(ncclAllReduce(w->in[r], w->out[r], kBlock, ncclFloat, ncclSum, w->comm[r], NULL));
  }
  NCCL(ncclGroupSimulateEnd(&info));
  CHECK(info.estimatedTime >= 0);
  HOLDS(w, kBlock, w->out[r][i] == -1);
}

/* Wrong arguments are refused, with a sentence, and do no harm. */
static void mistakes(World* w) {
  ncclComm_t comm = w->comm[0];
  float x = 0;
  CHECK(ncclAllReduce(&x, &x, 1, (ncclDataType_t)12, ncclSum, comm, NULL) == ncclInvalidArgument);
  CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, (ncclRedOp_t)7, comm, NULL) == ncclInvalidArgument);
  CHECK(strstr(ncclGetLastError(NULL), "ncclAllReduce") != NULL);
  CHECK(ncclAllReduce(NULL, &x, 1, ncclFloat, ncclSum, comm, NULL) == ncclInvalidArgument);
  CHECK(strstr(ncclGetLastError(comm), "sendbuff") != NULL);
  CHECK(ncclBroadcast(&x, &x, 1, ncclFloat, w->n, comm, NULL) == ncclInvalidArgument);
  CHECK(ncclCommCount(NULL, NULL) == ncclInvalidArgument);
  fillInputs(w); /* with one wrong call nothing of a group is started */
  NCCL(ncclGroupStart());
  for (int r = 0; r < w->mine; ++r) {
    NCCL(ncclAllReduce(w->in[r], w->out[r], kBlock, ncclFloat, ncclSum, w->comm[r], NULL));
  }
  CHECK(ncclAllReduce(w->in[0], w->out[0], kBlock, (ncclDataType_t)13, ncclSum, comm, NULL) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(w->out[0][0] == -1);
  CHECK(strstr(ncclGetLastError(comm), "datatype 13") != NULL);
  CHECK(ncclGetUniqueId(NULL) == ncclInvalidArgument);
  ncclResult_t state = ncclInternalError;
  NCCL(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
}

typedef struct {
  int nProcesses, each;
  int pipes[kMostRanks][2];
} Job;

static void setUp(World* w, int process, Job* job) {
  w->mine = job->each;
  w->n = job->nProcesses * job->each;
  w->first = process * job->each;
  if (job->nProcesses == 1) {
    NCCL(ncclCommInitAll(w->comm, w->n, NULL));
  } else {
    const ncclUniqueId id = shareId(process, job->nProcesses, job->pipes);
    FOR_ALL(w, ncclCommInitRank(&w->comm[r], w->n, id, w->first + r));
  }
  for (int r = 0; r < w->mine; ++r) {
    int rank = -1, n = -1, device = 0;
    const size_t bytes = (size_t)w->n * kBlock * sizeof(float);
    NCCL(ncclCommUserRank(w->comm[r], &rank));
    NCCL(ncclCommCount(w->comm[r], &n));
    NCCL(ncclCommCuDevice(w->comm[r], &device));
    CHECK(rank == w->first + r && n == w->n && device == -1);
    NCCL(ncclMemAlloc((void**)&w->in[r], bytes));
    w->out[r] = malloc(bytes);
    NCCL(ncclCommRegister(w->comm[r], w->in[r], bytes, &w->registered[r]));
  }
}

static void tearDown(World* w) {
  for (int r = 0; r < w->mine; ++r) NCCL(ncclCommDeregister(w->comm[r], w->registered[r]));
  for (int r = 0; r < w->mine; ++r) NCCL(ncclCommFinalize(w->comm[r]));
  for (int r = 0; r < w->mine; ++r) NCCL(ncclCommDestroy(w->comm[r])); /* one after another, in one thread */
  CHECK(ncclCommDestroy(w->comm[0]) == ncclInvalidArgument);
  for (int r = 0; r < w->mine; ++r) {
    NCCL(ncclMemFree(w->in[r]));
    free(w->out[r]);
  }
}

static void body(int process, void* argument) {
  World world;
  setUp(&world, process, argument);
  reductions(&world);
  copies(&world);
  messages(&world);
  operators(&world);
  split(&world);
  shrink(&world);
  windows(&world);
  simulation(&world);
  mistakes(&world);
  reductions(&world);
  tearDown(&world);
}

int main(int argc, char** argv) {
  Job job;
  job.nProcesses = argc > 1 ? atoi(argv[1]) : 1;
  job.each = argc > 2 ? atoi(argv[2]) : 1;
  if (job.nProcesses < 1 || job.each < 1 || job.nProcesses * job.each > kMostRanks) return 2;
  for (int p = 0; p < job.nProcesses; ++p) CHECK(pipe(job.pipes[p]) == 0);
  return onProcesses(job.nProcesses, body, &job);
}

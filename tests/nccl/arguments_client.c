/* A program that makes mistakes: each has NCCL's result code and a sentence, and leaves the communicator usable.  What
 * NCCL takes without complaint is taken.  Two ranks of one thread, on host memory. */
#include <stdint.h>

#include "tests/nccl/client.h"

enum { kRanks = 2, kElements = 8 };

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 30, 0)
/* Later than the header. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                          ncclConfig_t* config);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t ncclCommMemStats(ncclComm_t comm, int stat, uint64_t* value);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int nDesc, void* descriptions, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t window,
                           size_t offset, int sigIdx, int ctx, unsigned flags, ncclComm_t comm, cudaStream_t stream);
#endif

/* The call gives this result; an error also names its function in the last error. */
static void gives(int line, const char* call, ncclResult_t wanted, ncclResult_t result) {
  const char* said = ncclGetLastError(NULL);
  const size_t name = strcspn(call, "(");
  const int explained = wanted == ncclSuccess || wanted == ncclInProgress || strncmp(said, call, name) == 0 ||
                        strncmp(call, "ncclBcast", name) == 0;
  if (result == wanted && explained) return;
  fprintf(stderr, "%s:%d: %s gave %d, not %d; the last error is: %s\n", __FILE__, line, call, (int)result, (int)wanted,
          said);
  exit(1);
}
#define GIVES(wanted, call) gives(__LINE__, #call, wanted, call)
#define WRONG(call) GIVES(ncclInvalidArgument, call)
#define RIGHT(call) GIVES(ncclSuccess, call)

typedef struct {
  ncclComm_t comm[kRanks];
  float send[kRanks][kElements], recv[kRanks][kElements];
} Ranks;

/* The communicator works: what a mistake must not change. */
static void works(Ranks* r) {
  for (int i = 0; i < kRanks; ++i) r->send[i][0] = (float)(i + 1);
  NCCL(ncclGroupStart());
  for (int i = 0; i < kRanks; ++i) NCCL(ncclAllReduce(r->send[i], r->recv[i], 1, ncclFloat, ncclSum, r->comm[i], NULL));
  NCCL(ncclGroupEnd());
  for (int i = 0; i < kRanks; ++i) CHECK(r->recv[i][0] == 3);
}

/* Clean-up code need not look whether there is a communicator; all other calls say that there is none. */
static void noCommunicator(void) {
  ncclComm_t child = NULL;
  ncclResult_t state;
  ncclUniqueId id;
  ncclRedOp_t op;
  ncclWindow_t window;
  float x = 1;
  int number, list[] = {1};
  void* pointer;
  uint64_t bytes;
  RIGHT(ncclCommFinalize(NULL));
  RIGHT(ncclCommDestroy(NULL));
  RIGHT(ncclCommAbort(NULL));
  RIGHT(ncclCommRevoke(NULL, NCCL_REVOKE_DEFAULT));
  RIGHT(ncclCommWindowDeregister(NULL, NULL));
  WRONG(ncclCommSplit(NULL, 0, 0, &child, NULL));
  WRONG(ncclCommShrink(NULL, list, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  WRONG(ncclCommShrink(NULL, list, 1, &child, NULL, NCCL_SHRINK_ABORT));
  WRONG(ncclCommGetAsyncError(NULL, &state));
  WRONG(ncclCommCount(NULL, &number));
  WRONG(ncclCommUserRank(NULL, &number));
  WRONG(ncclCommCuDevice(NULL, &number));
  WRONG(ncclCommRegister(NULL, &x, sizeof x, &pointer));
  WRONG(ncclCommDeregister(NULL, NULL));
  WRONG(ncclCommWindowRegister(NULL, &x, sizeof x, &window, NCCL_WIN_DEFAULT));
  WRONG(ncclRedOpCreatePreMulSum(&op, &x, ncclFloat, ncclScalarHostImmediate, NULL));
  WRONG(ncclRedOpDestroy((ncclRedOp_t)100, NULL));
  WRONG(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, NULL, NULL));
  WRONG(ncclAllReduce(&x, &x, 0, ncclFloat, ncclSum, NULL, NULL));
  WRONG(ncclBroadcast(&x, &x, 1, ncclFloat, 0, NULL, NULL));
  WRONG(ncclBcast(&x, 1, ncclFloat, 0, NULL, NULL));
  WRONG(ncclReduce(&x, &x, 1, ncclFloat, ncclSum, 0, NULL, NULL));
  WRONG(ncclAllGather(&x, &x, 1, ncclFloat, NULL, NULL));
  WRONG(ncclReduceScatter(&x, &x, 1, ncclFloat, ncclSum, NULL, NULL));
  WRONG(ncclAlltoAll(&x, &x, 1, ncclFloat, NULL, NULL));
  WRONG(ncclGather(&x, &x, 1, ncclFloat, 0, NULL, NULL));
  WRONG(ncclScatter(&x, &x, 1, ncclFloat, 0, NULL, NULL));
  WRONG(ncclSend(&x, 1, ncclFloat, 0, NULL, NULL));
  WRONG(ncclRecv(&x, 1, ncclFloat, 0, NULL, NULL));
  WRONG(ncclCommGetUniqueId(NULL, &id));
  WRONG(ncclCommSuspend(NULL, 1));
  WRONG(ncclCommResume(NULL));
  WRONG(ncclCommMemStats(NULL, 0, &bytes));
  WRONG(ncclWinGetUserPtr(NULL, NULL, &pointer));
  WRONG(ncclSignal(0, 0, 0, 0, NULL, NULL));
  WRONG(ncclWaitSignal(0, NULL, NULL, NULL));
  WRONG(ncclPutSignal(&x, 1, ncclFloat, 0, NULL, 0, 0, 0, 0, NULL, NULL));
}

static void joins(void) {
  ncclUniqueId id, ids[3];
  ncclComm_t comm = NULL;
  NCCL(ncclGetUniqueId(&id));
  for (int i = 0; i < 3; ++i) ids[i] = id;
  WRONG(ncclGetVersion(NULL));
  WRONG(ncclGetUniqueId(NULL));
  WRONG(ncclCommInitRank(NULL, 1, id, 0));
  WRONG(ncclCommInitRank(&comm, 0, id, 0));
  WRONG(ncclCommInitRank(&comm, 2, id, 2));
  WRONG(ncclCommInitRank(&comm, 2, id, -1));
  WRONG(ncclCommInitRankScalable(&comm, 2, 0, 0, ids, NULL));
  WRONG(ncclCommInitRankScalable(&comm, 2, 0, 3, ids, NULL));
  WRONG(ncclCommInitAll(NULL, 1, NULL));
  WRONG(ncclCommInitAll(&comm, -1, NULL));
  WRONG(ncclCommGrow(NULL, 0, &id, 0, &comm, NULL));
  WRONG(ncclCommGrow(NULL, 2, NULL, 1, &comm, NULL));
  WRONG(ncclCommGrow(NULL, 2, &id, -1, &comm, NULL));
  WRONG(ncclCommGrow(NULL, 2, &id, 2, &comm, NULL));
  WRONG(ncclCommGrow(NULL, 2, &id, 1, NULL, NULL));
  CHECK(comm == NULL);
}

static void children(Ranks* r) {
  ncclComm_t child = NULL, none = (ncclComm_t)r;
  int self[] = {0}, other[] = {1}, nobody[] = {7};
  WRONG(ncclCommSplit(r->comm[0], 0, 0, NULL, NULL));
  WRONG(ncclCommShrink(r->comm[0], other, 1, NULL, NULL, NCCL_SHRINK_DEFAULT));
  WRONG(ncclCommShrink(r->comm[0], NULL, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  WRONG(ncclCommShrink(r->comm[0], other, 0, &child, NULL, NCCL_SHRINK_DEFAULT));
  WRONG(ncclCommShrink(r->comm[0], self, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  WRONG(ncclCommShrink(r->comm[0], nobody, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  WRONG(ncclCommGrow(r->comm[0], kRanks, NULL, -1, &child, NULL));
  WRONG(ncclCommGrow(r->comm[0], kRanks + 1, NULL, 0, &child, NULL));
  CHECK(child == NULL);
  RIGHT(ncclGroupStart());
  RIGHT(ncclCommSplit(r->comm[0], NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  RIGHT(ncclCommSplit(r->comm[1], 3, 0, &child, NULL));
  RIGHT(ncclGroupEnd());
  CHECK(none == NULL && child != NULL);
  RIGHT(ncclCommDestroy(child));
  RIGHT(ncclCommShrink(r->comm[1], self, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  RIGHT(ncclCommDestroy(child));
  works(r);
}

/* Every call with a root, a type, an operator, a pointer or a peer that cannot be. */
static void calls(Ranks* r) {
  ncclComm_t comm = r->comm[0];
  float *in = r->send[0], *out = r->recv[0];
  const ncclDataType_t noType = (ncclDataType_t)ncclNumTypes;
  const ncclRedOp_t noOp = (ncclRedOp_t)ncclNumOps, madeNowhere = (ncclRedOp_t)1000;
  const int noRank[] = {-1, kRanks};
  for (int i = 0; i < 2; ++i) {
    WRONG(ncclBroadcast(in, out, 1, ncclFloat, noRank[i], comm, NULL));
    WRONG(ncclBcast(in, 1, ncclFloat, noRank[i], comm, NULL));
    WRONG(ncclReduce(in, out, 1, ncclFloat, ncclSum, noRank[i], comm, NULL));
    WRONG(ncclGather(in, out, 1, ncclFloat, noRank[i], comm, NULL));
    WRONG(ncclScatter(in, out, 1, ncclFloat, noRank[i], comm, NULL));
    WRONG(ncclSend(in, 1, ncclFloat, noRank[i], comm, NULL));
    WRONG(ncclRecv(out, 1, ncclFloat, noRank[i], comm, NULL));
    WRONG(ncclReduce(in, out, 0, ncclFloat, ncclSum, noRank[i], comm, NULL)); /* before the count is looked at */
  }
  WRONG(ncclAllReduce(in, out, 1, noType, ncclSum, comm, NULL));
  WRONG(ncclAllReduce(in, out, 1, (ncclDataType_t)-1, ncclSum, comm, NULL));
  WRONG(ncclAllGather(in, out, 1, noType, comm, NULL));
  WRONG(ncclAllReduce(in, out, 1, ncclFloat, noOp, comm, NULL));
  WRONG(ncclAllReduce(in, out, 1, ncclFloat, (ncclRedOp_t)-1, comm, NULL));
  WRONG(ncclReduceScatter(in, out, 1, ncclFloat, madeNowhere, comm, NULL));
  WRONG(ncclAllReduce(NULL, out, 1, ncclFloat, ncclSum, comm, NULL));
  WRONG(ncclAllReduce(in, NULL, 1, ncclFloat, ncclSum, comm, NULL));
  works(r);
}

static void operators(Ranks* r) {
  ncclRedOp_t op = ncclSum;
  float half = 0.5f;
  WRONG(ncclRedOpCreatePreMulSum(NULL, &half, ncclFloat, ncclScalarHostImmediate, r->comm[0]));
  WRONG(ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, r->comm[0]));
  WRONG(ncclRedOpCreatePreMulSum(&op, &half, (ncclDataType_t)ncclNumTypes, ncclScalarHostImmediate, r->comm[0]));
  WRONG(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, (ncclScalarResidence_t)2, r->comm[0]));
  CHECK(op == ncclSum);
  WRONG(ncclRedOpDestroy(ncclSum, r->comm[0]));
  WRONG(ncclRedOpDestroy(ncclAvg, NULL));
  WRONG(ncclRedOpDestroy((ncclRedOp_t)-3, r->comm[0]));
  WRONG(ncclRedOpDestroy((ncclRedOp_t)1000, r->comm[0]));
  RIGHT(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, r->comm[0]));
  CHECK(op >= ncclNumOps);
  WRONG(ncclAllReduce(r->send[0], r->recv[0], 1, ncclDouble, op, r->comm[0], NULL)); /* made for floats */
  WRONG(ncclAllReduce(r->send[1], r->recv[1], 1, ncclFloat, op, r->comm[1], NULL));  /* made for another rank */
  WRONG(ncclRedOpDestroy(op, r->comm[1]));
  RIGHT(ncclRedOpDestroy(op, r->comm[0]));
  WRONG(ncclRedOpDestroy(op, r->comm[0]));
  works(r);
}

/* The scalar is read when the operator is made, or, in the residence "device", when the call runs. */
static void residences(Ranks* r) {
  ncclRedOp_t op[kRanks];
  float scalar[kRanks] = {2, 3};
  for (int device = 0; device < 2; ++device) {
    const ncclScalarResidence_t residence = device ? ncclScalarDevice : ncclScalarHostImmediate;
    for (int i = 0; i < kRanks; ++i) {
      scalar[i] = (float)(i + 2);
      r->send[i][0] = 10;
      RIGHT(ncclRedOpCreatePreMulSum(&op[i], &scalar[i], ncclFloat, residence, r->comm[i]));
      scalar[i] = 5;
    }
    RIGHT(ncclGroupStart());
    for (int i = 0; i < kRanks; ++i) {
      RIGHT(ncclAllReduce(r->send[i], r->recv[i], 1, ncclFloat, op[i], r->comm[i], NULL));
      RIGHT(ncclRedOpDestroy(op[i], r->comm[i])); /* NCCL lets go of it as soon as the call has returned */
    }
    RIGHT(ncclGroupEnd());
    for (int i = 0; i < kRanks; ++i) CHECK(r->recv[i][0] == (device ? 100 : 50));
  }
}

/* Nothing to do is no mistake, and needs no memory. */
static void nothingToDo(Ranks* r) {
  ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
  RIGHT(ncclGroupStart());
  for (int i = 0; i < kRanks; ++i) {
    ncclComm_t comm = r->comm[i];
    RIGHT(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL));
    RIGHT(ncclBroadcast(NULL, NULL, 0, ncclFloat, 1, comm, NULL));
    RIGHT(ncclReduce(NULL, NULL, 0, ncclFloat, ncclMax, 1, comm, NULL));
    RIGHT(ncclAllGather(NULL, NULL, 0, ncclFloat, comm, NULL));
    RIGHT(ncclReduceScatter(NULL, NULL, 0, ncclFloat, ncclAvg, comm, NULL));
    RIGHT(ncclAlltoAll(NULL, NULL, 0, ncclFloat, comm, NULL));
    RIGHT(ncclSend(NULL, 0, ncclFloat, 1 - i, comm, NULL));
    RIGHT(ncclRecv(NULL, 0, ncclFloat, 1 - i, comm, NULL));
  }
  RIGHT(ncclGroupEnd());
  RIGHT(ncclGroupStart());
  RIGHT(ncclGroupEnd());
  RIGHT(ncclGroupStart());
  RIGHT(ncclGroupSimulateEnd(&sim));
  CHECK(sim.estimatedTime == NCCL_UNDEF_FLOAT); /* there was nothing to estimate */
  RIGHT(ncclMemFree(NULL));
  works(r);
}

static void groups(Ranks* r) {
  ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
  GIVES(ncclInvalidUsage, ncclGroupEnd());
  GIVES(ncclInvalidUsage, ncclGroupSimulateEnd(&sim));
  RIGHT(ncclGroupStart()); /* a mistake in a group is the group's result, and nothing of the group runs */
  r->recv[0][0] = r->recv[1][0] = -1;
  for (int i = 0; i < kRanks; ++i) {
    RIGHT(ncclAllReduce(r->send[i], r->recv[i], 1, ncclFloat, ncclSum, r->comm[i], NULL));
  }
  WRONG(ncclBroadcast(r->send[0], r->recv[0], 1, ncclFloat, 9, r->comm[0], NULL));
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(r->recv[0][0] == -1 && r->recv[1][0] == -1);
  sim.magic = 1;
  RIGHT(ncclGroupStart());
  WRONG(ncclGroupSimulateEnd(&sim));
  GIVES(ncclInvalidUsage, ncclGroupEnd());
  works(r);
}

static void memory(Ranks* r) {
  static _Alignas(NCCL_WIN_REQUIRED_ALIGNMENT) char block[2 * NCCL_WIN_REQUIRED_ALIGNMENT];
  void *handle = NULL, *pointer = NULL;
  ncclWindow_t window = NULL;
  WRONG(ncclMemAlloc(NULL, 64));
  RIGHT(ncclMemAlloc(&pointer, 64));
  RIGHT(ncclMemFree(pointer));
  WRONG(ncclCommRegister(r->comm[0], NULL, 64, &handle));
  WRONG(ncclCommRegister(r->comm[0], block, 64, NULL));
  RIGHT(ncclCommRegister(r->comm[0], block, sizeof block, &handle));
  RIGHT(ncclCommDeregister(r->comm[0], handle));
  RIGHT(ncclCommDeregister(r->comm[0], NULL));
  GIVES(ncclInvalidUsage, ncclCommDeregister(r->comm[0], handle));
  WRONG(ncclCommWindowRegister(r->comm[0], NULL, 64, &window, NCCL_WIN_DEFAULT));
  WRONG(ncclCommWindowRegister(r->comm[0], block, 0, &window, NCCL_WIN_DEFAULT));
  WRONG(ncclCommWindowRegister(r->comm[0], block, 64, NULL, NCCL_WIN_DEFAULT));
  WRONG(ncclCommWindowRegister(r->comm[0], block, 64, &window, 0x1000));
  RIGHT(ncclCommWindowRegister(r->comm[0], block, sizeof block, &window, NCCL_WIN_COLL_SYMMETRIC));
  WRONG(ncclWinGetUserPtr(r->comm[1], window, &pointer));
  RIGHT(ncclWinGetUserPtr(r->comm[0], window, &pointer));
  CHECK(pointer == block);
  WRONG(ncclCommWindowDeregister(r->comm[1], window));
  RIGHT(ncclCommWindowDeregister(r->comm[0], window));
  WRONG(ncclCommWindowDeregister(r->comm[0], window));
  RIGHT(ncclCommWindowDeregister(r->comm[0], NULL));
  works(r);
}

/* What Tutti lacks is refused with a sentence, on a communicator that goes on. */
static void lacking(Ranks* r) {
  uint64_t bytes = 1;
  GIVES(ncclInvalidUsage, ncclCommSuspend(r->comm[0], 1));
  GIVES(ncclInvalidUsage, ncclCommResume(r->comm[0]));
  GIVES(ncclInvalidUsage, ncclSignal(0, 0, 0, 0, r->comm[0], NULL));
  GIVES(ncclInvalidUsage, ncclWaitSignal(0, NULL, r->comm[0], NULL));
  GIVES(ncclInvalidUsage, ncclPutSignal(r->send[0], 1, ncclFloat, 1, NULL, 0, 0, 0, 0, r->comm[0], NULL));
  WRONG(ncclCommMemStats(r->comm[0], 4, &bytes));
  RIGHT(ncclCommMemStats(r->comm[0], 3, &bytes));
  works(r);
}

/* A revoked communicator takes no calls, is not revoked twice, and cannot be finalized; destroying it works. */
static void ends(Ranks* r) {
  WRONG(ncclCommRevoke(r->comm[0], 5));
  works(r);
  for (int i = 0; i < kRanks; ++i) RIGHT(ncclCommRevoke(r->comm[i], NCCL_REVOKE_DEFAULT));
  for (int i = 0; i < kRanks; ++i) {
    ncclComm_t comm = r->comm[i];
    ncclResult_t state = ncclInProgress;
    WRONG(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    WRONG(ncclCommFinalize(comm));
    GIVES(ncclInvalidUsage, ncclAllReduce(r->send[i], r->recv[i], 1, ncclFloat, ncclSum, comm, NULL));
    RIGHT(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess); /* quiet, as asked for */
  }
  for (int i = 0; i < kRanks; ++i) RIGHT(ncclCommDestroy(r->comm[i]));
  WRONG(ncclCommDestroy(r->comm[0]));
  WRONG(ncclCommAbort(r->comm[0]));
  WRONG(ncclAllReduce(r->send[0], r->recv[0], 1, ncclFloat, ncclSum, r->comm[0], NULL));
  NCCL(ncclCommInitAll(r->comm, kRanks, NULL));
  for (int i = 0; i < kRanks; ++i) RIGHT(ncclCommFinalize(r->comm[i]));
  for (int i = 0; i < kRanks; ++i) {
    WRONG(ncclCommFinalize(r->comm[i]));
    WRONG(ncclCommRevoke(r->comm[i], NCCL_REVOKE_DEFAULT));
  }
  for (int i = 0; i < kRanks; ++i) RIGHT(ncclCommDestroy(r->comm[i]));
}

/* Scripts look for these words, whatever stands behind them. */
static void words(void) {
  static const char* const kWords[] = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress",
                                       "timeout"};
  for (int code = 0; code < 9; ++code) {
    CHECK(strncmp(ncclGetErrorString((ncclResult_t)code), kWords[code], strlen(kWords[code])) == 0);
  }
  CHECK(strcmp(ncclGetErrorString((ncclResult_t)9), "unknown result code") == 0);
  CHECK(strcmp(ncclGetErrorString((ncclResult_t)-1), "unknown result code") == 0);
}

int main(void) {
  Ranks r;
  memset(&r, 0, sizeof r);
  CHECK(strcmp(ncclGetLastError(NULL), "") == 0);
  words();
  noCommunicator();
  joins();
  NCCL(ncclCommInitAll(r.comm, kRanks, NULL));
  children(&r);
  calls(&r);
  operators(&r);
  residences(&r);
  nothingToDo(&r);
  groups(&r);
  memory(&r);
  lacking(&r);
  ends(&r);
  return 0;
}

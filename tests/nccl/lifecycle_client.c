/* A program written to NCCL: non-blocking communicators, abort, config, errors.  Two ranks of one thread, on host
 * memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setattr_default_np */
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "tests/nccl/client.h"

enum { kRanks = 2 };

static void nap(void) {
  const struct timespec ms = {0, 1000000};
  nanosleep(&ms, NULL);
}

/* Until comm is no longer under way; how it ended. */
static ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    NCCL(ncclCommGetAsyncError(comm, &state));
    nap();
  }
  return state;
}

static int begun(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

static void open(ncclComm_t* comm, const char* name) {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  for (int r = 0; r < kRanks; ++r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = name;
    config.minCTAs = 1;
    config.maxCTAs = 32;
    CHECK(begun(ncclCommInitRankConfig(&comm[r], kRanks, id, r, &config)));
    CHECK(comm[r] != NULL);
  }
  for (int r = 0; r < kRanks; ++r) CHECK(settled(comm[r]) == ncclSuccess);
}

/* Every call may be under way when it returns; the child of a split too. */
static void nonBlocking(void) {
  ncclComm_t comm[kRanks], child[kRanks];
  float in[kRanks] = {1, 2}, out[kRanks] = {0, 0};
  open(comm, "background");
  for (int r = 0; r < kRanks; ++r) CHECK(begun(ncclAllReduce(&in[r], &out[r], 1, ncclFloat, ncclSum, comm[r], NULL)));
  for (int r = 0; r < kRanks; ++r) CHECK(settled(comm[r]) == ncclSuccess);
  CHECK(out[0] == 3 && out[1] == 3);
  for (int r = 0; r < kRanks; ++r) CHECK(begun(ncclCommSplit(comm[r], 0, -r, &child[r], NULL)));
  for (int r = 0; r < kRanks; ++r) {
    int rank = -1;
    CHECK(settled(child[r]) == ncclSuccess);
    NCCL(ncclCommUserRank(child[r], &rank));
    CHECK(rank == kRanks - 1 - r);
  }
  for (int r = 0; r < kRanks; ++r) CHECK(begun(ncclCommFinalize(child[r])));
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(child[r]));
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(comm[r]));
}

/* One rank waits for another that never comes; nobody waits for the end. */
static void abortInFlight(void) {
  ncclComm_t comm[kRanks];
  ncclResult_t state = ncclSuccess;
  float x = 1;
  open(comm, NULL);
  CHECK(begun(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm[0], NULL)));
  NCCL(ncclCommGetAsyncError(comm[0], &state));
  CHECK(state == ncclInProgress);
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommAbort(comm[r]));
  CHECK(ncclCommCount(comm[0], &(int){0}) == ncclInvalidArgument);
  open(comm, NULL); /* the process is as good as new */
  NCCL(ncclCommRevoke(comm[0], NCCL_REVOKE_DEFAULT));
  CHECK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm[0], NULL) != ncclSuccess);
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommAbort(comm[r]));
}

/* Two ranks with this config, and a child of both with that one. */
static void openFamily(ncclComm_t* comm, ncclComm_t* child, int parentShares, ncclConfig_t* childConfig) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  config.splitShare = parentShares;
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommInitRankConfig(&comm[r], kRanks, id, r, &config));
  NCCL(ncclGroupEnd());
  NCCL(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommSplit(comm[r], 0, r, &child[r], childConfig));
  NCCL(ncclGroupEnd());
}

/* Whether a child shares its parent's abortState is the parent's config's business, and not the child's, as in NCCL. */
static void sharing(void) {
  static const struct {
    int parent, child, shared; /* child -1: without a config */
  } kRows[] = {{0, -1, 0}, {0, 1, 0}, {1, -1, 1}, {1, 0, 1}};
  for (size_t row = 0; row < sizeof kRows / sizeof kRows[0]; ++row) {
    ncclComm_t comm[kRanks], child[kRanks];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = kRows[row].child;
    openFamily(comm, child, kRows[row].parent, kRows[row].child < 0 ? NULL : &config);
    for (int r = 0; r < kRanks; ++r) NCCL(ncclCommAbort(comm[r]));
    for (int r = 0; r < kRanks; ++r) {
      ncclResult_t state = ncclInProgress;
      NCCL(ncclCommGetAsyncError(child[r], &state));
      CHECK((state == ncclSuccess) == !kRows[row].shared);
    }
    for (int r = 0; r < kRanks; ++r) NCCL(ncclCommAbort(child[r]));
  }
}

/* A child without a config is as its parent; what a config leaves open is the default, and not the parent's. */
static void inheritance(void) {
  for (int given = 0; given < 2; ++given) {
    ncclComm_t comm[kRanks], child[kRanks];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    float x[kRanks] = {1, 2};
    open(comm, "parent"); /* non-blocking */
    NCCL(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      CHECK(begun(ncclCommSplit(comm[r], 0, r, &child[r], given ? &config : NULL)));
    }
    CHECK(begun(ncclGroupEnd()));
    for (int r = 0; r < kRanks; ++r) CHECK(settled(child[r]) == ncclSuccess);
    NCCL(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      CHECK(begun(ncclAllReduce(&x[r], &x[r], 1, ncclFloat, ncclSum, child[r], NULL)));
    }
    const ncclResult_t ended = ncclGroupEnd();
    CHECK(given ? ended == ncclSuccess && x[0] == 3 && x[1] == 3 : begun(ended));
    for (int r = 0; r < kRanks; ++r) CHECK(settled(child[r]) == ncclSuccess && x[r] == 3);
    for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(child[r]));
    for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(comm[r]));
  }
}

/* After a revocation a communicator of those that are left takes its place, whatever the flags. */
static void succession(void) {
  ncclComm_t comm[kRanks], alone = NULL, none = NULL;
  int gone = 1;
  float x = 4;
  NCCL(ncclCommInitAll(comm, kRanks, NULL));
  NCCL(ncclCommRevoke(comm[0], NCCL_REVOKE_DEFAULT));
  CHECK(ncclCommSplit(comm[0], 0, 0, &none, NULL) == ncclInvalidUsage && none == NULL);
  NCCL(ncclCommShrink(comm[0], &gone, 1, &alone, NULL, NCCL_SHRINK_DEFAULT));
  NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclAvg, alone, NULL));
  CHECK(x == 4);
  NCCL(ncclCommDestroy(alone));
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommAbort(comm[r]));
}

static ncclResult_t openAlone(ncclConfig_t* config) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  NCCL(ncclGetUniqueId(&id));
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
  CHECK((result == ncclSuccess) == (comm != NULL));
  if (comm != NULL) NCCL(ncclCommDestroy(comm));
  return result;
}

/* What the config of an earlier or a later version looks like to this one. */
static void configs(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  CHECK(openAlone(NULL) == ncclSuccess);
  CHECK(openAlone(&config) == ncclSuccess);
  config.magic = 0;
  CHECK(openAlone(&config) == ncclInvalidArgument);
  CHECK(strstr(ncclGetLastError(NULL), "NCCL_CONFIG_INITIALIZER") != NULL);
  config.magic = 0xcafebeef;
  config.maxCTAs = 0;
  CHECK(openAlone(&config) == ncclInvalidArgument);
  CHECK(strstr(ncclGetLastError(NULL), "maxCTAs") != NULL);
  config.version = 21400; /* 2.14 had no such field: there was padding, or nothing */
  CHECK(openAlone(&config) == ncclSuccess);
  config.version = NCCL_VERSION_CODE;
  config.size = 24; /* of 2.14 */
  CHECK(openAlone(&config) == ncclSuccess);
  config.size = 8;
  CHECK(openAlone(&config) == ncclInvalidArgument);
  config.size = sizeof config;
  config.maxCTAs = 2;
  config.minCTAs = 3;
  CHECK(openAlone(&config) == ncclInvalidArgument);
  config.minCTAs = 1000; /* NCCL takes as many as there are */
  config.maxCTAs = 2000;
  config.cgaClusterSize = 9; /* and less than it was asked for */
  config.trafficClass = -1;
  CHECK(openAlone(&config) == ncclSuccess);
  struct {
    ncclConfig_t known;
    char more[80];
  } later;
  memset(&later, 0x55, sizeof later);
  later.known = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  later.known.size = sizeof later;
  CHECK(openAlone(&later.known) == ncclSuccess); /* of version 2.28.9, whatever its size */
  later.known.netName = "carrier-pigeon";
  CHECK(openAlone(&later.known) == ncclInvalidArgument);
  later.known.netName = "Socket";
  CHECK(openAlone(&later.known) == ncclSuccess);
}

/* A stream of Tutti's, which is to be had where libnccl.so.2 is: calls return at once and run in their order. */
static void streams(void) {
  int (*create)(cudaStream_t*) = NULL, (*synchronize)(cudaStream_t) = NULL, (*destroy)(cudaStream_t) = NULL;
  *(void**)&create = dlsym(RTLD_DEFAULT, "tuttiStreamCreate");
  *(void**)&synchronize = dlsym(RTLD_DEFAULT, "tuttiStreamSynchronize");
  *(void**)&destroy = dlsym(RTLD_DEFAULT, "tuttiStreamDestroy");
  CHECK(create != NULL && synchronize != NULL && destroy != NULL);
  ncclComm_t comm[kRanks];
  cudaStream_t stream[kRanks];
  float x[kRanks] = {1, 2};
  NCCL(ncclCommInitAll(comm, kRanks, NULL));
  for (int r = 0; r < kRanks; ++r) CHECK(create(&stream[r]) == 0);
  for (int step = 0; step < 3; ++step) { /* no group: nobody waits here */
    for (int r = 0; r < kRanks; ++r) NCCL(ncclAllReduce(&x[r], &x[r], 1, ncclFloat, ncclSum, comm[r], stream[r]));
  }
  for (int r = 0; r < kRanks; ++r) CHECK(synchronize(stream[r]) == 0);
  CHECK(x[0] == 12 && x[1] == 12);
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(comm[r]));
  for (int r = 0; r < kRanks; ++r) CHECK(destroy(stream[r]) == 0);
  NCCL(ncclCommInitAll(comm, 1, NULL));
  for (uintptr_t device = 0; device <= 2; ++device) { /* CUDA's default, legacy and per-thread streams */
    NCCL(ncclAllReduce(&x[0], &x[0], 1, ncclFloat, ncclSum, comm[0], (cudaStream_t)device));
  }
  NCCL(ncclCommDestroy(comm[0]));
}

/* Ranks of a process end together, by threads.  Where the system gives none they are freed one by one. */
static void withoutThreads(void) {
  ncclComm_t comm[kRanks];
  pthread_attr_t before, endless;
  NCCL(ncclCommInitAll(comm, kRanks, NULL));
  CHECK(pthread_getattr_default_np(&before) == 0 && pthread_getattr_default_np(&endless) == 0);
  CHECK(pthread_attr_setstacksize(&endless, (size_t)1 << 60) == 0 && pthread_setattr_default_np(&endless) == 0);
  NCCL(ncclCommDestroy(comm[0]));
  CHECK(ncclCommDestroy(comm[1]) == ncclSystemError);
  CHECK(strstr(ncclGetLastError(NULL), "cannot start a thread for each rank of this process that ends: ") != NULL);
  CHECK(pthread_setattr_default_np(&before) == 0);
  for (int r = 0; r < kRanks; ++r) CHECK(ncclCommDestroy(comm[r]) == ncclInvalidArgument);
}

static void several(void) {
  ncclUniqueId ids[2];
  ncclComm_t comm[kRanks];
  for (int i = 0; i < 2; ++i) NCCL(ncclGetUniqueId(&ids[i]));
  NCCL(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommInitRankScalable(&comm[r], kRanks, r, 2, ids, NULL));
  NCCL(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r) NCCL(ncclCommDestroy(comm[r]));
  CHECK(ncclCommInitRankScalable(&comm[0], 1, 0, 0, ids, NULL) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comm, 0, NULL) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm[0], 1, ids[0], 1) == ncclInvalidArgument && comm[0] == NULL);
  memset(&ids[0], 0, sizeof ids[0]);
  CHECK(ncclCommInitRank(&comm[0], 1, ids[0], 0) == ncclInvalidArgument);
}

int main(void) {
  int version = 0;
  NCCL(ncclGetVersion(&version));
  CHECK(version == NCCL_VERSION_CODE || version == 22809);
  nonBlocking();
  abortInFlight();
  sharing();
  inheritance();
  succession();
  configs();
  streams();
  withoutThreads();
  several();
  return 0;
}

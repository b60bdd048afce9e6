/* The calls that llm.c makes of NCCL (its llmc/zero.cuh), in its order: processes that share an id, a barrier made of
 * an all-reduce, losses and gradients averaged, shards of gradients and parameters for ZeRO stage 1. llmc_client
 * PROCESSES [cuda]     on host memory (TUTTI_DEVICE=host), or all on CUDA device 0 */
#include "tests/nccl/client.h"
#include "tests/nccl/memory.h"

enum { kMost = 8, kParameters = 4096, kSteps = 3, kLayers = 2 };

typedef struct {
  int nProcesses;
  int onDevice;
  int pipes[kMost][2];
} Job;

typedef struct {
  Memory memory;
  ncclComm_t comm;
  int rank, n, shard; /* elements of a layer that belong to this rank */
  float *loss, *gradients, *weights;
} Training;

static int near(float a, float b, float tolerance) { return a - b < tolerance && b - a < tolerance; }

/* zero_stage 0: all of it averaged.  Also what llm.c does with the loss, and for a barrier. */
static void averageLoss(Training* t) {
  float loss = (float)(t->rank + 1);
  copyBytes(&t->memory, t->loss, &loss, sizeof loss);
  NCCL(ncclAllReduce(t->loss, t->loss, 1, ncclFloat, ncclAvg, t->comm, t->memory.stream));
  copyBytes(&t->memory, &loss, t->loss, sizeof loss);
  CHECK(near(loss * 2, (float)(t->n + 1), 1e-5f));
}

/* zero_stage 1: the layers of gradients in one group, each to its owners, in place. */
static void reduceGradients(Training* t) {
  float host[kParameters];
  for (int i = 0; i < kParameters; ++i) host[i] = (float)(t->rank + i % 3);
  copyBytes(&t->memory, t->gradients, host, sizeof host);
  NCCL(ncclGroupStart());
  for (int layer = 0; layer < kLayers; ++layer) {
    float* from = t->gradients + layer * kParameters / kLayers;
    NCCL(ncclReduceScatter(from, from + t->rank * t->shard, (size_t)t->shard, ncclFloat, ncclAvg, t->comm,
                           t->memory.stream));
  }
  NCCL(ncclGroupEnd());
}

static float averageGradient(const Training* t, int i) { return (float)(t->n - 1) / 2 + (float)(i % 3); }

static void updateShards(Training* t) {
  float gradients[kParameters], weights[kParameters];
  copyBytes(&t->memory, gradients, t->gradients, sizeof gradients);
  copyBytes(&t->memory, weights, t->weights, sizeof weights);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int i = t->rank * t->shard; i < (t->rank + 1) * t->shard; ++i) {
      const int at = layer * kParameters / kLayers + i;
      CHECK(near(gradients[at], averageGradient(t, at), 1e-4f));
      weights[at] -= gradients[at];
    }
  }
  copyBytes(&t->memory, t->weights, weights, sizeof weights);
}

static void gatherWeights(Training* t, int step) {
  float weights[kParameters];
  NCCL(ncclGroupStart());
  for (int layer = 0; layer < kLayers; ++layer) {
    float* to = t->weights + layer * kParameters / kLayers;
    NCCL(ncclAllGather(to + t->rank * t->shard, to, (size_t)t->shard, ncclFloat, t->comm, t->memory.stream));
  }
  NCCL(ncclGroupEnd());
  copyBytes(&t->memory, weights, t->weights, sizeof weights);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int i = 0; i < t->shard * t->n; ++i) {
      const int at = layer * kParameters / kLayers + i;
      CHECK(near(weights[at], 1 - (float)(step + 1) * averageGradient(t, at), 1e-3f));
    }
  }
}

static void train(int rank, void* argument) {
  Job* job = argument;
  float ones[kParameters];
  Training t = {.rank = rank, .n = job->nProcesses, .shard = kParameters / kLayers / job->nProcesses};
  const ncclUniqueId id = shareId(rank, t.n, job->pipes);
  t.memory = openMemory(job->onDevice, 0);
  NCCL(ncclCommInitRank(&t.comm, t.n, id, rank));
  t.loss = allocateBytes(&t.memory, sizeof(float));
  t.gradients = allocateBytes(&t.memory, sizeof ones);
  t.weights = allocateBytes(&t.memory, sizeof ones);
  for (int i = 0; i < kParameters; ++i) ones[i] = 1;
  copyBytes(&t.memory, t.weights, ones, sizeof ones);
  for (int step = 0; step < kSteps; ++step) {
    averageLoss(&t);
    reduceGradients(&t);
    updateShards(&t);
    gatherWeights(&t, step);
  }
  NCCL(ncclCommDestroy(t.comm));
  releaseBytes(&t.memory, t.loss);
  releaseBytes(&t.memory, t.gradients);
  releaseBytes(&t.memory, t.weights);
}

int main(int argc, char** argv) {
  Job job;
  job.nProcesses = argc > 1 ? atoi(argv[1]) : 2;
  job.onDevice = argc > 2 && strcmp(argv[2], "cuda") == 0;
  if (job.nProcesses < 1 || job.nProcesses > kMost || (argc > 2 && !job.onDevice)) {
    fprintf(stderr, "usage: %s PROCESSES [cuda]     1 to %d processes\n", argv[0], kMost);
    return 2;
  }
  for (int p = 0; p < job.nProcesses; ++p) CHECK(pipe(job.pipes[p]) == 0);
  return onProcesses(job.nProcesses, train, &job);
}

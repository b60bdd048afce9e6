/* The calls that llm.c makes of NCCL (its llmc/zero.cuh), in its order, on host memory: processes that share an id,
 * gradients averaged, shards of gradients and parameters for ZeRO stage 1.   llmc_client PROCESSES */
#include "tests/nccl/client.h"

enum { kMost = 8, kParameters = 4096 };

typedef struct {
  int nProcesses;
  int pipes[kMost][2];
} Job;

static void train(int rank, void* argument) {
  Job* job = argument;
  const int n = job->nProcesses, shard = kParameters / n;
  ncclComm_t comm;
  float *gradients = malloc(kParameters * sizeof(float)), *weights = malloc(kParameters * sizeof(float));
  const ncclUniqueId id = shareId(rank, n, job->pipes);
  NCCL(ncclCommInitRank(&comm, n, id, rank));
  for (int i = 0; i < kParameters; ++i) weights[i] = 1;
  for (int step = 0; step < 3; ++step) {
    float loss = (float)(rank + 1);
    for (int i = 0; i < kParameters; ++i) gradients[i] = (float)(rank + i % 3);
    NCCL(ncclAllReduce(&loss, &loss, 1, ncclFloat, ncclAvg, comm, NULL));
    CHECK(loss * 2 - (float)(n + 1) < 1e-5f && loss * 2 - (float)(n + 1) > -1e-5f);
    /* Layers of gradients in one group, each to its owners. */
    NCCL(ncclGroupStart());
    for (int part = 0; part < 2; ++part) {
      float* from = gradients + part * kParameters / 2;
      NCCL(ncclReduceScatter(from, from + rank * shard / 2, (size_t)(shard / 2), ncclFloat, ncclAvg, comm, NULL));
    }
    NCCL(ncclGroupEnd());
    for (int part = 0; part < 2; ++part) {
      for (int i = rank * shard / 2; i < (rank + 1) * shard / 2; ++i) {
        const int at = part * kParameters / 2 + i;
        const float expected = (float)(n - 1) / 2 + (float)(at % 3);
        CHECK(gradients[at] - expected < 1e-4f && expected - gradients[at] < 1e-4f);
        weights[at] -= gradients[at];
      }
    }
    NCCL(ncclGroupStart());
    for (int part = 0; part < 2; ++part) {
      float* to = weights + part * kParameters / 2;
      NCCL(ncclAllGather(to + rank * shard / 2, to, (size_t)(shard / 2), ncclFloat, comm, NULL));
    }
    NCCL(ncclGroupEnd());
    for (int i = 0; i < shard / 2 * n; ++i) {
      const float expected = 1 - (float)(step + 1) * ((float)(n - 1) / 2 + (float)(i % 3));
      CHECK(weights[i] - expected < 1e-3f && expected - weights[i] < 1e-3f);
    }
  }
  NCCL(ncclCommDestroy(comm));
  free(gradients);
  free(weights);
}

int main(int argc, char** argv) {
  Job job;
  job.nProcesses = argc > 1 ? atoi(argv[1]) : 2;
  if (job.nProcesses < 1 || job.nProcesses > kMost) return 2;
  for (int p = 0; p < job.nProcesses; ++p) CHECK(pipe(job.pipes[p]) == 0);
  return onProcesses(job.nProcesses, train, &job);
}

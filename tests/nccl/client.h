/* What the programs of these tests begin with: errors, and ranks as processes. */
#ifndef TUTTI_TESTS_NCCL_CLIENT_H_
#define TUTTI_TESTS_NCCL_CLIENT_H_

#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the program if a call fails. */
#define NCCL(call)                                                                             \
  do {                                                                                         \
    ncclResult_t result_ = (call);                                                             \
    if (result_ != ncclSuccess) {                                                              \
      fprintf(stderr, "%s:%d: %s gave %d (%s): %s\n", __FILE__, __LINE__, #call, (int)result_, \
              ncclGetErrorString(result_), ncclGetLastError(NULL));                            \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

enum { kMostProcesses = 8 };

/* Runs body(process, argument) in so many processes; 1 if one of them failed, which ends the others. */
static inline int onProcesses(int nProcesses, void (*body)(int process, void* argument), void* argument) {
  pid_t pids[kMostProcesses];
  int worst = 0;
  fflush(NULL);
  for (int p = 0; p < nProcesses; ++p) {
    pids[p] = fork();
    if (pids[p] < 0) return perror("fork"), 1;
    if (pids[p] == 0) {
      body(p, argument);
      exit(0);
    }
  }
  for (int ended = 0; ended < nProcesses; ++ended) {
    int status = 0;
    const pid_t pid = wait(&status);
    const int failed = pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    for (int p = 0; p < nProcesses; ++p) {
      if (pids[p] == pid) pids[p] = 0;
      if (failed && !worst && pids[p] != 0) kill(pids[p], SIGKILL); /* they may wait for it */
    }
    worst = worst || failed;
  }
  return worst;
}

/* The id that process 0 makes and sends to the others through pipes[process], made before they were started. */
static inline ncclUniqueId shareId(int process, int nProcesses, int (*pipes)[2]) {
  ncclUniqueId id;
  if (process == 0) {
    NCCL(ncclGetUniqueId(&id));
    for (int p = 1; p < nProcesses; ++p) CHECK(write(pipes[p][1], &id, sizeof id) == (ssize_t)sizeof id);
  } else {
    CHECK(read(pipes[process][0], &id, sizeof id) == (ssize_t)sizeof id);
  }
  return id;
}

#endif

// The collectives that are measured: how they are called, the least that they move, and what must come out.
//
// Sizes are nccl-tests': `bytes` is of the larger of a rank's two buffers.
#pragma once

#include <cstddef>

#include "tutti/tutti.h"

namespace tutti::gpuperf {

/// One rank's part of a call.  count: floats of the larger buffer, a multiple of nRanks where blocks are exchanged.
struct Place {
  tuttiComm_t comm;
  tuttiStream_t stream;
  float* send;
  float* recv;
  size_t count;
  int rank;
  int nRanks;
};

struct Case {
  const char* name;
  tuttiResult_t (*call)(const Place& p);
  /// Of nccl-tests: bus bandwidth is algorithm bandwidth times this.
  double (*busFactor)(double n);
  /// Bytes read and written in the device's memory by all ranks together, per byte of `bytes`, at the least.
  double (*traffic)(double n);
  /// Element i of rank r's result if element i of each rank q's input is q + 1; negative: r has none.
  float (*expected)(int r, int n, size_t i, size_t count);
  bool blocks;  // count is divided among the ranks
};

inline float sumOfRanks(int n) { return static_cast<float>(n) * static_cast<float>(n + 1) / 2; }
inline float blockOwner(int n, size_t i, size_t count) {
  return static_cast<float>(i / (count / static_cast<size_t>(n)) + 1);
}

inline const Case kCases[] = {
    {"allreduce",
     [](const Place& p) { return tuttiAllReduce(p.send, p.recv, p.count, tuttiFloat, tuttiSum, p.comm, p.stream); },
     [](double n) { return 2 * (n - 1) / n; }, [](double n) { return 2 * n; },
     [](int, int n, size_t, size_t) { return sumOfRanks(n); }, false},
    {"allgather",
     [](const Place& p) {
       return tuttiAllGather(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, p.comm, p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double n) { return n + 1; },
     [](int, int n, size_t i, size_t count) { return blockOwner(n, i, count); }, true},
    {"reducescatter",
     [](const Place& p) {
       return tuttiReduceScatter(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, tuttiSum, p.comm,
                                 p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double n) { return n + 1; },
     [](int, int n, size_t i, size_t count) { return i < count / static_cast<size_t>(n) ? sumOfRanks(n) : -1.0F; },
     true},
    {"alltoall",
     [](const Place& p) {
       return tuttiAllToAll(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, p.comm, p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double n) { return 2 * n; },
     [](int, int n, size_t i, size_t count) { return blockOwner(n, i, count); }, true},
    {"broadcast",
     [](const Place& p) { return tuttiBroadcast(p.send, p.recv, p.count, tuttiFloat, 0, p.comm, p.stream); },
     [](double) { return 1.0; }, [](double n) { return n + 1; }, [](int, int, size_t, size_t) { return 1.0F; }, false},
    {"reduce",
     [](const Place& p) { return tuttiReduce(p.send, p.recv, p.count, tuttiFloat, tuttiSum, 0, p.comm, p.stream); },
     [](double) { return 1.0; }, [](double n) { return n + 1; },
     [](int r, int n, size_t, size_t) { return r == 0 ? sumOfRanks(n) : -1.0F; }, false},
    {"gather",
     [](const Place& p) {
       return tuttiGather(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, 0, p.comm, p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double) { return 2.0; },
     [](int r, int n, size_t i, size_t count) { return r == 0 ? blockOwner(n, i, count) : -1.0F; }, true},
    {"scatter",
     [](const Place& p) {
       return tuttiScatter(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, 0, p.comm, p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double) { return 2.0; },
     [](int, int n, size_t i, size_t count) { return i < count / static_cast<size_t>(n) ? 1.0F : -1.0F; }, true},
    {"sendrecv",
     [](const Place& p) {
       tuttiGroupStart();
       tuttiSend(p.send, p.count, tuttiFloat, (p.rank + 1) % p.nRanks, p.comm, p.stream);
       tuttiRecv(p.recv, p.count, tuttiFloat, (p.rank + p.nRanks - 1) % p.nRanks, p.comm, p.stream);
       return tuttiGroupEnd();
     },
     [](double) { return 1.0; }, [](double n) { return 2 * n; },
     [](int r, int n, size_t, size_t) { return static_cast<float>((r + n - 1) % n + 1); }, false},
};

}  // namespace tutti::gpuperf

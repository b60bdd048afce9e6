// The collectives that are measured: how they are called, the least that they move, and what must come out.
//
// Sizes are nccl-tests': `bytes` is of the larger of a rank's two buffers.
#pragma once

#include <cstddef>

#include "perf/gpu/library.hpp"

namespace tutti::gpuperf {

/// One rank's part of a call.  count: floats of the larger buffer, a multiple of nRanks where blocks are exchanged.
struct Place {
  const Library* library;
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
  bool (*has)(const Library& l);
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
    {"allreduce", [](const Library& l) { return l.allReduce != nullptr; },
     [](const Place& p) {
       return p.library->allReduce(p.send, p.recv, p.count, tuttiFloat, tuttiSum, p.comm, p.stream);
     },
     [](double n) { return 2 * (n - 1) / n; }, [](double n) { return 2 * n; },
     [](int, int n, size_t, size_t) { return sumOfRanks(n); }, false},
    {"allgather", [](const Library& l) { return l.allGather != nullptr; },
     [](const Place& p) {
       return p.library->allGather(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, p.comm,
                                   p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double n) { return n + 1; },
     [](int, int n, size_t i, size_t count) { return blockOwner(n, i, count); }, true},
    {"reducescatter", [](const Library& l) { return l.reduceScatter != nullptr; },
     [](const Place& p) {
       return p.library->reduceScatter(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, tuttiSum,
                                       p.comm, p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double n) { return n + 1; },
     [](int, int n, size_t i, size_t count) { return i < count / static_cast<size_t>(n) ? sumOfRanks(n) : -1.0F; },
     true},
    {"alltoall", [](const Library& l) { return l.allToAll != nullptr; },
     [](const Place& p) {
       return p.library->allToAll(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, p.comm,
                                  p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double n) { return 2 * n; },
     [](int, int n, size_t i, size_t count) { return blockOwner(n, i, count); }, true},
    {"broadcast", [](const Library& l) { return l.broadcast != nullptr; },
     [](const Place& p) { return p.library->broadcast(p.send, p.recv, p.count, tuttiFloat, 0, p.comm, p.stream); },
     [](double) { return 1.0; }, [](double n) { return n + 1; }, [](int, int, size_t, size_t) { return 1.0F; }, false},
    {"reduce", [](const Library& l) { return l.reduce != nullptr; },
     [](const Place& p) {
       return p.library->reduce(p.send, p.recv, p.count, tuttiFloat, tuttiSum, 0, p.comm, p.stream);
     },
     [](double) { return 1.0; }, [](double n) { return n + 1; },
     [](int r, int n, size_t, size_t) { return r == 0 ? sumOfRanks(n) : -1.0F; }, false},
    {"gather", [](const Library& l) { return l.gather != nullptr; },
     [](const Place& p) {
       return p.library->gather(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, 0, p.comm,
                                p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double) { return 2.0; },
     [](int r, int n, size_t i, size_t count) { return r == 0 ? blockOwner(n, i, count) : -1.0F; }, true},
    {"scatter", [](const Library& l) { return l.scatter != nullptr; },
     [](const Place& p) {
       return p.library->scatter(p.send, p.recv, p.count / static_cast<size_t>(p.nRanks), tuttiFloat, 0, p.comm,
                                 p.stream);
     },
     [](double n) { return (n - 1) / n; }, [](double) { return 2.0; },
     [](int, int n, size_t i, size_t count) { return i < count / static_cast<size_t>(n) ? 1.0F : -1.0F; }, true},
    {"sendrecv", [](const Library& l) { return l.send != nullptr; },
     [](const Place& p) {
       p.library->groupStart();
       p.library->send(p.send, p.count, tuttiFloat, (p.rank + 1) % p.nRanks, p.comm, p.stream);
       p.library->recv(p.recv, p.count, tuttiFloat, (p.rank + p.nRanks - 1) % p.nRanks, p.comm, p.stream);
       return p.library->groupEnd();
     },
     [](double) { return 1.0; }, [](double n) { return 2 * n; },
     [](int r, int n, size_t, size_t) { return static_cast<float>((r + n - 1) % n + 1); }, false},
};

}  // namespace tutti::gpuperf

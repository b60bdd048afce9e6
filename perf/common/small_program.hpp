// What the small programs have in common that measure on one communicator of all ranks.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "tutti/tutti.h"

namespace tutti::perf {

struct Ranks {
  tuttiComm_t comm = nullptr;
  int rank = 0;
  int nRanks = 1;
};

/// Ends the process with status 3 and the library's sentence if a call has failed.
inline void check(tuttiResult_t result, const char* what) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, tuttiGetLastError(nullptr));
  std::exit(3);
}

/// The ranks that a launcher has started.
inline Ranks joinRanks() {
  Ranks w;
  check(tuttiCommInitEnv(&w.comm, nullptr), "CommInitEnv");
  check(tuttiCommUserRank(w.comm, &w.rank), "CommUserRank");
  check(tuttiCommCount(w.comm, &w.nRanks), "CommCount");
  return w;
}

/// The same on all ranks.
inline double overRanks(const Ranks& w, double value, tuttiRedOp_t op) {
  check(tuttiAllReduce(&value, &value, 1, tuttiFloat64, op, w.comm, nullptr), "AllReduce");
  return value;
}

}  // namespace tutti::perf

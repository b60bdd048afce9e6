// Programs whose ranks do not make the same calls: one case a row, and what one rank does in it.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "tutti/tutti.h"

namespace tutti::test {

int64_t nowUs();

/// One rank of a program.  Every call that it makes goes through make(), which notes when it entered the call.
struct Player {
  int rank = 0, nRanks = 0, odd = 0;  // odd: does something else than the others
  size_t count = 16;
  int variant = 0;  // of a case that has several
  tuttiComm_t comm = nullptr, other = nullptr;
  tuttiComm_t left = nullptr, right = nullptr;  // each of two ranks, around a ring
  std::atomic<int64_t>* enteredUs = nullptr;
  float *in = nullptr, *out = nullptr;

  bool isOdd() const { return rank == odd; }
  int next() const { return (odd + 1) % nRanks; }  // the other one of cases of two
  void enter() const { enteredUs->store(nowUs()); }
  tuttiResult_t allReduce(size_t elements, tuttiComm_t on = nullptr) const;
  /// The variant's collective with these arguments.
  tuttiResult_t collective(size_t elements, tuttiDataType_t type, tuttiRedOp_t op, int root) const;
};

/// Whom the error has to name.
enum class Culprit { Odd, OneOfTwo, Nobody };
struct Case {
  const char* name;
  int nVariants;
  Culprit culprit;
  tuttiResult_t (*play)(const Player&);
};
std::span<const Case> allCases();

}  // namespace tutti::test

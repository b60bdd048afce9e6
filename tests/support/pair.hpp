// A communicator of two ranks in one process.
#pragma once

#include <catch2/catch.hpp>

#include "tutti/tutti.h"

namespace tutti::test {

/// Both ranks of it.
struct Pair {
  Pair() { REQUIRE(tuttiCommInitAll(ranks, 2, nullptr) == tuttiSuccess); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    for (const tuttiComm_t rank : ranks) (void)tuttiCommAbort(rank);  // refused where the test has done so
  }
  tuttiComm_t ranks[2] = {};
};

}  // namespace tutti::test

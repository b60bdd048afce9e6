// One test for every transport.
#pragma once

#include <catch2/catch.hpp>
#include <utility>

#include "tests/conformance/traffic.hpp"

namespace tutti::conformance {

// What polling came to.  As a condition an error is false: the value of one would be anything.
struct Answer : Result<bool> {
  Answer(Result<bool> result) : Result<bool>(std::move(result)) {}
  bool operator*() const { return ok() && value(); }
};

// Poll until it says something: true, an error, or false when patience ends.
template <class Call>
Answer poll(Harness& harness, Call call, int64_t patienceMs = 10'000) {
  const Deadline deadline = Deadline::inMs(patienceMs);
  while (!deadline.passed()) {
    Result<bool> result = call();
    if (!result.ok() || *result) return result;
    harness.pump();
  }
  return Result<bool>(false);
}

// A section for every transport, each with a fresh endpoint.
template <class Body>
void forEachTransport(Body body) {
  for (const Row& row : rows()) {
    DYNAMIC_SECTION(row.name) {
      const auto harness = row.make();
      Result<Pair> pair = harness->open(0);
      REQUIRE(pair.status().message() == "");
      body(*harness, *pair);
    }
  }
}

}  // namespace tutti::conformance

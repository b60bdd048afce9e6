// Every collective through the C API, ranks as threads: sizes, roots, in place, alignment, streams.
#include <catch2/catch.hpp>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

TEST_CASE("every collective gives the right elements") {
  const int nRanks = GENERATE(1, 2, 3, 4, 5, 8);
  const bool inPlace = GENERATE(false, true);
  CAPTURE(nRanks, inPlace);
  CHECK(onRanks(nRanks, [&](const Rank& r) {
          for (const size_t count : {0, 1, 3, 64, 1000, 40000}) {
            for (const int root : {0, r.nRanks - 1}) {
              const std::string why = checkEverything(r, {.count = count, .inPlace = inPlace, .root = root});
              if (!why.empty()) return why;
            }
          }
          return std::string();
        }) == "");
}

TEST_CASE("buffers may have any alignment") {
  const size_t shift = GENERATE(1, 2, 3, 33);
  CAPTURE(shift);
  CHECK(onRanks(3, [&](const Rank& r) { return checkEverything(r, {.count = 1001, .shift = shift, .root = 1}); }) ==
        "");
}

TEST_CASE("calls on a stream run in order behind the caller's back") {
  CHECK(onRanks(3, [&](const Rank& r) {
          tuttiStream_t stream = nullptr;
          RANK_TRY(tuttiStreamCreate(&stream));
          std::string why = checkEverything(r, {.count = 5000, .stream = stream});
          if (!why.empty()) return why;
          // Many in flight, each on the result of the one before.
          float value = 1;
          for (int i = 0; i < 10; ++i) {
            RANK_TRY(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiMax, r.comm, stream));
            RANK_TRY(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, r.comm, stream));
            RANK_TRY(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiAvg, r.comm, stream));
          }
          RANK_TRY(tuttiStreamSynchronize(stream));
          RANK_CHECK(value == 59049.0f);  // 3^10
          RANK_CHECK(tuttiStreamQuery(stream) == tuttiSuccess);
          RANK_TRY(tuttiStreamDestroy(stream));
          return std::string();
        }) == "");
}

// One error per job: which lines tutti-run prints, and whom it names.
#include "tools/run/same_errors.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace tutti::run;
using namespace std::chrono_literals;

namespace {

const SameErrors::Clock::time_point kStart{};
const std::string kError = "prog: rank 1 called Broadcast where rank 0 called AllReduce [TUTTI-5201]\n";

}  // namespace

TEST_CASE("the first of an error is printed, and the others are named when they had time to say it") {
  SameErrors same(4);
  CHECK_FALSE(same.repeats(2, kError, kStart));
  CHECK_FALSE(same.due().has_value());
  CHECK(same.repeats(0, kError, kStart + 1ms));
  CHECK(same.repeats(3, kError, kStart + 5ms));
  CHECK(same.summaries(kStart + 50ms, false).empty());
  CHECK(same.due() == kStart + 1ms + SameErrors::kSettleMs);
  CHECK(same.summaries(*same.due(), false) == "tutti-run: ranks 0 and 3 say the same as rank 2 [TUTTI-5201]\n");
  CHECK_FALSE(same.due().has_value());
  CHECK(same.repeats(1, kError, kStart + 1h));
  CHECK(same.summaries(kStart, true) == "tutti-run: rank 1 says the same as rank 2 [TUTTI-5201]\n");
}

TEST_CASE("where all have said it nobody is waited for") {
  SameErrors same(3);
  CHECK_FALSE(same.repeats(0, kError, kStart));
  CHECK(same.repeats(1, kError, kStart));
  CHECK(same.summaries(kStart, false).empty());
  CHECK(same.repeats(2, kError, kStart));
  CHECK(same.summaries(kStart, false) == "tutti-run: ranks 1 and 2 say the same as rank 0 [TUTTI-5201]\n");
}

TEST_CASE("what differs, has no code, or comes again from the same rank is printed") {
  SameErrors same(4);
  CHECK_FALSE(same.repeats(0, kError, kStart));
  CHECK_FALSE(same.repeats(1, "prog: another thing [TUTTI-5201]\n", kStart));
  for (const char* plain : {"step 3\n", "[TUTTI-]\n", "[TUTTI-52x1]\n", "[TUTTI-5201\n", "[TUTTI-52"}) {
    CHECK_FALSE(same.repeats(0, plain, kStart));
    CHECK_FALSE(same.repeats(1, plain, kStart));
  }
  CHECK_FALSE(same.repeats(0, kError, kStart + 1s));
  CHECK(same.repeats(1, kError, kStart + 1s));
  CHECK_FALSE(same.repeats(1, kError, kStart + 1s));  // while its first is not named yet
}

TEST_CASE("ranks that say it of themselves say the same") {
  SameErrors same(2);
  CHECK_FALSE(same.repeats(1, "sendbuff is NULL (rank 1 of 2) [TUTTI-4001]\n", kStart));
  CHECK(same.repeats(0, "sendbuff is NULL (rank 0 of 2) [TUTTI-4001]\n", kStart));
  SameErrors other(3);
  CHECK_FALSE(other.repeats(1, "sendbuff is NULL (rank 1 of 3) [TUTTI-4001]\n", kStart));
  CHECK_FALSE(other.repeats(0, "sendbuff is NULL (rank 2 of 3) [TUTTI-4001]\n", kStart));
}

TEST_CASE("no line is lost, however many differ") {
  SameErrors same(2);
  const auto line = [](int i) { return "error " + std::to_string(i) + " [TUTTI-5000]\n"; };
  for (int i = 0; i < 200; ++i) CHECK_FALSE(same.repeats(0, line(i), kStart));
  int named = 0, printed = 0;
  for (int i = 0; i < 200; ++i) (same.repeats(1, line(i), kStart) ? named : printed)++;
  const std::string summaries = same.summaries(kStart, true);
  CHECK(std::count(summaries.begin(), summaries.end(), '\n') == named);
  CHECK(named + printed == 200);
  CHECK(printed > 0);
}

TEST_CASE("lists of ranks read well") {
  CHECK(listedRanks({3}) == "3");
  CHECK(listedRanks({3, 4}) == "3 and 4");
  CHECK(listedRanks({0, 1, 2}) == "0 to 2");
  CHECK(listedRanks({0, 2, 3, 4, 9}) == "0, 2 to 4 and 9");
}

// Several communicators used from several threads at once, many ranks, and large counts.
#include <catch2/catch.hpp>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

TEST_CASE("several communicators are used from several threads at once") {
  std::vector<std::string> complaints(4);
  std::vector<std::thread> jobs;
  for (size_t j = 0; j < complaints.size(); ++j) {
    jobs.emplace_back([&, j] {
      complaints[j] = onRanks(2 + static_cast<int>(j % 2), [&](const Rank& r) {
        return checkEverything(r, {.count = 500 + 300 * j, .inPlace = j % 2 == 1});
      });
    });
  }
  for (std::thread& job : jobs) job.join();
  for (const std::string& complaint : complaints) CHECK(complaint == "");
}

TEST_CASE("many ranks come up and reduce") {
  const int nRanks = GENERATE(17, 64);
  CAPTURE(nRanks);
  CHECK(onRanks(nRanks, [](const Rank& r) {
          std::string why = checkAllReduce(r, {.count = 1000});
          if (why.empty()) why = checkAllGather(r, {.count = 10});
          if (why.empty()) why = checkBroadcast(r, {.count = 5000, .root = 3});
          return why;
        }) == "");
}

#include "src/base/threads.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <latch>

#include "tests/support/no_threads.hpp"

using namespace tutti;

TEST_CASE("a thread that cannot be had is an error that says what for and what to raise, and its work is gone") {
  auto work = std::make_shared<int>(0);
  const test::NoThreads none;
  const Result<std::thread> thread = startThread("a test", [work] { ++*work; });
  REQUIRE_FALSE(thread.ok());
  CHECK(thread.status().code() == tuttiSystemError);
  CHECK(thread.status().kind() == ErrorCode::NoThread);
  const std::string& why = thread.status().message();
  CHECK(why.find("cannot start a thread for a test: Resource temporarily unavailable (errno 11); raise `ulimit -u`") ==
        0);
  CHECK(why.find("the container's limit of pids") != std::string::npos);
  CHECK(work.use_count() == 1);
  CHECK(*work == 0);
}

TEST_CASE("a thread that can be had runs") {
  int ran = 0;
  Result<std::thread> thread = startThread("a test", [&] { ++ran; });
  REQUIRE(thread.ok());
  thread->join();
  CHECK(ran == 1);
}

TEST_CASE("tasks that run together meet, and each gives its own end") {
  std::latch all(3);
  std::vector<std::function<Status()>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.emplace_back([&all, i]() -> Status {
      all.arrive_and_wait();
      if (i == 2) throw std::bad_alloc();
      return i == 1 ? invalidUsage(ErrorCode::NoGroup, "the second") : Status();
    });
  }
  const auto ends = runTogether("tests", tasks);
  REQUIRE(ends.ok());
  REQUIRE(ends->size() == 3);
  CHECK((*ends)[0].ok());
  CHECK((*ends)[1].message() == "the second");
  CHECK((*ends)[2].kind() == ErrorCode::NoMemory);
}

TEST_CASE("the first of tasks that run together has the caller's thread") {
  std::thread::id where;
  const auto here = [&] {
    where = std::this_thread::get_id();
    return Status();
  };
  const test::NoThreads none;
  CHECK(runTogether("tests", {}).ok());
  CHECK(runTogether("tests", {here}).ok());
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("none of the tasks runs where not all can") {
  std::atomic<int> ran{0};
  const auto task = [&] {
    ++ran;
    return Status();
  };
  const test::NoThreads none;
  const auto ends = runTogether("each of two", {task, task});
  REQUIRE_FALSE(ends.ok());
  CHECK(ends.status().message().find("cannot start a thread for each of two: ") == 0);
  CHECK(ran == 0);
}

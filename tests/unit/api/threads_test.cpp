// Several communicators used from several threads at once, many ranks, and large counts.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>

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

namespace {

enum class Helped { Not, Later, FromTheStart };

/// Two ranks with two communicators each, which rank 1 uses in the opposite order.  helped: rank 0 has a second thread
/// for the second one, late, so that all goes well; later: it has made no call before.
std::string useInTurn(const Rank& r, Helped help, std::atomic<int>* failed) {
  const bool helped = help != Helped::Not;
  tuttiComm_t other = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &other, nullptr));
  const auto sum = [&](tuttiComm_t comm) {
    float value = 1;
    return tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr);
  };
  tuttiResult_t first = tuttiSuccess, second = tuttiSuccess;
  RANK_TRY(sum(r.comm));
  if (r.rank == 0 && helped) {
    std::thread helper([&] {
      if (help == Helped::FromTheStart) second = sum(other);
      if (second != tuttiSuccess) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(150));  // several inquiries
      second = sum(other);
    });
    first = sum(r.comm);
    helper.join();
  } else {
    if (help == Helped::FromTheStart) RANK_TRY(sum(other));
    first = sum(r.rank == 0 ? r.comm : other);
    if (first == tuttiSuccess) second = sum(r.rank == 0 ? other : r.comm);
  }
  const std::string text = tuttiGetLastError(r.rank == 0 ? r.comm : other);
  failed->fetch_add(1);
  for (int i = 0; i < 2000 && failed->load() < 2; ++i)  // who goes first ends the other's wait
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  (void)tuttiCommAbort(other);
  if (helped) return first == tuttiSuccess && second == tuttiSuccess ? "" : "refused: " + text;
  RANK_CHECK(first == tuttiInvalidUsage);
  return text.find("ranks that share two communicators must use them in the same order") == std::string::npos ? text
                                                                                                              : "";
}

}  // namespace

TEST_CASE("communicators used in opposite order are found, but not where another thread is to make the call") {
  const Helped helped = GENERATE(Helped::Not, Helped::Later, Helped::FromTheStart);
  CAPTURE(static_cast<int>(helped));
  std::atomic<int> failed{0};
  CHECK(onThreads(2, [&](int rank, const tuttiUniqueId& id) {
          tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
          config.timeoutMs = helped == Helped::Not ? 700 : 20'000;  // there are other threads, so it is said then
          tuttiComm_t comm = nullptr;
          RANK_TRY(tuttiCommInitRankConfig(&comm, 2, id, rank, &config));
          const std::string complaint = useInTurn({rank, 2, comm}, helped, &failed);
          (void)tuttiCommAbort(comm);
          return complaint;
        }) == "");
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

TEST_CASE("an abort in the middle of large transfers ends them all, and no memory is touched afterwards") {
  // Ranks of one process read each other's buffers where they lie, so that giving up must wait for readers, who may be
  // giving up as well.
  const std::string algorithm = GENERATE(std::string("ring"), std::string("oneshot"));
  CAPTURE(algorithm);
  setenv("TUTTI_ALGO", ("allreduce:" + algorithm).c_str(), 1);
  for (int round = 0; round < 20; ++round) {
    const int aborter = round % 3;
    std::vector<tuttiResult_t> results(3, tuttiSuccess);
    const std::string complaints = onRanks(3, [&](const Rank& r) {
      tuttiResult_t& result = results[static_cast<size_t>(r.rank)];
      result = tuttiBarrier(r.comm, nullptr);  // an abort before that could keep others from joining at all
      std::thread abort;
      if (r.rank == aborter) {
        abort = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
          tuttiCommAbort(r.comm);
        });
      }
      while (result == tuttiSuccess) {
        std::vector<float> x(200'000, 1);  // gone as soon as the call returns
        result = tuttiAllReduce(x.data(), x.data(), x.size(), tuttiFloat32, tuttiSum, r.comm, nullptr);
      }
      if (abort.joinable()) abort.join();
      return std::string("ends with an abort");
    });
    CAPTURE(round, complaints);
    for (const tuttiResult_t result : results) CHECK(result != tuttiSuccess);
  }
  unsetenv("TUTTI_ALGO");
}

TEST_CASE("a communicator can be aborted while other threads ask it, call it and destroy it") {
  for (int round = 0; round < 20; ++round) {
    const std::string complaints = onRanks(2, [&](const Rank& r) -> std::string {
      (void)tuttiBarrier(r.comm, nullptr);  // the other rank may be through and have aborted
      std::vector<std::thread> others;
      std::atomic<bool> wrong{false};
      const auto untilItEnds = [&](auto call) {
        others.emplace_back([call] {
          while (call() == tuttiSuccess) std::this_thread::yield();
        });
      };
      untilItEnds([&] {
        int count = 2;
        const tuttiResult_t result = tuttiCommCount(r.comm, &count);
        if (count != 2) wrong = true;
        return result;
      });
      untilItEnds([&] {
        tuttiResult_t state = tuttiSuccess;
        const tuttiResult_t result = tuttiCommGetAsyncError(r.comm, &state);
        return result == tuttiSuccess ? state : result;
      });
      untilItEnds([&] {
        std::vector<int> x(100, 1);
        return tuttiAllReduce(x.data(), x.data(), x.size(), tuttiInt32, tuttiSum, r.comm, nullptr);
      });
      // One waits for the other rank's farewell, which never comes.
      if (r.rank == 0 && round % 2 == 0) others.emplace_back([&] { (void)tuttiCommDestroy(r.comm); });
      std::this_thread::sleep_for(std::chrono::microseconds(200 * (round % 5)));
      const tuttiResult_t aborted = tuttiCommAbort(r.comm);
      for (std::thread& other : others) other.join();
      const bool twice = aborted == tuttiInvalidArgument && r.rank == 0;  // the other thread was first
      return aborted != tuttiSuccess && !twice ? "abort: " + std::to_string(aborted) : wrong ? "count" : "as it should";
    });
    CAPTURE(round);
    CHECK(complaints == "rank 0: as it should\nrank 1: as it should\n");
  }
}

// TUTTI_RETRY=1: ranks as processes reduce and gather in place, one kills itself at a random moment, and the others
// shrink and make the call again.  All that live have then finished the same calls, and the inputs of the one that
// failed are as they were.  A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/collective_check.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"
#include "tests/support/variable.hpp"

using namespace tutti::test;

namespace {

struct Plan {
  int nRanks = 0, victim = 0, diesUs = 0;
  bool tcp = false, streams = false;
  size_t count = 0;  // elements of a rank's block
};

Plan planOf(uint64_t seed) {
  std::mt19937_64 dice(seed);
  Plan plan;
  plan.nRanks = 3 + static_cast<int>(dice() % 3);
  plan.victim = static_cast<int>(dice() % static_cast<uint64_t>(plan.nRanks));
  plan.diesUs = static_cast<int>(dice() % 20'000);
  plan.tcp = dice() % 3 == 0;
  plan.streams = dice() % 4 == 0;
  plan.count = dice() % 2 == 0 ? 5 : 20'000;
  return plan;
}

/// One rank: what it has, and on which communicator.
class Job {
 public:
  Job(const Plan& plan, int rank, tuttiComm_t comm) : plan_(plan), rank_(rank), comm_(comm) {
    members_.resize(static_cast<size_t>(plan.nRanks));
    std::iota(members_.begin(), members_.end(), 0);
    if (plan.streams && tuttiStreamCreate(&stream_) != tuttiSuccess) stream_ = nullptr;
  }

  /// "" or what is wrong.
  std::string run() {
    for (bool shrunk = false; !shrunk || after_ < 20; after_ += shrunk ? 1 : 0) {
      fill();
      const std::vector<uint32_t> before = data_;
      tuttiResult_t result = call();
      if (result == tuttiSuccess) {
        if (std::string why = check(); !why.empty()) return why;
        ++calls_;
        continue;
      }
      if (data_ != before) return where() + " failed, and its input is not as it was";
      if (std::string why = shrink(); !why.empty()) return why;
      shrunk = true;
    }
    return failed(tuttiCommDestroy(comm_), "destroy", comm_);
  }

 private:
  enum Kind : int { Sum, Gather, Scatter, Group, kKinds };
  Kind kind() const { return static_cast<Kind>(calls_ % kKinds); }
  std::string where() const { return "call " + std::to_string(calls_) + " of kind " + std::to_string(kind()); }
  size_t n() const { return members_.size(); }
  uint32_t* block(size_t member) { return data_.data() + member * plan_.count; }
  uint32_t valueOf(int rank) const { return static_cast<uint32_t>(1000 * rank + calls_); }

  void fill() {
    data_.assign(n() * plan_.count, valueOf(rank_));
    other_.assign(plan_.count, valueOf(rank_));
  }
  tuttiResult_t make() {
    int me = 0;
    if (tuttiCommUserRank(comm_, &me) != tuttiSuccess) return tuttiInternalError;
    uint32_t* const mine = block(static_cast<size_t>(me));
    const size_t all = data_.size();
    switch (kind()) {
      case Sum: return tuttiAllReduce(data_.data(), data_.data(), all, tuttiUint32, tuttiSum, comm_, stream_);
      case Gather: return tuttiAllGather(mine, data_.data(), plan_.count, tuttiUint32, comm_, stream_);
      case Scatter: return tuttiReduceScatter(data_.data(), mine, plan_.count, tuttiUint32, tuttiSum, comm_, stream_);
      default: break;
    }
    // The second call's output is what the first one has read.
    (void)tuttiGroupStart();
    (void)tuttiAllReduce(data_.data(), other_.data(), plan_.count, tuttiUint32, tuttiSum, comm_, stream_);
    (void)tuttiAllReduce(other_.data(), data_.data(), plan_.count, tuttiUint32, tuttiMax, comm_, stream_);
    return tuttiGroupEnd();
  }
  tuttiResult_t call() {
    const tuttiResult_t made = make();
    return made == tuttiSuccess && stream_ != nullptr ? tuttiStreamSynchronize(stream_) : made;
  }

  std::string check() {
    uint32_t sum = 0;
    for (const int member : members_) sum += valueOf(member);
    for (size_t member = 0; member < n(); ++member) {
      const bool own = members_[member] == rank_;
      uint32_t expected = kind() == Gather ? valueOf(members_[member]) : sum;
      if (kind() == Scatter && !own) continue;
      if (kind() == Group && member > 0) expected = valueOf(rank_);
      for (size_t i = 0; i < plan_.count; ++i) {
        if (block(member)[i] != expected) return where() + " succeeded with a wrong element " + std::to_string(i);
      }
    }
    return "";
  }

  /// All that are left have finished the same calls.
  std::string shrink() {
    tuttiComm_t rest = nullptr;
    RANK_TRY(tuttiCommShrink(comm_, nullptr, 0, &rest, nullptr, TUTTI_SHRINK_ABORT));
    RANK_TRY(tuttiCommAbort(comm_));
    comm_ = rest;
    if (stream_ != nullptr) {
      (void)tuttiStreamDestroy(stream_);
      RANK_TRY(tuttiStreamCreate(&stream_));
    }
    int size = 0;
    RANK_TRY(tuttiCommCount(comm_, &size));
    std::vector<int> told(2 * static_cast<size_t>(size));
    const int mine[] = {calls_, rank_};
    RANK_TRY(tuttiAllGather(mine, told.data(), 2, tuttiInt32, comm_, nullptr));
    members_.clear();
    for (size_t i = 0; i < told.size(); i += 2) {
      if (told[i] != calls_) {
        return "rank " + std::to_string(told[i + 1]) + " has finished " + std::to_string(told[i]) +
               " calls, and rank " + std::to_string(rank_) + " " + std::to_string(calls_);
      }
      members_.push_back(told[i + 1]);
    }
    return "";
  }

  const Plan& plan_;
  const int rank_;
  tuttiComm_t comm_;
  tuttiStream_t stream_ = nullptr;
  std::vector<int> members_;  // by their ranks in the first communicator
  std::vector<uint32_t> data_, other_;
  int calls_ = 0;  // finished
  int after_ = 0;  // of those, on what was left
};

std::string oneRank(const Plan& plan, int rank, const tuttiUniqueId& id) {
  tuttiComm_t comm = nullptr;
  RANK_TRY(tuttiCommInitRank(&comm, plan.nRanks, id, rank));
  (void)tuttiBarrier(comm, nullptr);
  if (rank == plan.victim) {
    std::thread([&plan] {
      std::this_thread::sleep_for(std::chrono::microseconds(plan.diesUs));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  std::string why = Job(plan, rank, comm).run();
  if (rank == plan.victim) std::this_thread::sleep_for(std::chrono::seconds(30));
  return why;
}

}  // namespace

TEST_CASE("after a death all have finished the same calls, and the next is made again on inputs as they were",
          "[thorough]") {
  const Variable retry("TUTTI_RETRY", "1");
  for (const uint64_t seed : tutti::testSeeds(1, kThorough ? 200 : 12)) {
    const Plan plan = planOf(seed);
    CAPTURE(seed, plan.nRanks, plan.victim, plan.diesUs, plan.tcp, plan.streams, plan.count);
    const Variable transports("TUTTI_TRANSPORTS", plan.tcp ? "tcp" : "shm");
    const std::vector<int> ends =
        onProcesses(plan.nRanks, [&](int rank, const UniqueIds& ids) { return oneRank(plan, rank, ids[0]); });
    CHECK(unlessEnded(ends, [&](int rank) { return rank == plan.victim; }) == "");
  }
}

TEST_CASE("inputs of calls in place cost a copy and all else stays as it is") {
  const Variable retry("TUTTI_RETRY", "1");
  CHECK(onRanks(3, [](const Rank& r) { return checkEverything(r, {.count = 500, .inPlace = true}); }) == "");
  CHECK(onRanks(3, [](const Rank& r) { return checkEverything(r, {.count = 500, .inPlace = false}); }) == "");
}

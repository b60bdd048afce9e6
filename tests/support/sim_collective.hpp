// A whole collective over simulated links: every rank's plan is run by the library's executor, all in one thread and in
// virtual time, which jumps whenever nobody can move.
//
//   SimCollective job(schedules, {.seed = seed, .links = {.slots = 2, .slotBytes = 256}, .jitterNs = 50'000});
//   job.world().at(100'000, [&] { job.fabric().kill(3); });   // optional
//   CHECK(job.run() == "");                                   // who waits for whom, which element is wrong, ...
//   CHECK(job.endNs() == ...);
//
// What ranks do costs no virtual time; messages do (tests/support/sim/README.md).  A seed replays exactly.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "src/exec/collective_run.hpp"
#include "tests/support/sim/fabric.hpp"
#include "tests/support/vectors.hpp"

namespace tutti::test {

struct SimCollectiveOptions {
  uint64_t seed = 1;
  size_t count = 100;  // elements of 4 bytes, as Vectors has it
  SimOptions links = {};
  int64_t latencyNs = 1'000;
  int64_t jitterNs = 0;       // by chance, up to this much more per message
  int64_t startSpreadNs = 0;  // ranks begin at random within this time
  bool leaveOnError = false;  // a rank whose run has failed closes its endpoints, as an aborted communicator does
};

/// One thread.  Runs once.
class SimCollective {
 public:
  /// One schedule per rank; slots must be at least what they need.
  SimCollective(std::vector<Schedule> schedules, const SimCollectiveOptions& options);
  ~SimCollective();

  SimWorld& world() { return world_; }
  SimFabric& fabric() { return fabric_; }
  int nRanks() const { return static_cast<int>(schedules_.size()); }

  /// Until every rank has ended or nothing is left that could happen.  "" if all ranks are done with the right results,
  /// else what happened: a wrong element, a rank's error, or who waits for whom.
  std::string run();

  enum class State { NotBegun, Running, Done, Failed };
  State state(int rank) const { return ranks_[static_cast<size_t>(rank)].state; }
  const Status& error(int rank) const { return ranks_[static_cast<size_t>(rank)].error; }
  /// When the last rank got done.
  int64_t endNs() const { return endNs_; }
  /// "" or what is wrong with a rank that is done: an element of its buffers, or that it left a barrier too early.
  std::string wrongResult(int rank) const;
  /// "rank 2 lane 0 waits for rank 1" for every lane of every rank that has begun and not ended.
  std::string describeWaits() const;
  /// After run(): "" if whoever has not ended waits for one of these, or for a rank that has failed, or for a rank that
  /// waits for such a one, and so on; else the rank whose wait leads elsewhere.
  std::string checkWaitsLeadTo(const std::vector<int>& culprits) const;

 private:
  struct Rank {
    std::unique_ptr<Transport> transport;
    std::map<std::pair<int, int>, std::unique_ptr<Endpoint>> endpoints;  // by peer, lane
    std::unique_ptr<Plan> plan;
    std::unique_ptr<CollectiveRun> run;
    State state = State::NotBegun;
    Status error;
    int64_t beginNs = 0;
    int64_t doneNs = 0;
    bool queued = false;
  };

  void bind(int rank, const SimCollectiveOptions& options);
  Result<Endpoint*> endpoint(int rank, int peer, int lane);
  void begin(int rank);
  void wake(int rank);
  void stepAwake();
  void step(int rank);
  void fail(int rank, const Status& error);
  std::string complaint() const;
  std::string followWait(int rank, size_t lane, const std::vector<int>& culprits) const;

  const std::vector<Schedule> schedules_;
  const bool leaveOnError_;
  SimWorld world_;
  SimFabric fabric_;
  Vectors vectors_;
  std::vector<Rank> ranks_;
  std::vector<int> awake_;  // ranks to be stepped
  int nEnded_ = 0;
  int64_t endNs_ = 0;
};

}  // namespace tutti::test

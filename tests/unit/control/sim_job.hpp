// A job of virtual ranks for tests: joins, gathers, idles, maybe inquires, leaves; something may go wrong meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/control/bootstrap_node.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/sim/world.hpp"

namespace tutti {

inline constexpr int64_t kUs = 1'000;
inline constexpr int64_t kSecond = 1'000'000'000;

struct JobOptions {
  int nRanks = 2;
  int nGathers = 3;
  int window = 1;  // gathers outstanding at once
  size_t blobBytes = 20;
  int64_t startSpreadNs = 0;         // ranks start at random within this
  int64_t idleNs = 0;                // between gathers and leaving
  bool inquireWhenIdle = false;      // a Stalled inquiry by some rank
  bool leaveExits = false;           // the process ends soon after it has left
  bool rendezvousWithRank0 = false;  // else the rendezvous has a node of its own
  int64_t joinNs = 3 * kSecond;      // deadlines
  int64_t gatherNs = 2 * kSecond;
  int64_t graceNs = 200 * kMs;
};

class SimJob {
 public:
  SimJob(SimWorld& world, const JobOptions& options);

  struct Rank {
    int node = -1;
    std::unique_ptr<BootstrapNode> bootstrap;
    enum class Phase { Waiting, Joining, Gathering, Idle, Done } phase = Phase::Waiting;
    MemberId member = 0;
    int64_t endNs = -1;  // when it got to Done
    int64_t upNs = -1;
    std::optional<Failure> failure;
    std::string complaint;  // wrong data, or nothing within its time
    std::vector<uint64_t> gathers;
    int nGathered = 0;
    int waits = 0;  // counts waits, so that an old timer knows that it is not meant
  };

  /// Runs until every rank that is alive and not frozen is done.  Empty, or what is wrong.
  std::string run(int64_t limitNs);
  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  int nRanks() const { return options_.nRanks; }
  const JobOptions& options() const { return options_; }
  bool survives(int r) const;
  int placeNode() const { return placeNode_; }
  BootstrapNode& place() { return *place_; }
  JoinRequest request(int r) const;
  void start(int r);
  static std::string blob(int r, uint64_t n, size_t bytes);

 private:
  void changed(int r);
  void step(int r);
  bool stepOnce(int r);
  void stepDirty();
  bool gatherOne(Rank& me, int r);
  void wait(int r, int64_t ns);
  void finish(int r);

  SimWorld& world_;
  JobOptions options_;
  int placeNode_ = -1;
  BootstrapNode* place_ = nullptr;
  std::unique_ptr<BootstrapNode> ownPlace_;
  std::vector<Rank> ranks_;
  std::vector<int> dirty_;
};

}  // namespace tutti

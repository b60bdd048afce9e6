// A job of virtual ranks that meet, call collectives on real data, and go on by shrinking when something breaks: the
// library's bootstrap, agreement, plans and executor in one thread under the clock of SimWorld.
//
//   DataJob job({.seed = seed, .nRanks = 16, .crashes = {{3, 4'000'000}}});
//   CHECK(job.run() == "");
//
// What must hold: who got success for a call holds its result, whatever befell the others; who got none has an error
// within the deadline; all decisions of an epoch are one; connections that are made again are no error of anybody's;
// and whoever lives has ended, with all calls made if no pair of ranks is cut off.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/control/bootstrap_node.hpp"
#include "src/exec/collective_run.hpp"
#include "src/membership/shrink.hpp"
#include "tests/support/sim/fabric.hpp"
#include "tests/support/sim/world.hpp"
#include "tests/support/vectors.hpp"

namespace tutti::test {

/// Times are from the moment when all have met.
struct DataPlan {
  uint64_t seed = 1;
  int nRanks = 2;
  int nCalls = 3;                                   // on every communicator
  std::vector<std::pair<int, int64_t>> crashes{};   // rank, ns
  std::vector<std::pair<int, int64_t>> stops{};     // rank, ns; it goes on some milliseconds later
  std::optional<std::pair<int, int>> cut{};         // nothing passes between these two any more
  std::vector<std::pair<int, int64_t>> restarts{};  // rank, ns: if it has died, it is there again and grown in
  uint32_t breaksPerMillion = 0;                    // messages that break their link, on the first two communicators
  bool resumes = false;                             // endpoints are streams whose connections are made again, on all
  int64_t mostDelayNs = 100'000;
};

class DataJob {
 public:
  explicit DataJob(const DataPlan& plan);
  ~DataJob();

  /// Empty, or what is wrong.
  std::string run();

  uint64_t traceHash() const { return world_.traceHash(); }
  int64_t endNs() const { return world_.nowNs(); }
  long nRight() const { return nRight_; }     // results that a rank got, and that are right
  long nErrors() const { return nErrors_; }   // calls that a rank got an error for
  int nShrinks() const { return nShrinks_; }  // of ranks
  int nRefused() const { return nRefused_; }  // ranks that could not go on
  int nGrown() const { return nGrown_; }      // ranks that were there again and made calls
  uint64_t nBreaks() const;                   // connections that were made again

 private:
  enum class Phase : uint8_t { Waiting, Working, Voting, Joining, Leaving, Growing, Done };
  /// What ranks of a communicator share: nothing but what the links carry and the test compares.
  struct Shared {
    std::vector<int> ranks;  // of the job
    std::vector<std::vector<Schedule>> schedules;
    std::vector<size_t> counts;
    std::vector<std::unique_ptr<Vectors>> vectors;
    SimOptions options;
    std::unique_ptr<SimFabric> fabric;
  };
  /// One rank's end of a communicator.
  struct End {
    MemberId member = 0;
    std::string name;
    std::vector<int> ranks;
    int rank = 0;
    Shared* shared = nullptr;
    std::unique_ptr<Transport> transport;
    std::map<std::pair<int, int>, std::unique_ptr<Endpoint>> endpoints;  // by peer, lane
    std::unique_ptr<Plan> plan;
    std::unique_ptr<CollectiveRun> run;
    int call = 0;
    uint64_t farewell = 0;
  };
  struct Rank {
    int node = -1;
    std::unique_ptr<BootstrapNode> bootstrap;
    Phase phase = Phase::Waiting;
    std::unique_ptr<End> comm, child;
    std::optional<Shrink> shrink;
    bool voted = false;
    bool again = false;  // it died before, and is there again
    uint64_t seen = 0;   // epochs of comm
    int waits = 0;       // counts, so that an old deadline knows that it is not meant
  };

  Rank& at(int r) { return *ranks_[static_cast<size_t>(r)]; }
  bool goes(int r) { return world_.alive(at(r).node) && !world_.frozen(at(r).node); }
  void dirty(int r) { dirty_.push_back(r); }
  bool runUntil(const std::function<bool()>& done, int64_t limitNs);
  void boot(int r);
  void schedule();
  void crash(int r);
  void restart(int r);
  bool isOver(int r);

  std::unique_ptr<End> join(int r, const std::string& name, const std::vector<int>& ranks);
  Shared& sharedOf(const End& end);
  void drawCalls(Shared* shared);
  bool step(int r);
  bool work(int r);
  void begin(int r);
  bool advance(int r);
  void failed(int r);
  void wait(int r);
  void waitForDecision(int r);
  bool vote(int r);
  bool joinChild(int r);
  bool goOn(int r);
  std::string awaiting();
  bool leave(int r);
  bool grow(int r);

  const DataPlan plan_;
  SimWorld world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Rank>> dead_;  // that are there again; events may still mean them
  std::map<std::string, std::unique_ptr<Shared>> shared_;
  std::map<std::pair<std::string, uint64_t>, Decision> decisions_;
  std::vector<int> dirty_;
  std::string wrong_;
  long nRight_ = 0, nErrors_ = 0;
  int nShrinks_ = 0, nRefused_ = 0, nGrown_ = 0;
};

}  // namespace tutti::test

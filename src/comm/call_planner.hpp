// Plans for the calls of one communicator: what the planner is told of its ranks, what it is asked, and what was made.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "src/calibrate/host_link.hpp"
#include "src/comm/advice.hpp"
#include "src/comm/foreign_plans.hpp"
#include "src/comm/known_calls.hpp"
#include "src/comm/layout.hpp"
#include "src/comm/learning.hpp"
#include "src/comm/plans.hpp"
#include "src/comm/schedules.hpp"
#include "src/comm/send_learning.hpp"
#include "src/comm/settings.hpp"
#include "src/plan/estimates.hpp"
#include "src/plan/fit.hpp"
#include "src/plan/planner.hpp"
#include "transport/table.hpp"

namespace tutti {

class Comm;

/// What the planner knows of a communicator; the same on all ranks but for `explain`.
struct PlannerState {
  Calibration calibration;
  Tuning tuning;                    // of as many ranks
  std::optional<TunedRanks> ranks;  // whom figures of the tuning have to be of
  Overrides overrides;
  LinkUse links;
  MachineLevels levels;
  /// Costs of ranks on CUDA devices: of their executor, and of blocks where blocks take most calls.
  std::optional<DeviceCosts> device, blocks;
  bool explain = false;  // TUTTI_EXPLAIN, on rank 0
};

/// What the planner expects of one call.
struct CallEstimate {
  double timeUs = 0;
  std::string_view algorithm;  // static or as long as the communicator, and ends with a zero byte
  Protocol protocol = Protocol::Slots;
  int nChannels = 1;
  bool joined = false;
};

/// This machine's link costs, of all transports that `settings` allow (from the user's cache, or measured now), and
/// what was measured to be fastest on it among so many ranks.
Status addMeasurements(int nRanks, const CommSettings& settings, PeerDescriptor* descriptor);

/// One of the communicator's.  One thread at a time (with its turn), but for estimate().
class CallPlanner {
 public:
  explicit CallPlanner(Comm& comm) : comm_(comm) {}

  /// Takes what users ask for, the same on all ranks.  Called before setUp().
  void take(ForeignPlans plans, const Overrides& overrides);
  /// What links between hosts were found to cost.  Called before setUp().
  void take(const HostLinkFigures& figures) { hostLinks_ = figures; }
  /// When ranks have met.  Errors: RemoteError: rank 0's figures are not understood; InvalidUsage: TUTTI_EXPLAIN.
  Status setUp();
  /// Lets go of all plans.
  void clear() {
    known_.forget();
    plans_.clear();
    making_.clear();
    if (learning_) learning_->clear();
  }

  /// Calls that go straight to their plans.  Only with the turn.
  KnownCalls& known() { return known_; }
  /// What figures measured on this communicator hold for; none where hosts have different numbers of ranks.
  const std::optional<TunedRanks>& tunedRanks() const { return state_.ranks; }
  /// What a tuner plugin says of calls; rank 0 has it.  Before the first call.
  void take(std::unique_ptr<Advice> advice) { advice_ = std::move(advice); }
  /// True once all that plugins have to say of such a call is known, which is asked before the rest.  Only with the
  /// turn.  Errors: those of the control plane.
  Result<bool> hearAdvice(const Call& call);
  /// Whether a call of this kind needs Counts::all.  Only with the turn.
  Result<bool> needsAllCounts(const Call& call, bool resident);
  /// On the way of resident kernels: whether one pass over all ranks' buffers carries out the call.
  bool goesInOnePass(const Call& call) const;
  /// The plan for a call; made at first use.  Only with the turn.  Null while its endpoints come up: ask again.
  /// resident: for blocks on the device.  way: of those of its kind.
  Result<std::shared_ptr<const PlanEntry>> plan(const Call& call, bool resident = false, uint8_t way = 0);
  /// What calls teach; null: nothing.
  Learning* learning() { return learning_.get(); }
  /// The same of sends.  By the thread that uses the endpoints.
  SendLearning& sends() { return sendLearning_; }
  /// The ways to try for calls of this kind, at most Trials::kMostWays, the planner's choice first; the same on all
  /// ranks.  mapped: peers map the memory of some of these calls.
  Result<std::vector<TriedWay>> waysOf(const Call& call, bool mapped);
  /// Before the ranks compare figures of a kind: finds the ways to try, if its trials want those.
  Status findWays(const Call& call, Learning::Kind* kind);
  /// The trials of a kind have come to an end.
  void tellLearned(const Call& call, const Learning::Kind& kind);
  /// What all ranks have told of a kind.
  void compare(const Call& call, Learning::Kind* kind, const std::vector<uint64_t>& all);
  /// At the end of a communicator: what was learned is kept for later jobs of this machine's user, by rank 0.
  void keepLearned();
  /// From how many bytes on a message in memory that the receiver has mapped is read where it lies; SIZE_MAX: never.
  size_t leastMappedBytes() const;
  /// Whether ranks of a host read memory of others by system calls, but for what they have mapped.
  bool pulls() const;
  /// Whether a send of `bytes` lends memory that the peer has not mapped.
  bool lends(int peer, size_t bytes) const;
  /// The chooser of such sends, borrowed from this; null where there is one protocol only, or nothing is learned.  Only
  /// with the turn.
  SendProtocolChooser* sendChooser(int peer, size_t bytes, bool inGroup);
  /// The most bytes of one message of a send or receive that is cut; the same on both ends.
  size_t sliceBytesTo(int peer) const;
  /// What plan() would choose, without making it; of v forms by largestBlock().  Any thread.
  Result<CallEstimate> estimate(const Call& call) const;

 private:
  bool choosesByBuiltIns() const;
  void priceHostLinks();
  Status setUpLearning();
  void setUpDeviceCosts();
  Estimates* estimatesFor(bool resident) const;
  int mostLanes(bool resident = false) const;
  size_t leastMappedBytes(const std::optional<Protocol>& asked) const;
  size_t leastMappedBytes(const Choice& choice, const PlanKey& key) const;
  static void fitToBlocks(Choice* choice, size_t lanesOfOne, int mostLanes);
  bool rewrites(const PlanKey& key) const;
  PlanKey keyOf(const Call& call) const;
  bool mayNarrow(const Call& call) const;
  Shape shapeOf(const Call& call, const PlanKey& key) const;
  PlanRequest planRequest(const Shape& shape, bool resident = false) const;
  /// The same for a call, with what its messages may travel as.
  PlanRequest callRequest(const Shape& shape, const PlanKey& key) const;
  Result<Choice> choosePlan(const Shape& shape, const Call& call, const PlanKey& key);
  Result<Choice> chooseWay(const Call& call, const TriedWay& way);
  Result<std::optional<uint64_t>> roundingOfWay(const Call& call, const TriedWay& way);
  bool readsMapped(const PlanRequest& request, const Candidate& row) const;
  std::optional<TunedWay> worthKeeping(const Call& call, const Learning::Kind& kind) const;
  std::vector<TunedSend> sendsWorthKeeping();
  CallEstimate estimateMessage(int peer, size_t bytes) const;
  MessageCost messageTo(const LinkProfile& link, size_t bytes) const;
  size_t ranksOnHost() const;
  /// A plan that is complete but for its endpoints.
  struct Making {
    PlanKey key;
    Choice choice;
    PlanEntry entry;
    Schedule schedule;
    size_t sliceBytes = 0;  // the most of one message
  };
  Result<Making> beginPlan(const Call& call, const PlanKey& key);
  Result<bool> bind(const Call& call, Making* making);
  Shape shapeFor(const Choice& choice, Shape shape) const;
  Rewrites rewritesFor(const Choice& choice, const Shape& shape, const PlanKey& key) const;
  Result<Schedule> scheduleFor(const Call& call, const PlanKey& key, const Shape& shape, Choice* choice);
  Result<std::optional<Honoured>> inOnePass(const PlanKey& key, const Shape& shape) const;
  void tellUnmet(const std::vector<Unmet>& unmet, const Shape& shape, const std::string& taken);
  static kernels::PassCall passOf(const Shape& shape);
  PlanEntry onePass(const Call& call, const Shape& shape) const;
  bool mayLendMapped(const Shape& shape, size_t leastBytes) const;
  size_t sliceBytesFor(const Choice& choice, const Call& call) const;
  /// The most bytes of one message of what is sent through endpoints.
  size_t slotBytesFor(SliceUse use) const;

  Comm& comm_;
  PlannerState state_;
  std::shared_ptr<Estimates> estimates_, blockEstimates_;  // with the other ranks of this process; lock themselves
  std::optional<HostLinkFigures> hostLinks_;
  ForeignPlans foreignPlans_;
  std::unique_ptr<Advice> advice_;      // null: no plugin
  std::unique_ptr<Learning> learning_;  // null: nothing is learned
  SendLearning sendLearning_;
  PlanCache plans_;
  KnownCalls known_;  // point into plans_
  std::list<Making> making_;
  std::optional<bool> forwardsBlocks_[2];  // whether AllToAllv does; by resident, known from its first call on
  std::set<std::string> told_;             // overrides that calls could not have, with the reasons
};

}  // namespace tutti

// The communicator: one rank's end of it.
//
// Owns everything that lives as long as the communicator: its view of the control plane, its links, plans, operators.
// One thread at a time runs calls (ticket order, see Turn); state that other threads read is atomic or behind a lock.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/bootstrap/session.hpp"
#include "src/collective/call.hpp"
#include "src/comm/call_log.hpp"
#include "src/comm/fate.hpp"
#include "src/comm/foreign_plans.hpp"
#include "src/comm/known_calls.hpp"
#include "src/comm/links.hpp"
#include "src/comm/machine.hpp"
#include "src/comm/operators.hpp"
#include "src/comm/plans.hpp"
#include "src/comm/registrations.hpp"
#include "src/comm/settings.hpp"
#include "src/comm/stray_watch.hpp"
#include "src/comm/turn.hpp"
#include "src/exec/drive.hpp"
#include "src/plan/fit.hpp"
#include "src/plan/planner.hpp"
#include "src/plan/walks.hpp"

namespace tutti {

class Batch;
class CudaSide;
enum class CudaWay : uint8_t;  // cuda/side.hpp

/// What the planner knows of a communicator; the same on all ranks but for `explain`.
struct PlannerState {
  Calibration calibration;
  Tuning tuning;                    // of as many ranks
  std::optional<TunedRanks> ranks;  // whom figures of the tuning have to be of
  Overrides overrides;
  LinkUse links;
  MachineLevels levels;
  /// Of ranks on CUDA devices: costs of the way that calls go, and of blocks where they take most calls.
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

/// This machine's link costs, of all transports of `table` (from the user's cache, or measured now), and what was
/// measured to be fastest on it among so many ranks.
Status addMeasurements(int nRanks, TransportTable table, RankCard* card);

class Comm : public TaskOwner {
 public:
  /// Joins; blocks until all ranks are there, the deadline of `settings`, or the end of `fate`, which is borrowed.
  static Result<std::unique_ptr<Comm>> join(std::shared_ptr<Session> session, JoinRequest request,
                                            const CommSettings& settings, Fate* fate);
  ~Comm() override;

  int rank() const { return control_->rank(); }
  int nRanks() const { return control_->nRanks(); }
  const CommSettings& settings() const { return settings_; }
  Control& control() { return *control_; }
  /// What figures measured on this communicator hold for; none where hosts have different numbers of ranks.
  const std::optional<TunedRanks>& tunedRanks() const { return planner_.ranks; }
  OperatorTable& operators() { return operators_; }
  /// The user's memory that operations may use without a copy.  Any thread.  Errors: InvalidArgument: the rank's device
  /// cannot reach it; SystemError; UnhandledCudaError.
  Result<void*> registerMemory(void* buffer, size_t bytes);
  /// After the calls made before.  Errors: InvalidArgument: no registration; InvalidUsage: work that may use the memory
  /// is still under way, and it stays registered.
  Status deregisterMemory(void* handle);
  Turn& turn() { return *turn_; }
  /// For the handle, which outlives the communicator.
  std::shared_ptr<Turn> sharedTurn() { return turn_; }
  /// Only with the turn.
  KnownCalls& known() { return known_; }
  Links& links() { return *links_; }
  /// What this rank has on its CUDA device; null on the host.
  CudaSide* cuda() const { return cuda_.get(); }
  /// Whether some rank is on a CUDA device.
  bool anyCuda() const { return cudaWay_ != CudaWay{}; }
  /// The hosts of all ranks, and who is near whom.
  const Machines& machine() const { return machine_; }
  CallLog& log() { return log_; }
  /// A call begins: what it says of itself is noted for inquiries.
  void enter(uint64_t sequence, const Fingerprint& call) {
    log_.enter(sequence, call);
    strayWatch_->onCall();
  }

  void setTimeoutMs(int timeoutMs) { timeoutMs_.store(timeoutMs, std::memory_order_relaxed); }
  Deadline deadline() const { return Deadline::inMs(timeoutMs_.load(std::memory_order_relaxed)); }

  /// The error that broke this communicator, or ok.  Any thread.
  Status failure() const { return fate_.failure(); }
  /// What ended this communicator, where that is why something failed with `error`.  Any thread.
  Status cause(const Status& error) const { return aborting() ? failure() : error; }
  /// Break the communicator if `error` is one that does (not a mistake in the arguments), and tell the others.
  void fail(const Status& error);
  /// End calls in flight here and on communicators that were split from this one, and tell the others.  Any thread.
  void abort() { endOnPurpose("aborted"); }
  /// As abort, and the communicator can still be shrunk.
  void revoke() { endOnPurpose("revoked"); }
  /// Tell the other ranks what has ended this communicator here.  Any thread but a Session's.
  void tell(const Status& why) { control_->reportFailure({rank(), why, true}); }

  /// All ranks have come here and have made the same calls.  Collective.
  Status finalize();

  /// Next collective's sequence number, written into its fingerprint and the log.
  uint64_t nextSequence() { return ++sequence_; }
  uint32_t nextPairSequence(int peer, bool isSend) {
    return (isSend ? sendsTo_ : receivesFrom_)[static_cast<size_t>(peer)]++;
  }
  /// Number of the next child; the same on all ranks that take part.
  uint64_t nextChild() { return ++children_; }

  /// `task` with this communicator's waiting, error and deadline rules.
  DrivenTask driven(Task* task);
  bool aborting() const override { return fate_.ended(); }
  void progress() override { links_->progress(); }
  Status aborted() override { return failure(); }
  Status stalled(int waitingOn) override;
  Status expired(int waitingOn) override;
  Status failed(const Status& error, int waitingOn) override;

  /// Whether a call of this kind needs Counts::all.  Only with the turn.
  Result<bool> needsAllCounts(const Call& call, bool resident);
  /// On the way of resident kernels, of each collective once: whether one kernel, or blocks of one, carry it out.  Not
  /// blocks that wait for each other, once a launch of such has been held up.
  bool goesByKernels(const Call& call);
  /// The plan for a call; made at first use.  Only with the turn.
  /// resident: for blocks on the device.
  Result<std::shared_ptr<const PlanEntry>> plan(const Call& call, bool resident = false);
  /// From how many bytes on a message in memory that the receiver has mapped is read where it lies; SIZE_MAX: never.
  size_t leastMappedBytes() const;
  /// Whether a send of `bytes` lends memory that the peer has not mapped.
  bool lends(int peer, size_t bytes) const;
  /// The most bytes of one message of a send or receive that is cut; the same on both ends.
  size_t sliceBytesTo(int peer) const;
  /// What plan() would choose, without making it; of v forms by largestBlock().  Any thread.
  Result<CallEstimate> estimate(const Call& call) const;
  /// Scratch memory of at least `bytes`, on the device if there is one, kept between calls.  Only with the turn.
  /// Errors: those of CudaSide; none on the host.
  Result<std::byte*> workspace(size_t bytes);
  /// The channel of a lane to a peer: of links(), or of cuda() on top of those.
  Result<Channel*> channel(int peer, int lane);
  /// The batch of calls made outside groups.  Only with the turn.
  Batch& ownBatch() { return *ownBatch_; }
  /// The send or receive that was made before.  Only with the turn.
  PointToPointRun& ownTransfer() { return ownTransfer_; }
  /// The most bytes of one message on any link of this communicator; the same on all ranks.
  size_t sliceBytes() const { return sliceBytes_; }

 private:
  Comm(const CommSettings& settings, Fate* fate);
  Status comeUp(std::shared_ptr<Session> session, JoinRequest request);
  Status prepare(int rank, int nRanks, RankCard* card);
  Status tellIfFirst(const Status& up, const std::string& trouble);
  Status setUp();
  Status setUpPlanner();
  void setUpDeviceCosts();
  Walks* walksFor(bool resident) const;
  Status awaitDevice();
  Status awaitReaders(void* handle);
  bool settle(CudaSide& side);
  int mostLanes(bool resident = false) const;
  size_t leastMappedBytes(const std::optional<Protocol>& asked) const;
  static void fitToBlocks(Choice* choice, size_t lanesOfOne, int mostLanes);
  bool rewrites(const PlanKey& key) const;
  /// Whether ranks of a host read memory of others by system calls.
  bool pulls() const;
  Status hearOfTrouble(const std::vector<RankCard>& cards) const;
  Result<std::string> cudaObstacle(const std::vector<RankCard>& cards);
  Status openTransports(std::vector<RankCard>* cards);
  Status setUpMachine(const std::vector<RankCard>& cards, const std::vector<std::string>& reports);
  void watchNeighbours();
  void onFailure(const Failure& failure);
  void endOnPurpose(std::string_view verb);
  PlanKey keyOf(const Call& call) const;
  Shape shapeOf(const Call& call, const PlanKey& key) const;
  PlanRequest planRequest(const Shape& shape, bool resident = false) const;
  Result<Choice> choosePlan(const Shape& shape, const Call& call, bool resident);
  CallEstimate estimateMessage(int peer, size_t bytes) const;
  MessageCost messageTo(const LinkProfile& link, size_t bytes) const;
  size_t ranksOnHost() const;
  Result<PlanEntry> makePlan(const Call& call, const PlanKey& key);
  Result<Schedule> scheduleFor(const Call& call, const PlanKey& key, Shape shape, Choice* choice);
  Result<std::optional<Honoured>> inOnePass(const PlanKey& key, const Shape& shape) const;
  void tellUnmet(const std::vector<Unmet>& unmet, const Shape& shape, const std::string& taken);
  static kernels::PassCall passOf(const Shape& shape);
  PlanEntry onePass(const Call& call, const Shape& shape) const;
  bool mayLendMapped(const Shape& shape, size_t leastBytes) const;
  size_t sliceBytesFor(const Choice& choice, const Call& call) const;

  CommSettings settings_;
  std::atomic<int> timeoutMs_;
  Fate& fate_;
  CallLog log_;  // before control_, whose thread reads it
  std::unique_ptr<Control> control_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<CudaSide> cuda_;
  Status trouble_;         // why this rank cannot take part, known before it has joined
  int residentLanes_ = 0;  // of plans that blocks walk; 0: none are
  CudaWay cudaWay_{};      // but for None the host's short cuts do not fit all ranks
  std::unique_ptr<StrayWatch> strayWatch_;
  OperatorTable operators_;
  Registrations registrations_;
  PlannerState planner_;
  std::shared_ptr<Walks> walks_, blockWalks_;  // with the other ranks of this process; lock themselves
  ForeignPlans foreignPlans_;
  PlanCache plans_;
  std::optional<bool> forwardsBlocks_[2];  // whether AllToAllv does; by resident, known from its first call on
  std::set<std::string> told_;             // overrides that calls could not have, with the reasons
  KnownCalls known_;                       // point into plans_
  const std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
  uint64_t sequence_ = 0;
  uint64_t children_ = 0;
  std::vector<uint32_t> sendsTo_, receivesFrom_;
  std::vector<int> nodes_;
  Machines machine_;
  std::vector<std::vector<int>> inner_;  // groups of ranks inside nodes, the coarsest first
  std::vector<int> rails_;               // of ranks; empty: not several in a node
  WaitPolicy waitPolicy_;
  size_t sliceBytes_ = 0;
  size_t pullBytes_ = 0;  // as many as all slots of a channel hold: what cannot be read by the peer is sent
  std::vector<std::byte> workspace_;
  std::unique_ptr<Batch> ownBatch_;
  PointToPointRun ownTransfer_;
};

}  // namespace tutti

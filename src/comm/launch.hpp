// From calls to work: what a rank does when a call, or a whole group of them, is its turn.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/collective/call.hpp"
#include "src/comm/comm.hpp"
#include "src/exec/point_to_point.hpp"

namespace tutti {

class CallEvents;

/// The calls of one communicator in one group, in order, as one task: sends and receives side by side, collectives one
/// after the other beside them.  Reusable.  This one is the host's; others are made by Executor::newBatch().
class Batch : public Task {
 public:
  /// Makes the job of calls, borrowed, that a graph replays.  dropped: what it calls if their communicator is gone.
  using Replay = std::function<std::unique_ptr<ProgressJob>(const std::vector<Call>&, std::function<void()> dropped)>;

  explicit Batch(Comm& comm);
  ~Batch() override;

  /// stream: of a CUDA communicator; what the call follows and what follows it.
  virtual void add(const Call& call, tuttiStream_t stream);
  /// Before add(): the program has opened a group, or calls are the library's own, of which no profiler hears.
  void isGroup() { madeBy_ = MadeBy::Group; }
  void isOwn() { madeBy_ = MadeBy::Library; }
  /// By the thread that makes the calls, where another one carries them out: streams of a device come to the calls, and
  /// wait until finish().  True: a graph has taken the calls, and replays them.  Errors: UnhandledCudaError.
  virtual Result<bool> submit(const Replay&) { return false; }
  /// Instead, by the thread that carries them out: a graph replays them, and their streams have come to them.
  virtual void replay() {}
  /// After the last step, whatever came of it.
  virtual void finish();
  virtual void clear();
  /// Whether nobody misses it if it goes before start().
  virtual bool mayBeDropped() const { return true; }

  /// On the thread whose streams the calls are on, as threads have default streams of their own by one handle: what is
  /// enqueued from now on follows the streams.  False after submit(): those have yet to come; ask again.
  virtual Result<bool> start() { return true; }
  /// The task to run after start(): this batch, or its messages alone where it has nothing else.
  virtual Task* task();
  /// Of several that are driven together: blocks of one may wait on a device for what memory that another takes there
  /// would wait for, so ranks on devices run when all are prepared.  Borrowed; counts those that are not.
  void runAfter(size_t* unprepared) { unprepared_ = unprepared; }

  /// Once it is over, with its result, where calls finish on all ranks or on none (retry.hpp): tell the others, and
  /// wait for what they say.  Of several batches all tell before one waits.
  void tellFinished(bool finished);
  Status settle(Status result);
  /// Remember the one call that has just run, if it is one that KnownCalls can tell.
  virtual void remember();
  /// A profiler, and the flight recorder of messages, hear that the calls are over; finish() does it too.
  void endEvents();
  void endMessages();

  Comm& comm() const { return comm_; }
  const std::vector<Call>& calls() const { return calls_; }
  /// First makes plans and opens endpoints for all calls, then runs them.
  Result<Progress> step() override;
  int waitingOn() const override;
  const WaitingMessage* waitingMessage() const override;
  bool preparing() const override { return !prepared_ && !(exchange_ != nullptr && exchange_->running()); }
  void abandon() override;

 protected:
  using PlannedCall = std::pair<const Call*, std::shared_ptr<const PlanEntry>>;
  bool prepared() const { return prepared_; }
  /// Whether others that are driven together still prepare.
  bool othersPrepare() const { return unprepared_ != nullptr && *unprepared_ > 0; }
  Result<Progress> prepare();
  /// Once prepared: whether something was done.  Messages first.
  Result<bool> stepMessages();
  Result<bool> stepCollectives();
  Progress progress(bool moved) const;
  /// All but the fingerprint.
  CallBuffers buffersOf(const Call& call, PrePostOps* around);
  /// The next collective begins: current_ is its task.
  virtual void beginNext();
  /// A profiler hears that a call of this batch is carried out from now on.
  void tellBegun(const Call& call, uint64_t sequence, const PlanEntry& entry);
  /// What the flight recorder keeps of a call of this batch.  entry: of a collective.
  CallRecord recordOf(const Call& call, const PlanEntry* entry) const;

  Comm& comm_;
  std::vector<PlannedCall> collectives_;
  size_t next_ = 0;          // collective to begin next
  bool comparing_ = false;   // the result of the one that has just ended
  Task* current_ = nullptr;  // the one that runs, or several

 private:
  enum class MadeBy : uint8_t { Call, Group, Library };
  /// Whether blocks on a device carry out the collective, of each once.
  virtual bool goesByKernels(const Call&) { return false; }
  /// Whether endpoints that plans have asked for may have come up since.
  virtual bool mayHaveOpened();
  /// A message like this may come again.
  virtual void learn(const Call& call, const PointToPointOp& op, const CallRecord& record);
  /// An AllGather of a few numbers of everyone's: the counts of an AllToAllv whose blocks pass through other ranks, or
  /// the times of ways that were tried.
  struct Exchange {
    std::vector<uint64_t> mine, told;
    std::unique_ptr<Pending<Blobs>> gather;  // of ranks whose endpoints carry device memory: by the control plane; or
    std::unique_ptr<Batch> batch;
    bool running() const { return batch != nullptr && !batch->preparing(); }
  };
  /// A call that is being prepared.
  struct Preparing {
    bool resident = false;                   // goes by blocks on the device
    Learning::Kind* kind = nullptr;          // of call that may go by several ways
    Trials::Turn turn;                       // of it
    std::shared_ptr<const PlanEntry> entry;  // of a collective
    Endpoint* endpoint = nullptr;            // of a send or receive
  };
  /// Whether it has one call, whose time says how fast its way is.
  bool isTimed() const { return calls_.size() == 1 && preparing_[0].turn.timed; }
  void beginComparing();
  Result<bool> compare();
  Result<bool> prepareCalls();
  Result<bool> takeTurn(const Call& call);
  Result<bool> planWays(const Call& call, Learning::Kind* kind);
  Result<bool> compareWays(const Call& call, Learning::Kind* kind);
  Result<bool> compareNow(const Call& call, Learning::Kind* kind);
  Result<bool> compareLater(const Call& call, Learning::Kind* kind, Comparison* comparison);
  Result<bool> exchangeCounts(Call* call);
  /// The numbers of all ranks, by rank; none as long as they are under way.
  Result<std::optional<std::vector<uint64_t>>> exchanged(const std::function<std::vector<uint64_t>()>& mine);
  void beginExchange(std::vector<uint64_t> mine);
  Result<bool> makePlans();
  Result<bool> makePlan(size_t index);
  void finishPreparing();
  void preparePointToPoint(const Call& call, Endpoint* endpoint);
  Status reserveWorkspace(const Call& call);
  void readCopy(size_t bytes, CallBuffers* buffers, PrePostOps* around);

  std::vector<Call> calls_;
  PointToPointRun pointToPoint_;
  bool pointToPointDone_ = false;
  bool told_ = false;  // the others of how it ended, and nobody has waited for what they say
  bool prepared_ = false;
  // While it prepares.
  std::vector<Preparing> preparing_;    // by call, as far as the counts are known
  std::unique_ptr<Exchange> exchange_;  // before the next call
  std::optional<Preparing> coming_;     // that call, once its way is known
  int64_t beganNs_ = 0;                 // the one call, if it is timed
  size_t numOpen_ = SIZE_MAX;           // endpoints when plans were last asked for
  Status refused_;                      // what task() has found out
  size_t* unprepared_ = nullptr;
  MadeBy madeBy_ = MadeBy::Call;
  std::unique_ptr<CallEvents> events_;  // null where no profiler hears of it
};

/// The common case, without a group: one call, on this thread.
Status runCall(Comm& comm, const Call& call, tuttiStream_t stream);

/// What a message of this call says of itself.  sequence: of the communicator's collectives, or of the pair's messages.
Fingerprint fingerprintOf(const Call& call, uint64_t sequence);

}  // namespace tutti

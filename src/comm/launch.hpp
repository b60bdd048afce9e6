// From calls to work: what a rank does when a call, or a whole group of them, is its turn.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/collective/call.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/cuda/executor.hpp"
#include "src/exec/point_to_point.hpp"

namespace tutti {

/// The calls of one communicator in one group, in order, as one task: sends and receives side by side, collectives one
/// after the other beside them.  Reusable.
class Batch : public Task {
 public:
  explicit Batch(Comm& comm) : comm_(comm) {}

  /// stream: of a CUDA communicator; what the call follows and what follows it.
  void add(const Call& call, tuttiStream_t stream);
  /// On the way of a CUDA rank's proxy: the streams of all calls come to them, and wait until finish().
  void submit();
  /// The same for calls that a graph replays, by the job: their streams have come to them.
  void replay() { job_.emplace(); }
  /// After the last step, whatever came of it.
  void finish();
  void clear();
  bool empty() const { return calls_.empty(); }

  /// On the thread whose streams the calls are on, as threads have default streams of their own by one handle: what is
  /// enqueued from now on follows the streams.
  Status start();
  /// The task to run after start(): this batch, or its messages alone where it has nothing else.
  Task* task();
  /// Of several that are driven together: blocks of one may wait on a device for what memory that another takes there
  /// would wait for, so ranks on devices run when all are prepared.  Borrowed; counts those that are not.
  void runAfter(size_t* unprepared) { unprepared_ = unprepared; }

  /// Remember the one call that has just run, if it is one that KnownCalls can tell.
  void remember(KnownCalls* known);

  Comm& comm() const { return comm_; }
  const std::vector<Call>& calls() const { return calls_; }
  std::span<const cuda::Stream> streams() const { return streams_; }
  /// First makes plans and opens endpoints for all calls, then runs them.
  Result<Progress> step() override;
  int waitingOn() const override;
  bool preparing() const override { return !prepared_ && !(counts_ != nullptr && counts_->running()); }
  void abandon() override;

 private:
  /// An AllGather of everyone's counts, for an AllToAllv whose blocks pass through other ranks.
  struct CountsExchange {
    std::vector<uint64_t> mine, told;
    std::unique_ptr<Pending<Blobs>> gather;  // of ranks whose endpoints carry device memory: by the control plane; or
    std::unique_ptr<Batch> batch;
    bool running() const { return batch != nullptr && !batch->preparing(); }
  };
  /// A call that is being prepared.
  struct Preparing {
    bool resident = false;                   // goes by blocks on the device
    std::shared_ptr<const PlanEntry> entry;  // of a collective
    Endpoint* endpoint = nullptr;            // of a send or receive
  };
  Result<Progress> prepare();
  Result<bool> learnCounts();
  Result<bool> exchangeCounts(Call* call);
  void beginExchange();
  Result<bool> makePlans();
  Result<bool> makePlan(size_t index);
  void finishPreparing();
  void preparePointToPoint(const Call& call, Endpoint* endpoint);
  Result<Progress> stepAll();
  Status flush();
  Status awaitStreams();
  Status reserveWorkspace(const Call& call);
  void beginNext();
  void beginPasses();
  CallBuffers buffersOf(const Call& call, PrePostOps* around);
  void readCopy(size_t bytes, CallBuffers* buffers, PrePostOps* around);

  Comm& comm_;
  std::vector<Call> calls_;
  std::vector<cuda::Stream> streams_;  // of CUDA calls, each once
  Status submitted_;
  std::optional<CudaProxy::Submitted> job_;  // after submit()
  PointToPointRun pointToPoint_;
  bool pointToPointDone_ = false;
  bool resident_ = false;  // whether collectives go by resident kernels
  bool prepared_ = false;
  std::vector<std::pair<const Call*, std::shared_ptr<const PlanEntry>>> collectives_;
  size_t next_ = 0;          // collective to begin next
  Task* current_ = nullptr;  // the one that runs, or several
  // While it prepares.
  std::vector<Preparing> preparing_;        // by call, as far as the counts are known
  std::unique_ptr<CountsExchange> counts_;  // of the next call
  bool nextResident_ = false;               // as Preparing::resident, of that
  size_t numOpen_ = SIZE_MAX;               // endpoints when plans were last asked for
  Status refused_;                          // what task() has found out
  size_t* unprepared_ = nullptr;
};

/// The common case, without a group: one call, on this thread.
Status runCall(Comm& comm, const Call& call, tuttiStream_t stream);

/// By a CUDA rank's proxy: the calls of a graph that is replayed.
Status replayCalls(Comm& comm, const std::vector<Call>& calls);

/// What a message of this call says of itself.  sequence: of the communicator's collectives, or of the pair's messages.
Fingerprint fingerprintOf(const Call& call, uint64_t sequence);

}  // namespace tutti

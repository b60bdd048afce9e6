// From calls to work: what a rank does when a call, or a whole group of them, is its turn.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/collective/call.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/cuda/side.hpp"
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
  /// Then, on any thread: makes plans and opens channels for all calls; may block.  After that step() never does.
  Status makePlans();
  /// Both.
  Status prepare();
  /// What to run after prepare(): this, or the part of it that is all there is, which takes fewer steps to look at.
  Task* task() { return collectives_.empty() && comm_.cuda() == nullptr ? static_cast<Task*>(&pointToPoint_) : this; }

  /// Remember the one call that has just run, if it is one that KnownCalls can tell.
  void teach(KnownCalls* known);

  Comm& comm() const { return comm_; }
  const std::vector<Call>& calls() const { return calls_; }
  std::span<const cuda::Stream> streams() const { return streams_; }
  Result<Progress> step() override;
  int waitingOn() const override;
  void abandon() override;

 private:
  Status preparePointToPoint(const Call& call);
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
  std::vector<std::pair<const Call*, std::shared_ptr<const PlanEntry>>> collectives_;
  size_t next_ = 0;          // collective to begin next
  Task* current_ = nullptr;  // the one that runs, or several
};

/// The common case, without a group: one call, on this thread.
Status runCall(Comm& comm, const Call& call, tuttiStream_t stream);

/// By a CUDA rank's proxy: the calls of a graph that is replayed.
Status replayCalls(Comm& comm, const std::vector<Call>& calls);

/// For an AllToAllv whose blocks pass through other ranks: an AllGather of everyone's counts, which go into
/// call->counts. Collective, with the turn; blocks.  Errors: InvalidUsage, alike on all ranks, if two ranks do not
/// agree.
Status learnAllCounts(Comm& comm, Call* call);

/// What a message of this call says of itself.  sequence: of the communicator's collectives, or of the pair's messages.
Fingerprint fingerprintOf(const Call& call, uint64_t sequence);

}  // namespace tutti

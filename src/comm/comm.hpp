// The communicator: one rank's end of it.
//
// Owns everything that lives as long as the communicator: its view of the control plane, its links, planner, operators.
// One thread at a time runs calls (ticket order, see CallOrder); state that other threads read is atomic or behind a
// lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/collective/call.hpp"
#include "src/comm/abort_state.hpp"
#include "src/comm/call_numbers.hpp"
#include "src/comm/call_order.hpp"
#include "src/comm/call_planner.hpp"
#include "src/comm/known_calls.hpp"
#include "src/comm/links.hpp"
#include "src/comm/operators.hpp"
#include "src/comm/registrations.hpp"
#include "src/comm/settings.hpp"
#include "src/comm/watchdog.hpp"
#include "src/control/session/session.hpp"

namespace tutti {

class Batch;
class CudaExecutor;

class Comm {
 public:
  /// Joins; blocks until all ranks are there, the deadline of `settings`, or the end of `abortState`, which is
  /// borrowed.
  static Result<std::unique_ptr<Comm>> join(std::shared_ptr<Session> session, JoinRequest request,
                                            const CommSettings& settings, AbortState* abortState);
  ~Comm();

  int rank() const { return control_->rank(); }
  int nRanks() const { return control_->nRanks(); }
  const CommSettings& settings() const { return settings_; }
  Control& control() { return *control_; }
  /// Plans for calls.
  CallPlanner& planner() { return planner_; }
  const CallPlanner& planner() const { return planner_; }
  OperatorTable& operators() { return operators_; }
  /// The user's memory that operations may use without a copy.  Any thread.  Errors: InvalidArgument: the rank's device
  /// cannot reach it; SystemError; UnhandledCudaError.
  Result<void*> registerMemory(void* buffer, size_t bytes);
  /// After the calls made before.  Errors: InvalidArgument: no registration; InvalidUsage: work that may use the memory
  /// is still under way, and it stays registered.
  Status deregisterMemory(void* handle);
  CallOrder& callOrder() { return *callOrder_; }
  /// For the handle, which outlives the communicator.
  std::shared_ptr<CallOrder> sharedCallOrder() { return callOrder_; }
  /// Only with the turn.
  KnownCalls& known() { return known_; }
  Links& links() { return *links_; }
  /// What this rank has on its CUDA device; null on the host.
  CudaExecutor* cuda() const { return cuda_.get(); }
  /// Where the ranks are, and how they meet; set while they join.
  const RankLayout& layout() const { return layout_; }
  /// How calls wait and end.
  Watchdog& watchdog() { return watchdog_; }
  /// The error that broke this communicator, or ok.  Any thread.
  Status failure() const { return watchdog_.failure(); }
  Deadline deadline() const { return watchdog_.deadline(); }
  /// End calls in flight here and on communicators that were split from this one, and tell the others.  Any thread.
  void abort() { endOnPurpose("aborted"); }
  /// As abort, and the communicator can still be shrunk.
  void revoke() { endOnPurpose("revoked"); }
  /// Tell the other ranks what has ended this communicator here.  Any thread but a Session's.
  void tell(const Status& why) { control_->reportFailure({rank(), why, true}); }

  /// All ranks have come here and have made the same calls.  Collective.
  Status finalize();

  CallNumbers& numbers() { return numbers_; }
  /// Scratch memory of at least `bytes`, on the device if there is one, kept between calls.  Only with the turn.
  /// Errors: those of CudaExecutor; none on the host.
  Result<std::byte*> workspace(size_t bytes);
  /// The endpoint of a lane to a peer: of links(), or of cuda() on top of those.  Null while it comes up.
  Result<Endpoint*> endpoint(int peer, int lane);
  /// A call is about to use memory of the host.
  void use(const void* data, size_t bytes) {
    if (registrations_.tellsAnyone()) registrations_.use(data, bytes);
  }
  /// Which messages to `peer` are posted.
  Posting posting(int peer) const {
    if (cuda_ != nullptr || links_->linkTo(peer).mostRequests == 0) return Posting::Nothing;
    return links_->linkTo(peer).puts ? Posting::Direct : Posting::All;
  }
  /// The same by rank; empty where nothing is posted to anyone.
  std::vector<Posting> postings() const;
  /// The peer of an endpoint that has not come up yet.
  int openingTo() const { return links_->openingTo() >= 0 ? links_->openingTo() : lastAsked_; }
  /// The batch of calls made outside groups.  Only with the turn.
  Batch& ownBatch() { return *ownBatch_; }
  /// The send or receive that was made before.  Only with the turn.
  PointToPointRun& ownTransfer() { return ownTransfer_; }

 private:
  friend class Joining;
  Comm(const CommSettings& settings, AbortState* abortState);
  Status awaitDevice();
  Status awaitReaders(void* handle);
  bool settle(CudaExecutor& executor);
  void onFailure(const Failure& failure);
  void endOnPurpose(std::string_view verb);

  CommSettings settings_;
  AbortState& abortState_;
  Watchdog watchdog_;  // before control_, whose thread reads its log
  std::unique_ptr<Control> control_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<CudaExecutor> cuda_;
  RankLayout layout_;
  OperatorTable operators_;
  Registrations registrations_;
  CallPlanner planner_{*this};
  KnownCalls known_;  // point into its plans
  const std::shared_ptr<CallOrder> callOrder_ = std::make_shared<CallOrder>();
  CallNumbers numbers_;
  std::vector<std::byte> workspace_;
  int lastAsked_ = -1;  // of endpoint()
  std::unique_ptr<Batch> ownBatch_;
  PointToPointRun ownTransfer_;
};

}  // namespace tutti

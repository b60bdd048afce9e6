// The communicator: one rank's end of it.
//
// Owns everything that lives as long as the communicator: its view of the control plane, its links, planner, operators.
// One thread at a time runs calls (ticket order, see CallOrder); state that other threads read is atomic or behind a
// lock.
#pragma once

#include <memory>
#include <string_view>

#include "src/comm/abort_state.hpp"
#include "src/comm/call_order.hpp"
#include "src/comm/call_planner.hpp"
#include "src/comm/executor.hpp"
#include "src/comm/hand_over.hpp"
#include "src/comm/links.hpp"
#include "src/comm/monitor.hpp"
#include "src/comm/operators.hpp"
#include "src/comm/registrations.hpp"
#include "src/comm/result_checks.hpp"
#include "src/comm/retry.hpp"
#include "src/comm/settings.hpp"
#include "src/comm/watchdog.hpp"
#include "src/control/session/session.hpp"
#include "src/exec/point_to_point.hpp"
#include "src/plugins/profiler.hpp"

namespace tutti {

/// What the user has made for one communicator.
struct UserObjects {
  OperatorTable operators;
  Registrations registrations;
};

/// What users attach to calls by variables; null where they did not.
struct Attachments {
  std::unique_ptr<profiler::Profiler> profiler;  // TUTTI_PROFILER_PLUGIN: hears of calls
  std::unique_ptr<ResultChecks> resultChecks;    // TUTTI_CHECK_RESULTS: compares results among ranks
  std::unique_ptr<Retry> retry;                  // TUTTI_RETRY: has calls finished on all ranks or on none
  MonitorSeat monitorSeat;                       // TUTTI_MONITOR: tutti-top asks here

  /// Whether calls go by batches, which these follow.
  bool followCalls() const { return profiler != nullptr || resultChecks != nullptr || retry != nullptr; }
};

/// The order of calls, and what runs those outside groups, one after the other.
struct CallState {
  std::shared_ptr<CallOrder> order = std::make_shared<CallOrder>();  // also of the handle, which outlives this
  std::unique_ptr<Batch> batch;
  PointToPointRun transfer;  // the send or receive that was made before
  HandOver handOver;
};

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
  CallPlanner& planner() { return planner_; }
  const CallPlanner& planner() const { return planner_; }
  OperatorTable& operators() { return userObjects_.operators; }
  /// The user's memory that operations may use without a copy.  Any thread.  Errors: InvalidArgument: the rank's device
  /// cannot reach it; SystemError; UnhandledCudaError.
  Result<void*> registerMemory(void* buffer, size_t bytes);
  /// After the calls made before.  Errors: InvalidArgument: no registration; InvalidUsage: work that may use the memory
  /// is still under way, and it stays registered.
  Status deregisterMemory(void* handle);
  CallOrder& callOrder() { return *calls_.order; }
  /// All but the order only with the turn.
  CallState& calls() { return calls_; }
  Links& links() { return *links_; }
  /// How this rank's calls are carried out.
  Executor& executor() const { return *executor_; }
  /// Where the ranks are, and how they meet; set while they join.
  const RankLayout& layout() const { return layout_; }
  const Attachments& attached() const { return attached_; }
  /// How calls wait and end.
  Watchdog& watchdog() { return watchdog_; }
  /// The error that broke this communicator, or ok.  Any thread.
  Status failure() const { return watchdog_.failure(); }
  Deadline deadline() const { return watchdog_.deadline(); }
  /// End calls in flight here and on communicators that were split from this one, and tell the others.  Any thread.
  void abort() { endOnPurpose("aborted", "its own messages say why"); }
  /// As abort, and the communicator can still be shrunk.
  void revoke() { endOnPurpose("revoked", "tuttiCommShrink makes one of the ranks that go on"); }
  /// Tell the other ranks what has ended this communicator here.  Any thread but a Session's.
  void tell(const Status& why) { control_->reportFailure({rank(), why, true}); }

  /// All ranks have come here and have made the same calls.  Collective.
  Status finalize();

  /// A call is about to use memory of the host; needless unless tellsOfUse().
  void use(const void* data, size_t bytes) { userObjects_.registrations.use(data, bytes); }
  bool tellsOfUse() const { return userObjects_.registrations.tellsAnyone(); }

 private:
  friend class Joining;
  Comm(const CommSettings& settings, AbortState* abortState);
  AbortState& abortState() { return watchdog_.abortState(); }
  void onFailure(const Failure& failure);
  void endOnPurpose(std::string_view verb, std::string_view remedy);

  CommSettings settings_;
  Watchdog watchdog_;  // before control_, whose thread reads its record
  std::unique_ptr<Control> control_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Executor> executor_;
  RankLayout layout_;
  UserObjects userObjects_;
  CallPlanner planner_{*this};
  CallState calls_;
  Attachments attached_;
};

}  // namespace tutti

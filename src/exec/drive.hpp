// Drives tasks on the calling thread until all are done, waiting as the machine's load allows.
//
// Waiting: spin with pause, then give the core away (sched_yield), then sleep until a peer rings.  With more ranks than
// cores spinning only keeps the awaited rank from running, so it is left out.  A communicator may ask for one of these
// alone; where several are driven together, the one that leaves the core soonest decides.  Every wait looks at the
// abort word and at the deadline, which counts from the last progress, and not while the process itself is stopped.
#pragma once

#include <functional>
#include <span>

#include "src/exec/task.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// How one communicator's tasks wait.  Borrowed by drive().
struct WaitPolicy {
  tuttiWaitMode_t mode = TUTTI_WAIT_AUTO;
  bool spin = true;      // false with more ranks than cores on this host; for TUTTI_WAIT_AUTO
  int spinUs = -1;       // TUTTI_SPIN_US; -1: by the above
  int sliceUs = 0;       // TUTTI_SLICE_US: of a thread that yields because cores are shared; 0: as it is
  int timeoutMs = 0;     // 0: for ever
  int firstLookMs = 20;  // a wait of this long (then twice, four times ...) calls `stalled`
};

/// Whose task it is: knows the abort word, and turns waits and errors into verdicts.  Called on the driving thread.
class TaskOwner {
 public:
  virtual ~TaskOwner() = default;
  virtual bool aborting() const = 0;
  /// Called now and then while the task waits: keeps bytes moving that its current step is not about.
  virtual void progress() = 0;
  /// The error once aborting().
  virtual Status aborted() = 0;
  /// Called after waits of firstLookMs and longer: looks for ranks that disagree or have left.  An error ends the task.
  virtual Status stalled(int waitingOn) = 0;
  /// Called at the deadline: the error, naming the rank that is to blame.
  virtual Status expired(int waitingOn) = 0;
  /// Called with an error of step(); gives the one to report (a refused message becomes a verdict on who differs).
  virtual Status failed(const Status& error, int waitingOn) = 0;
  /// The same of a task that was preparing: nothing has been said to others.
  virtual Status unprepared(const Status& error, int waitingOn) { return failed(error, waitingOn); }
};

/// A task with what belongs to its communicator.
struct DrivenTask {
  Task* task = nullptr;
  TaskOwner* owner = nullptr;
  WaitPolicy policy;
  std::span<Sleeper* const> sleepers;
  Status result;
  bool done = false;
  std::function<void()> atEnd;  // called by drive() once it uses nothing of the task's any more; may be empty
};

/// What drive() does with an error of step(); for a caller that takes the first step itself.
void failTask(DrivenTask* task, const Status& error);

/// Runs every task to its end, successful or not; results are in `result`.  An error in one task does not stop others.
void drive(std::span<DrivenTask> tasks);

}  // namespace tutti

// Drives tasks on the calling thread until all are done, waiting as the machine's load allows.
//
// Waiting: spin with pause, then give the core away (sched_yield), then sleep until a peer rings.  With more ranks than
// cores spinning only keeps the awaited rank from running, so it is left out; and beside other programs, which take a
// slice of the core when it is given away, yielding is (turn_cost.hpp).  Where others take slices from a thread that
// spins it spins little and then sleeps (spin_cost.hpp).  A communicator may ask for one of these alone; where several
// are driven together, the one that leaves the core soonest decides.  Every wait looks at the abort word and at the
// deadline, which counts from the task's own last progress, and not while the process itself is stopped.  Nothing
// blocks: a task whose verdict is awaited holds up no other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/pending.hpp"
#include "src/exec/task.hpp"
#include "transport/transport.hpp"

namespace tutti {

class SpinCost;
class TurnCost;

/// How one communicator's tasks wait.
struct WaitPolicy {
  tuttiWaitMode_t mode = TUTTI_WAIT_AUTO;
  bool spin = true;  // false with more ranks than cores on this host; for TUTTI_WAIT_AUTO
  /// The threads of ranks and of their streams are more than this host's cores.  A stream's thread that stayed awake
  /// would take a core from a rank that computes; for TUTTI_WAIT_AUTO.
  bool streamsShareCores = false;
  bool onStream = false;  // the thread that waits is a stream's
  /// Messages come in batches, as from sockets: another has often come by the second look, and a thread that hands the
  /// core on before it makes all batches smaller.
  bool inBatches = false;
  int spinUs = -1;    // TUTTI_SPIN_US; -1: by the above
  int sliceUs = 0;    // TUTTI_SLICE_US: of a thread that yields because cores are shared; 0: as it is
  int timeoutMs = 0;  // 0: for ever
  const std::vector<int>* processes = nullptr;  // of this host's ranks; borrowed
  int firstLookMs = 20;  // a wait of this long (then twice, four times, at last every second) calls `stalled`
};

/// A verdict on its way: an error is the verdict; true: nothing is wrong.
using PendingVerdict = std::unique_ptr<Pending<bool>>;

/// Whose task it is: knows the abort word, and turns waits and errors into verdicts.  Called on the driving thread;
/// nothing blocks.
class TaskOwner {
 public:
  virtual ~TaskOwner() = default;
  virtual bool aborting() const = 0;
  /// Called now and then while the task waits: keeps bytes moving that its current step is not about.
  virtual void progress() = 0;
  /// Whether stalled() is to be asked before its time, because something else has failed.
  virtual bool looksNow() { return false; }
  /// The error once aborting().
  virtual Status aborted() = 0;
  /// Called before each of the following: the task that it is about.
  virtual void isAbout(const Task&) {}
  /// Called after waits of firstLookMs and longer: looks for ranks that disagree or have left.  An error ends the task.
  virtual PendingVerdict stalled(int waitingOn) = 0;
  /// Called at the deadline: the error, naming the rank that is to blame.
  virtual PendingVerdict expired(int waitingOn) = 0;
  /// Called with an error of step(); gives the one to report (a refused message becomes a verdict on who differs).
  virtual PendingVerdict failed(const Status& error, int waitingOn) = 0;
  /// The same of a task that was preparing: nothing has been said to others.
  virtual PendingVerdict unprepared(const Status& error, int waitingOn) { return failed(error, waitingOn); }
};

/// A task with what belongs to its communicator.
struct DrivenTask {
  Task* task = nullptr;
  TaskOwner* owner = nullptr;
  WaitPolicy policy;
  std::span<Sleeper* const> sleepers;
  Status result;
  bool done = false;
  std::function<void()> atEnd;  // called once nothing of the task's is used any more, but this; may be empty

  /// Drive's.
  struct State {
    enum class Phase : uint8_t {
      Running,
      Judged,     // awaits the verdict that will be its result
      Abandoned,  // until nobody uses its memory
    } phase = Phase::Running;
    bool moved = true;  // since the last look at the clock
    int64_t waitedNs = 0, nextLookNs = 0;
    PendingVerdict verdict;
    DrivenTask* next = nullptr;
  } state = {};
};

/// What becomes of an error of step(); for a caller that takes the first step itself.  Before it is driven.
void failTask(DrivenTask* task, const Status& error);

/// Steps of one task in the first moments of its wait, before anything is set up to drive it: waits for short messages
/// end there.  Spins or yields, by `policy`.  Gives what the last step said; Blocked at once where `policy` or the load
/// of the core wants the thread to sleep.
Result<Progress> stepBriefly(Task& task, TaskOwner& owner, const WaitPolicy& policy);

/// Whether waits begin with handing the core on, as ranks share cores.
bool yieldsFirst(const WaitPolicy& policy);

/// Hands the core on once, for ranks to go on that this thread has sent to.  Not beside other programs, which would
/// take a slice.
void handOn(const WaitPolicy& policy);

/// Tasks that are driven side by side.  One thread, but for ring().
class Drive {
 public:
  Drive() = default;
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;
  ~Drive() { stayAwake(); }

  /// Borrowed until it is done and its atEnd has been called, which may add others.  An error in one task does not stop
  /// others.
  void add(DrivenTask* task);
  bool empty() const { return first_ == nullptr; }
  /// Whether nothing has moved for some rounds: what is driven is no call that waits for an instant.
  bool waits() const { return rounds_ >= kRoundsOfInstant; }
  /// A step of each task, and a wait if nothing has moved.  looksSoon: it is not to sleep, as the caller has something
  /// to look at that nobody rings for.
  void round(bool looksSoon = false);
  /// Ends a sleep of round().  Any thread.
  void ring();

 private:
  bool stepAll();
  bool step(DrivenTask* task);
  void end(DrivenTask* task, Status result);
  void checkAborts();
  void letGo();
  void adapt();
  bool wait(bool looksSoon);
  TurnCost& turnCost();
  bool mayYield();
  bool spinsBriefly();
  bool sleep(bool looksSoon);
  void sleepTimed();
  int64_t yield();
  void look();
  void checkTime(DrivenTask* task);
  void stayAwake();

  static constexpr uint64_t kRoundsOfInstant = 4;

  DrivenTask* first_ = nullptr;
  bool someDone_ = false;
  uint32_t moves_ = 0;  // rounds in which something has moved
  // How long a wait stays with what it does before it goes over to what leaves more of the core to others.
  struct Patience {
    static constexpr int64_t kForEver = INT64_MAX;
    int64_t spinNs = kForEver;
    int64_t awakeNs = kForEver;  // spinning or yielding
    int64_t yields = 0;          // as many at least before it sleeps, unless others keep the core busy (turn_cost.hpp)
    bool spinsByLoad = false;    // spins little where others want the core (spin_cost.hpp)
  } patience_;
  static Patience patienceOf(const WaitPolicy& policy);
  friend bool yieldsFirst(const WaitPolicy& policy);
  friend Result<Progress> stepBriefly(Task& task, TaskOwner& owner, const WaitPolicy& policy);
  // One wait: from the moment nothing moves until something does.
  bool moved_ = true;  // since the last look at the clock
  int64_t lastLookNs_ = 0;
  int64_t idleNs_ = 0;
  uint64_t rounds_ = 0;
  int64_t yields_ = 0;
  int64_t yieldedNs_ = 0;        // what those that were timed have cost
  TurnCost* turns_ = nullptr;    // of the driving thread, which is always the same
  SpinCost* spins_ = nullptr;    // likewise
  std::mutex sleeping_;          // guards the next
  Sleeper* prepared_ = nullptr;  // peers have been told to ring; changed by the driving thread alone
};

/// Runs every task to its end, successful or not; results are in `result`.
void drive(std::span<DrivenTask> tasks);

}  // namespace tutti

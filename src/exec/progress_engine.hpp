// The progress engine: one thread of the process that drives the jobs of all its queues side by side.
//
// A queue's jobs run one after the other; the heads of all queues are looked at until they may begin, and then driven
// together.  So nothing that a job does may block.  The thread starts with the first queue, sleeps while no job is
// there, and ends with the last queue.
//
// For who waits and hands on work, as proxies of CUDA ranks do.  Ranks whose calls do arithmetic on the host (user
// streams, communicators that do not block) have a thread each (HostStream): one for all would have the ranks of a
// process wait for each other's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/exec/drive.hpp"

namespace tutti {

/// On the engine's thread.  It is destroyed once it is over.
class ProgressJob {
 public:
  virtual ~ProgressJob() = default;
  /// What to drive, which stays the job's; null as long as it cannot begin.  Never blocks.  Errors: the job is over.
  virtual Result<DrivenTask*> begin() = 0;
  /// After begin()'s error, or when the task is done: what the queue tells in synchronize().
  virtual Status end(Status result) = 0;
};

class ProgressEngine;

/// Jobs that run in order.  Any thread, but for the engine's.
class ProgressQueue {
 public:
  /// Errors: SystemError: there is no room for a thread.
  static Result<std::unique_ptr<ProgressQueue>> create();
  /// Waits for its jobs.
  ~ProgressQueue();
  ProgressQueue(const ProgressQueue&) = delete;
  ProgressQueue& operator=(const ProgressQueue&) = delete;

  enum class Order : uint8_t {
    InTurn,
    Overtakes,  // those that have yet to begin do not hold it up
  };
  void enqueue(std::unique_ptr<ProgressJob> job, Order order = Order::InTurn);
  /// Waits until no job is left; the first error of one since the last call.
  Status synchronize();
  /// `goOn` is called again and again, by the engine's thread, whenever there has been a job and none is left, until it
  /// says that there is nothing more to do.  Before the first job.
  void linger(std::function<bool()> goOn) { linger_ = std::move(goOn); }
  /// Waits as synchronize(), and for the call of it that is under way; there are no more.
  void endLingering();

 private:
  friend class ProgressEngine;
  struct Waiting {
    std::unique_ptr<ProgressJob> job;
    Order order;
  };
  enum class State : uint8_t { Empty, Waits, Driven };
  explicit ProgressQueue(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}
  State advance(Drive* drive);
  State beginNext(Drive* drive);
  bool goOnLingering(std::unique_lock<std::mutex>* lock);
  bool tryBegin(std::list<Waiting>::iterator head, Drive* drive);
  void finish(const Status& result);

  std::shared_ptr<ProgressEngine> engine_;
  // Of the engine's thread.
  std::unique_ptr<ProgressJob> running_;
  DrivenTask* task_ = nullptr;    // its
  int64_t nextLookNs_ = 0;        // at whether a job can begin
  std::function<bool()> linger_;  // may be empty
  // Under the engine's lock.
  std::list<Waiting> jobs_;
  bool listed_ = false;     // the engine has it, or is about to
  bool lingering_ = false;  // it is listed for that alone
  bool lingers_ = true;     // may do so
  Status error_;
};

}  // namespace tutti

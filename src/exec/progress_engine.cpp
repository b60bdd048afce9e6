#include "src/exec/progress_engine.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "src/base/caught.hpp"
#include "src/base/clock.hpp"
#include "src/base/threads.hpp"

namespace tutti {
namespace {

// Between two looks at whether a job can begin: each may ask a device.
constexpr int64_t kLookNs = 20'000;

}  // namespace

class ProgressEngine {
 public:
  /// The process's; started if there is none.
  static Result<std::shared_ptr<ProgressEngine>> get();
  ~ProgressEngine();

  /// With the lock: has the thread see to the queue.
  void list(ProgressQueue* queue);

  std::mutex mutex;
  std::condition_variable emptied;  // a queue

 private:
  struct Registry;
  void work();
  bool takeNews();

  std::condition_variable news_;
  std::vector<ProgressQueue*> arrived_;  // under mutex
  std::atomic<bool> hasArrived_{false};
  bool ending_ = false;                 // under mutex
  std::vector<ProgressQueue*> queues_;  // with jobs; of the thread
  Drive drive_;
  std::thread thread_;
};

/// Process-wide because it is to be one thread; never destroyed because threads may outlive static destructors.
struct ProgressEngine::Registry {
  std::mutex mutex;
  std::weak_ptr<ProgressEngine> current;

  Registry() { pthread_atfork(lock, unlock, forget); }
  static Registry& instance() {
    static Registry* registry = new Registry;
    return *registry;
  }
  static void lock() { instance().mutex.lock(); }
  static void unlock() { instance().mutex.unlock(); }
  // A child has no such thread, and must not use the queues of its parent.
  static void forget() {
    instance().current.reset();
    unlock();
  }
};

Result<std::shared_ptr<ProgressEngine>> ProgressEngine::get() {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  if (std::shared_ptr<ProgressEngine> engine = registry.current.lock()) return engine;
  auto engine = std::make_shared<ProgressEngine>();
  TUTTI_ASSIGN(engine->thread_, startThread("the progress engine", [e = engine.get()] { e->work(); }));
  registry.current = engine;
  return engine;
}

ProgressEngine::~ProgressEngine() {
  {
    const std::lock_guard lock(mutex);
    ending_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressEngine::list(ProgressQueue* queue) {
  arrived_.push_back(queue);
  hasArrived_.store(true, std::memory_order_release);  // pairs with takeNews()
  news_.notify_all();
  drive_.ring();  // where it sleeps for a task's sake
}

/// Sleeps while there is nothing to do.  False: the engine ends.
bool ProgressEngine::takeNews() {
  if (!queues_.empty() && !hasArrived_.load(std::memory_order_acquire)) return true;
  std::unique_lock lock(mutex);
  news_.wait(lock, [this] { return ending_ || !queues_.empty() || !arrived_.empty(); });
  queues_.insert(queues_.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  hasArrived_.store(false, std::memory_order_relaxed);
  return !queues_.empty();
}

void ProgressEngine::work() {
  nameOwnThread("tutti-progress");
  using State = ProgressQueue::State;
  while (takeNews()) {
    int driven = 0;
    size_t kept = 0;
    for (ProgressQueue* queue : queues_) {
      const State state = queue->advance(&drive_);
      if (state == State::Empty) continue;  // it may be gone
      if (state == State::Driven) ++driven;
      queues_[kept++] = queue;
    }
    queues_.resize(kept);
    if (driven > 0) {
      // The sleeper of one task would not be rung for another.
      drive_.round(kept > 1);
    } else if (kept > 0) {
      pauseBetweenLooks();
    }
  }
}

Result<std::unique_ptr<ProgressQueue>> ProgressQueue::create() {
  TUTTI_ASSIGN(std::shared_ptr<ProgressEngine> engine, ProgressEngine::get());
  return std::unique_ptr<ProgressQueue>(new ProgressQueue(std::move(engine)));
}

ProgressQueue::~ProgressQueue() { endLingering(); }

Status ProgressQueue::synchronize() {
  std::unique_lock lock(engine_->mutex);
  engine_->emptied.wait(lock, [this] { return !listed_ || lingering_; });
  return std::exchange(error_, Status());
}

void ProgressQueue::endLingering() {
  std::unique_lock lock(engine_->mutex);
  lingers_ = false;
  engine_->emptied.wait(lock, [this] { return !listed_; });
}

void ProgressQueue::enqueue(std::unique_ptr<ProgressJob> job, Order order) {
  const std::lock_guard lock(engine_->mutex);
  jobs_.push_back({std::move(job), order});
  lingering_ = false;
  if (!std::exchange(listed_, true)) engine_->list(this);
}

// ---- On the engine's thread.

ProgressQueue::State ProgressQueue::advance(Drive* drive) {
  if (running_ != nullptr && !task_->done) return State::Driven;
  if (running_ != nullptr) finish(task_->result);
  return beginNext(drive);
}

/// The first that can begin: the head, or one that overtakes it.
ProgressQueue::State ProgressQueue::beginNext(Drive* drive) {
  std::unique_lock lock(engine_->mutex);
  while (!jobs_.empty()) {
    if (nowNs() < nextLookNs_) return State::Waits;
    const auto head = jobs_.begin();
    auto next =
        std::find_if(std::next(head), jobs_.end(), [](const Waiting& w) { return w.order == Order::Overtakes; });
    const bool overtaken = next != jobs_.end();
    lock.unlock();  // others only put more behind these
    const bool begun = tryBegin(head, drive) || (overtaken && tryBegin(next, drive));
    if (running_ != nullptr) return State::Driven;
    if (!begun) nextLookNs_ = nowNs() + kLookNs;
    lock.lock();
  }
  if (goOnLingering(&lock)) return State::Waits;
  listed_ = lingering_ = false;
  engine_->emptied.notify_all();
  return State::Empty;
}

/// Whether it has to be done again, as long as there are no jobs.
bool ProgressQueue::goOnLingering(std::unique_lock<std::mutex>* lock) {
  if (!lingers_ || linger_ == nullptr) return false;
  if (!std::exchange(lingering_, true)) engine_->emptied.notify_all();
  lock->unlock();
  const bool more = linger_();
  lock->lock();
  return (more && lingers_) || !jobs_.empty();
}

/// Whether it has begun; it may be over then.
bool ProgressQueue::tryBegin(std::list<Waiting>::iterator head, Drive* drive) {
  const Result<DrivenTask*> task = caught([&] { return head->job->begin(); });
  if (task.ok() && *task == nullptr) return false;
  running_ = std::move(head->job);
  {
    const std::lock_guard lock(engine_->mutex);
    jobs_.erase(head);
  }
  nextLookNs_ = 0;
  if (task.ok()) {
    task_ = *task;
    drive->add(task_);
  } else {
    finish(task.status());
  }
  return true;
}

void ProgressQueue::finish(const Status& result) {
  Status told = caught([&] { return running_->end(result); });
  running_.reset();  // frees what it holds before anyone is told that it is done
  const std::lock_guard lock(engine_->mutex);
  if (error_.ok()) error_ = std::move(told);
}

}  // namespace tutti

// The completion queues of one transport, one for each rail: what its adapters tell of all its connections, and
// sleeping until they do.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "transport/fd_sleeper.hpp"
#include "transport/verbs/device.hpp"

namespace tutti::verbs {

/// Who is told what completed.  Called in Completions::poll().
class Listener {
 public:
  virtual ~Listener() = default;
  /// A message of the peer's has come with these 32 bits.
  virtual void came(uint32_t immediate) = 0;
  /// The operation posted with these 32 bits is done, and all before it.
  virtual void finished(uint32_t posted) = 0;
  /// Nothing more will complete.  what: a clause.
  virtual void failed(const std::string& what) = 0;
};

/// An endpoint whose posted receives progress() serves.
class Served {
 public:
  virtual ~Served() = default;
  /// Fetches what has come for them; an error is told by the next call.  some: something has completed.
  virtual void goOn(bool some) = 0;
  /// The rank is about to sleep, until something completes.
  virtual void beforeSleep() = 0;
};

/// Operations name their listener in the upper half of wr_id, and in the lower half what they are; this one is a
/// receive.
inline constexpr uint32_t kReceiveWork = 0xffffffff;
constexpr uint64_t workId(uint32_t listener, uint32_t what) { return uint64_t{listener} << 32 | what; }

/// add(), remove(), ring(): any thread.  The rest: the thread that uses the transport's endpoints.
class Completions final : public Sleeper {
 public:
  /// Errors: SystemError.
  static Result<std::shared_ptr<Completions>> create(const Rails& rails);
  ~Completions() override;

  const std::shared_ptr<Device>& device(size_t rail) const { return queues_[rail].device; }
  ibv_cq* queue(size_t rail) const { return queues_[rail].queue; }
  /// Tell `listener`, borrowed until remove(), which may have so many operations under way on a rail; its number.
  /// Errors: SystemError: the queue cannot be made large enough.
  Result<uint32_t> add(Listener* listener, size_t rail, int operations);
  void remove(uint32_t number);
  /// A socket that also ends sleeps.
  Status watch(int fd) { return sleeper_->add(fd); }
  void unwatch(int fd) { sleeper_->remove(fd); }

  /// Tell everyone what has completed, and now and then what happened to the port.  True if something has.
  bool poll();
  /// poll(), and what endpoints have to do about it.
  bool progress();
  /// Whether this rank has waited awake for so long that it is likely to do so for the next message, too.
  bool staysAwake() const { return emptyLooks_ - emptyLooksBefore_ >= kLooksAwake; }
  /// A look at slots that found nothing, in place of poll().
  void lookedElsewhere() { ++emptyLooks_; }
  /// Borrowed until leave().
  void serve(Served* endpoint) { served_.push_back(endpoint); }
  void leave(const Served* endpoint) { std::erase(served_, endpoint); }
  /// Whether an event has said that the port is down, and none since that it is up.  Any thread.
  bool isDown(size_t rail) {
    const std::lock_guard lock(mutex_);
    return queues_[rail].down;
  }
  /// The same once all events up to now have been told: those of before must not end what is made afterwards.
  bool isDownNow(size_t rail) {
    const std::lock_guard lock(mutex_);
    lookAtEvents(rail);
    return queues_[rail].down;
  }
  /// Whether this is the first call for a rail, since it has returned.
  bool isFirstLoss(size_t rail) { return !std::exchange(queues_[rail].lost, true); }
  /// Whether this is the first call for a rail since it was lost.
  bool hasReturned(size_t rail) { return std::exchange(queues_[rail].lost, false); }

  void prepare() override;
  void sleep(int us) override;
  void cancel() override {}
  void ring() override { sleeper_->ring(); }

 private:
  static constexpr uint32_t kLooksAwake = 256;
  struct Queue {
    std::shared_ptr<Device> device;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* queue = nullptr;
    int operations = 0;  // of all
    bool down = false, lost = false;
  };
  explicit Completions(std::shared_ptr<FdSleeper> sleeper) : sleeper_(std::move(sleeper)) {}
  Status open(Queue* rail);
  int pollOne(size_t rail);
  void tell(size_t rail, const ibv_wc& completion);
  void lookAtEvents(size_t rail);
  void failAll(size_t rail, const std::string& what);

  const std::shared_ptr<FdSleeper> sleeper_;
  std::vector<Queue> queues_;  // by rail; their operations under mutex_
  std::vector<Served*> served_;
  uint32_t emptyLooks_ = 0;
  uint32_t emptyLooksBefore_ = 0;  // when prepare() was called
  uint32_t emptyPolls_ = 0;

  std::mutex mutex_;  // of what follows
  struct Told {
    Listener* listener = nullptr;
    size_t rail = 0;
    int operations = 0;
  };
  std::vector<Told> told_;  // by number; no number is used again, for completions may come late
  uint64_t completed_ = 0;
  uint64_t completedBefore_ = 0;  // when prepare() was called
};

}  // namespace tutti::verbs

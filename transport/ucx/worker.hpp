// UCX's side of one transport: a context and a worker, ways to peers, registered memory, and sleeping.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/fd_sleeper.hpp"
#include "transport/ucx/library.hpp"
#include "transport/ucx/options.hpp"
#include "transport/ucx/wire.hpp"

namespace tutti::ucx {

/// A connection, which active messages are for.
class Listener {
 public:
  virtual ~Listener() = default;
  /// An active message has come, in Worker::poll().  lent: the sender keeps the payload until it is fetched.  True: the
  /// payload stays until it is fetched or let go of.
  virtual bool came(const Header& header, void* payload, size_t bytes, bool lent) = 0;
};

/// An endpoint whose posted receives progress() serves.
class Served {
 public:
  virtual ~Served() = default;
  /// An error is told by the next call.  some: something has happened.
  virtual void goOn(bool some) = 0;
  /// Looks at all that it would else look at now and then.
  virtual void beforeSleep() = 0;
};

/// An endpoint of UCX's, which all connections to one peer share: which of two such endpoints of both ends UCX takes
/// for a pair depends on their order.
struct Link {
  ucp_ep_h endpoint = nullptr;  // null: closed
  bool lends = false;           // UCX tells the peer's end, and may be told to let go of memory
  bool isUp = false;            // both ends have heard each other by it
  std::string path;             // "tcp/eth0"
  std::string failure;          // "" while there is none
};

/// mutex() has to be held in every call that does not say otherwise.
class Worker final : public Sleeper {
 public:
  /// Errors: InvalidUsage, a clause that says why there is none.
  static Result<std::shared_ptr<Worker>> create(const Options& options);
  ~Worker() override;

  /// Held by those who use the worker: endpoints belong to one thread, but others open some and ask for messages that
  /// wait.
  std::mutex& mutex() { return mutex_; }
  const Library& api() const { return api_; }
  ucp_worker_h handle() const { return worker_; }
  /// Where peers find it.  Any thread.
  const std::string& address() const { return address_; }
  /// "UCX 1.13.1, for memory of host, cuda".  Any thread.
  const std::string& describe() const { return description_; }
  /// Whether UCX takes memory that it calls so.  Any thread.
  bool takes(ucs_memory_type_t type) const { return (memoryTypes_ >> type & 1) != 0; }

  /// Borrowed until remove(); its number, which is never used again.
  uint32_t add(Listener* listener);
  void remove(uint32_t number) { listeners_[number] = {}; }
  uint32_t key(uint32_t number) const { return listeners_[number].key; }
  /// The way to the worker of this address.  Errors: SystemError, a clause.
  Result<std::shared_ptr<Link>> link(const std::string& address);
  /// All requests to the peer end, with an error: nobody uses their memory any more when progress has told so.  Does
  /// nothing where it is not up.
  void close(Link* link);
  /// Until the worker ends: memory that requests still use.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  /// Let UCX move what it can.  True if something has happened.
  bool poll();
  /// What is left of Options::closeMs; connections subtract what they take.
  int64_t& closeNs() { return closeNs_; }

  /// Any thread; takes the mutex for no longer than to read.
  Result<ucp_mem_h> registerMemory(const Memory& memory, ucs_memory_type_t type);
  void deregisterMemory(ucp_mem_h memory) { (void)api_.memUnmap(context_, memory); }

  /// poll(), and what endpoints have to do about it.  Takes the mutex.
  bool progress();
  /// Borrowed until leave().
  void serve(Served* endpoint) { served_.push_back(endpoint); }
  void leave(const Served* endpoint) { std::erase(served_, endpoint); }
  /// A socket that also ends sleeps.  Any thread.
  Status watch(int fd) { return sleeper_->add(fd); }
  void unwatch(int fd) { sleeper_->remove(fd); }

  // ---- Take the mutex.
  void prepare() override;
  void sleep(int us) override;
  void cancel() override {}
  void ring() override { sleeper_->ring(); }

 private:
  Worker(const Library& api, std::shared_ptr<FdSleeper> sleeper, int closeMs)
      : api_(api), sleeper_(std::move(sleeper)), closeNs_(int64_t{closeMs} * 1'000'000) {}
  Status open(const Options& options);
  Status openContext(const Options& options, Listening* words);
  Status openWorker(Listening* words);
  ucs_status_t createEndpoint(Link* link, const std::string& address, ucp_err_handling_mode_t mode);
  bool tell(const Header& header, void* payload, size_t bytes, bool lent);
  struct LeftBehind;

  const Library& api_;
  const std::shared_ptr<FdSleeper> sleeper_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wakeUps_ = -1;  // the descriptor by which UCX wakes
  std::string address_, description_;
  uint64_t memoryTypes_ = 0;

  std::mutex mutex_;  // of what follows
  struct Told {
    Listener* listener = nullptr;
    uint32_t key = 0;
  };
  std::vector<Told> listeners_;
  std::map<std::string, std::shared_ptr<Link>> links_;  // by address
  std::vector<ucs_status_ptr_t> closings_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<Served*> served_;
  int64_t closeNs_;
  uint64_t happened_ = 0;
  uint64_t happenedBefore_ = 0;  // when prepare() was called
  bool armed_ = false;
};

}  // namespace tutti::ucx

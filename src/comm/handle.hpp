// What a tuttiComm_t points to: outlives its communicator, so that use after destroy has an answer.
//
// The process keeps the handles of the last kGoneKept communicators that are gone (a KiB each): a stale tuttiComm_t
// then finds a handle in state Gone instead of memory that is somebody else's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "src/comm/comm.hpp"
#include "src/device/host/host_stream.hpp"

struct tuttiComm : std::enable_shared_from_this<tuttiComm> {
  enum class State { Joining, Ready, Failed, Gone, Forked };  // Forked: the parent process's

  std::atomic<State> state{State::Joining};
  tutti::AbortState abortState;
  std::atomic<int> users{0};  // CommUse that are alive
  std::atomic<bool> finalized{false};
  int rank = 0;
  int nRanks = 0;
  tutti::CommSettings settings;
  std::unique_ptr<tutti::Comm> comm;            // while Ready
  std::shared_ptr<tutti::CallOrder> callOrder;  // comm's; from Ready on, and never changed again
  std::unique_ptr<tutti::HostStream> own;       // blocking = 0: carries calls without a host stream
  std::thread joiner;                           // blocking = 0: while Joining; see finishJoiner()
  std::mutex joinerMutex;

  std::mutex mutex;  // guards what follows
  tutti::Status error;
  std::string lastErrorText;
  std::string shownErrorText;  // what tuttiGetLastError has handed out

  bool retired = false;           // under the lock of all handles, as the next
  tuttiComm* nextGone = nullptr;  // who was retired after this one
};

namespace tutti {

/// Handles of communicators that are gone which are kept at least, the newest ones.
inline constexpr int kGoneKept = 256;

/// A new handle, owned by the process until it is one of many that are retired.
tuttiComm* newHandle(int rank, int nRanks, const CommSettings& settings);

/// Nothing will come of the handle any more: it is freed once kGoneKept others have been retired after it and nobody
/// refers to it.  Any thread, once or more often.
void retire(tuttiComm* handle) noexcept;

/// How a communicator comes to be; runs on the caller's thread, a group's, or the handle's own.
using JoinFunction = std::function<Result<std::unique_ptr<Comm>>(AbortState* abortState)>;

/// Tells the other ranks why this one does not come to a join, where there is no thread for it.  May be empty.
using NotComing = std::function<void(const Status& why)>;

/// Run `join` for the handle: now, in the enclosing group's end, or (blocking = 0) in the background.
/// *out is the handle, NULL if a join that was waited for failed, or could not begin.
Status startJoin(tuttiComm* handle, JoinFunction join, tuttiComm_t* out, NotComing notComing = {});

/// Run `join` and put the outcome into the handle.
Status finishJoin(tuttiComm* handle, const JoinFunction& join);

/// A communicator that is not freed while this lives, whoever destroys or aborts it meanwhile.
class CommUse {
 public:
  CommUse(const CommUse& other) : CommUse(other.handle_) {}
  CommUse(CommUse&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CommUse& operator=(CommUse other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CommUse() {
    if (handle_ != nullptr) handle_->users.fetch_sub(1, std::memory_order_acq_rel);  // pairs with endComm()
  }

  Comm& operator*() const { return *handle_->comm; }
  Comm* operator->() const { return handle_->comm.get(); }
  tuttiComm* handle() const { return handle_; }

 private:
  friend Result<CommUse> use(tuttiComm_t handle);
  explicit CommUse(tuttiComm* handle) : handle_(handle) {
    handle_->users.fetch_add(1, std::memory_order_seq_cst);  // partner: endComm()
  }

  tuttiComm* handle_;
};

/// The communicator of a handle if calls may be made on it.  Errors: InvalidArgument (NULL, destroyed), InvalidUsage
/// (still joining, or made before this process was forked), or the error that broke it.
Result<CommUse> use(tuttiComm_t handle);

/// InvalidUsage if it was made before this process was forked: a child has none of the threads, and its memory is a
/// copy. It is the communicator of the parent, which the child can neither use nor end.
Status checkProcess(const tuttiComm* handle);

/// Keep `error` as the handle's last.
void remember(tuttiComm* handle, const Status& error);

/// Wait until a join in the background is over.  Any thread.
void finishJoiner(tuttiComm* handle);

/// Say that the communicator is gone, wait for calls in flight, and free it.  Of several threads that do so, one does.
void endComm(tuttiComm* handle);

}  // namespace tutti

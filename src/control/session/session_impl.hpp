// The inside of Session and Control; only session.cpp and control.cpp include it.
//
// One lock serialises everything: the BootstrapNode and all it stands on.  The Session's thread takes it to handle
// events and gives it back while it sleeps; callers take it to start something and wait on `changed` for the outcome.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "src/base/wait_time.hpp"
#include "src/control/overdue.hpp"
#include "src/control/session/fd_exchange.hpp"
#include "src/control/session/place_secret.hpp"
#include "src/control/session/presence.hpp"
#include "src/control/session/process_watch.hpp"
#include "src/control/session/session.hpp"
#include "src/control/session/socket_network.hpp"

namespace tutti {

/// In the machines' place when they have missed something: they would take what comes now for a mistake of the peers.
class DeafMachine final : public Machine {
 public:
  void onAccepted(LinkId) override {}
  void onConnected(LinkId) override {}
  void onMessage(LinkId, std::string_view) override {}
  void onClosed(LinkId, const Status&) override {}
  int64_t nextTimerNs() const override { return kNoTimer; }
  void onTimer() override {}
};

struct Session::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<SocketNetwork> network;
  std::unique_ptr<BootstrapNode> bootstrap;
  DeafMachine deaf;
  std::unique_ptr<FdServer> fds;
  std::unique_ptr<PlaceSecretServer> placeSecret;
  std::set<Control::Impl*> controls;
  std::map<MemberId, int64_t> joins;  // the deadline of each member that is coming up
  ControlAddress controlAddress;
  Presence presence;
  int nPaths = 1;  // StreamExchange::nPaths
  std::thread thread;
  pid_t process = 0;        // the one that made it; a forked child has only a useless copy
  int64_t sleepsUntil = 0;  // the thread's; a caller that needs it sooner wakes it
  bool news = false;        // changed since the thread last looked
  bool meetingsEnded = false;
  bool outOfMemory = false;  // the machines have missed something: nothing comes up or goes on any more
  int64_t endNs = kNoTimer;  // set when the Session ends: flush until then at most

  Status open(const std::vector<SocketAddress>& addresses, int64_t timeoutMs);
  Status startThread();
  void run();
  void turn(std::unique_lock<std::mutex>* lock);
  void giveUp();
  void putOff(int64_t lateNs);
  void onTimers();
  int64_t nextTimerNs() const;
  bool mayEnd() const;
};

/// The lock for a caller's visit; wakes the thread behind it if the visit gave the thread something to do.
class Visit {
 public:
  explicit Visit(Session::Impl& io) : io_(io), lock_(io.mutex) {}
  ~Visit() { wakeThread(); }
  /// Sleep until something changed or untilNs.
  void wait(int64_t untilNs);
  /// Give the lock back for this call.
  void apart(const std::function<void()>& call) {
    wakeThread();
    lock_.unlock();
    call();
    lock_.lock();
  }

 private:
  void wakeThread() {
    if (io_.news || io_.nextTimerNs() < io_.sleepsUntil) io_.reactor->wake();
  }
  Session::Impl& io_;
  std::unique_lock<std::mutex> lock_;
};

// For the BootstrapNode to say who is missing, after the deadline.
inline constexpr int64_t kVerdictNs = 1000 * kMs;

struct Control::Impl {
  explicit Impl(std::shared_ptr<Session> s) : session(std::move(s)), io(*session->impl_) {}

  std::shared_ptr<Session> session;
  Session::Impl& io;
  MemberId member = 0;
  JoinRequest request;
  std::vector<std::string> infos;                // the callers' blobs, by rank
  std::vector<Presence> presences;               // by rank
  std::vector<ControlAddress> controlAddresses;  // by rank
  const std::atomic<uint32_t>* abort = nullptr;
  std::function<void(const Failure&)> onFailure;
  bool failureTold = false, endTold = false;
  std::mutex agreeing;       // one agree() at a time; before the Session's lock
  uint64_t agreedEpoch = 0;  // of the last decision that agree() has handed out
  std::function<void(int)> onGone;
  std::set<int> goneTold;                                           // ranks that onGone has been called with
  std::map<std::pair<int, StreamIndex>, DirectionKeys> streamKeys;  // by peer and index, until somebody asks
  std::function<void()> onArrival;
  int polled = 0;  // things that are polled
  std::unique_ptr<ProcessWatch> processes;
  struct Ended {
    int64_t reportNs;
    int rank;
    int pid;
  };
  std::vector<Ended> ended;  // processes that are gone, whose goodbye may still be on its way

  std::function<Look()> ticker;
  int64_t tickNs = 0;  // between two looks
  int64_t nextTickNs = kNoTimer;

  enum class Woken { Ready, Failed, Aborted, TooLate };
  /// Wait, under the visit's lock, until ready() or one of the other three; no longer than until untilNs.  meanwhile:
  /// called without the lock every few milliseconds.
  Woken wait(Visit* visit, WaitTime* time, int64_t untilNs, const std::function<bool()>& ready, bool heedAbort = true,
             const std::function<void()>& meanwhile = {});
  /// The same, until the time is over; every now and then all ranks are asked whether they have made other calls.
  Woken waitAndAsk(Visit* visit, WaitTime* time, const std::function<bool()>& ready, bool heedAbort,
                   const std::function<void()>& meanwhile);
  /// waitAndAsk() as a Status; `what` completes "rank 3 of 8 waited until its deadline for ...".
  Status waitFor(Visit* visit, WaitTime* time, const std::string& what, const std::function<bool()>& ready,
                 bool heedAbort = true, const std::function<void()>& meanwhile = {});
  Result<std::vector<std::string>> gather(std::string blob, Deadline deadline, bool heedAbort,
                                          const std::function<void()>& meanwhile = {});
  Status awaitDecision(Visit* visit, WaitTime* time, const std::atomic<uint32_t>* stop, Overdue* overdue);
  std::string undecided(const std::string& when) const;
  /// The verdict of all ranks on a wait that took too long; `tooLate` as it is if it is something else.
  Status blame(Visit* visit, int suspect, const Status& tooLate);
  Status failure() const;
  Status aborted() const;
  /// The error that ends a wait before its deadline, or ok.
  Status over() const;

  Status comeUp(Deadline deadline, const std::function<Status()>& whyAborted);
  Status unwrapInfos();
  void tellFailure();
  void tellGone();
  void tellArrival();
  void processEnded(int rank, int pid);
  Fd takeStream(int peer, StreamIndex index);
  void tick();
  int64_t nextTimerNs() const;
  void onTimer();
};

}  // namespace tutti

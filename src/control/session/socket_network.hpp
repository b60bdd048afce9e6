// The Network of a Session: messages over TCP by epoll.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "src/base/seldom.hpp"
#include "src/control/network.hpp"
#include "src/control/session/address.hpp"
#include "src/control/session/fork_guard.hpp"
#include "src/control/session/frame.hpp"
#include "src/control/session/reactor.hpp"

namespace tutti {

/// Threads: all under the Session's lock.  Calls into the Machine come from the Reactor's dispatch, deliver() and
/// onTimer() only, never from within a Network call.
class SocketNetwork : public Network {
 public:
  /// silenceMs: after how long a host that answers nothing counts as dead (TCP_USER_TIMEOUT, keep-alive).
  /// parked() is called when a stream becomes available to takeStream.
  SocketNetwork(Reactor& reactor, int64_t silenceMs, std::function<void()> parked);
  ~SocketNetwork() override;

  void setMachine(Machine* machine) { machine_ = machine; }

  /// Accept connections on this address; port 0: any.  Returns the address with its port.
  /// Errors: SystemError naming the address.
  Result<SocketAddress> listen(const SocketAddress& address);
  void stopListening();

  int64_t nowNs() override;
  void randomBytes(std::span<std::byte> out) override;
  LinkId dial(const ControlAddress& to) override;
  void send(LinkId link, std::string_view message) override;
  void close(LinkId link) override;
  void drop(LinkId link) override;
  bool silent(LinkId link) override;
  size_t mostStrangers() const override;
  void handOver(LinkId link, const std::string& streamKey, const DirectionKeys& keys) override;

  /// The stream that was handed over under this key, and its keys; not valid while there is none.
  struct Stream {
    Fd fd;
    DirectionKeys keys;
  };
  Stream takeStream(const std::string& key);
  /// Close the streams nobody has taken whose keys begin so.
  void dropStreams(const std::string& keyPrefix);

  /// When onTimer has something to do; kNoTimer for never; 0: deliver() has.
  int64_t nextTimerNs() const;
  void onTimer();
  /// Tell the machine what could not be told from within its own call.
  void deliver();
  /// Links that still have something to flush.
  bool flushing() const { return !lingering_.empty(); }

 private:
  enum class State { Dialing, Open, HandingOver, Flushing, Draining };
  struct Attempt {
    size_t candidate = 0;
    OwnFd fd;
    Reactor::Id watch = 0;
  };
  struct Link {
    State state = State::Open;
    OwnFd fd;
    Reactor::Id watch = 0;
    FrameReader reader;
    std::string out;  // bytes to send, from outDone on
    size_t outDone = 0;
    int sendError = 0;                      // of a send: the system says it once, and a receive then finds an end
    std::vector<SocketAddress> candidates;  // Dialing
    size_t candidate = 0;                   // the next to be tried
    std::vector<Attempt> attempts;          // at those before; the first that is answered counts
    int64_t timerNs = kNoTimer;
    std::string problems;  // of the attempts that have failed
    int refusals = 0, otherProblems = 0;
    std::string streamKey;  // HandingOver
    DirectionKeys keys;
  };
  struct Listener {
    OwnFd fd;
    Reactor::Id watch = 0;
  };

  Link* find(LinkId id);
  void erase(LinkId id);
  void setTimer(LinkId id, Link& link, int64_t ns);
  void tuneSocket(int fd) const;
  uint32_t eventsOf(const Link& link) const;

  bool watch(LinkId id, Link& link);
  void tryNext(LinkId id, Link& link);
  static void addProblem(Link& link, const SocketAddress& to, int error);
  bool beginConnect(LinkId id, Link& link, size_t candidate);
  void attemptDone(LinkId id, size_t candidate);
  void dropAttempts(Link& link);

  void onAcceptable(size_t listener);
  void restFromAccepting(int error);
  void onLinkEvent(LinkId id, uint32_t events);
  void readMessages(LinkId id);
  void flush(Link& link);
  void afterFlush(LinkId id, Link& link);
  void park(LinkId id, Link& link);
  void drain(LinkId id, Link& link);
  void fail(LinkId id, const Status& why);

  Reactor& reactor_;
  const int64_t silenceMs_;
  const std::function<void()> parked_;
  Machine* machine_ = nullptr;
  LinkId lastLink_ = 0;
  std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
  std::set<std::pair<int64_t, LinkId>> timers_;
  std::set<LinkId> lingering_;  // Flushing, Draining, HandingOver
  std::deque<std::pair<LinkId, Status>> failed_;
  std::deque<Listener> listeners_;
  int64_t acceptAgainNs_ = kNoTimer;  // out of descriptors: the listeners rest until then
  OwnFd spare_;                       // for turning dialers away when there is no other descriptor
  Seldom refusals_;
  struct Parked {
    OwnFd fd;
    DirectionKeys keys;
  };
  std::map<std::string, Parked> parkedStreams_;
};

}  // namespace tutti

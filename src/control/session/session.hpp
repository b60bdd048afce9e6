// One rank's presence on the network: a thread that owns a BootstrapNode, its sockets, and the host-local descriptor
// exchange.
//
// A Session is shared by a communicator and its children (split, shrink).  Control is one communicator's view of it and
// is what the communicator calls.  All functions may be called from any thread unless they say otherwise; those that
// wait take a Deadline and return early when the communicator fails.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/status.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/session/interfaces.hpp"
#include "transport/services.hpp"

namespace tutti {

class Control;

class Session : public std::enable_shared_from_this<Session> {
 public:
  /// Opens TCP listeners (interfaces by TUTTI_SOCKET_IFNAME, TUTTI_SOCKET_FAMILY) and an abstract Unix socket, starts
  /// the thread.  Errors: InvalidUsage: the configuration; SystemError.
  static Result<std::shared_ptr<Session>> create(Reach reach = Reach::Network);
  /// Listens on these addresses instead; a port other than 0 must be free on all of them.  None: it can dial only.
  static Result<std::shared_ptr<Session>> create(const std::vector<SocketAddress>& addresses);
  ~Session();  // ends the thread; all Controls must be gone

  const ControlAddress& controlAddress() const;

  /// Be the rendezvous of a unique id on this Session's listener, until all have met.
  void serveRendezvous(const CommId& commId, const Secret& secret, const std::string& where);
  /// Give the secret of this rendezvous to processes of this user on this host that ask for it (place_secret.hpp);
  /// empty: say that TUTTI_SECRET has it.  Errors: SystemError.
  Status servePlaceSecret(const CommId& commId, const Secret& secret);
  /// As BootstrapNode::rankEnded.
  void rankEnded(const CommId& commId, int rank, const std::string& how);
  /// Wait until they have; false: the deadline came first, or endRendezvous().
  bool waitForRendezvous(const CommId& commId, Deadline deadline);
  /// Let go those who wait for a rendezvous.
  void endRendezvous();

  /// Tell the rendezvous of `request` (commId, secret, rank, nRanks, rendezvous) that its rank does not come, and why:
  /// all who meet there fail with that.  Waits until the place has been told.
  /// Errors: Timeout: it could not be reached before the deadline; InvalidUsage: what listens there has another secret.
  Status tell(const JoinRequest& request, const Failure& why, Deadline deadline);

  /// Join a communicator; blocks until all ranks are up, `deadline`, or *abort != 0.  onFailure is called on the
  /// Session's thread when the communicator first fails, and once more when it is then ended on purpose; it must not
  /// block or call back into Control.
  /// abort (or nullptr) is looked at by every later wait of the Control too and must outlive it.  whyAborted: called
  /// where that ends the join; what it says, if anything, is what the other ranks hear.  Of the request, self and
  /// deadlineNs are filled in here, and the secret where it is the user's.
  Result<std::unique_ptr<Control>> join(JoinRequest request, Deadline deadline, const std::atomic<uint32_t>* abort,
                                        std::function<void(const Failure&)> onFailure,
                                        const std::function<Status()>& whyAborted = {});

  struct Impl;  // session_impl.hpp

 private:
  friend class Control;
  Session();
  std::unique_ptr<Impl> impl_;
};

/// A rank that seems to be in another call.
struct Suspicion {
  uint64_t sequence = 0;  // of the call of this rank
  int rank = -1;
};
/// By rank; false as a condition where there are none.
struct Blobs : std::vector<std::string> {
  explicit operator bool() const { return !empty(); }
};
/// What a ticker has seen.
struct Look {
  bool again = true;  // false: not before startTicker()
  std::optional<Suspicion> stray;
};

/// One communicator's control plane.  A wait that reaches its deadline breaks the communicator: all ranks are asked,
/// and all get one verdict that names who is to blame.  What is polled says the communicator's failure, too.
class Control : public FdExchange, public StreamExchange {
 public:
  ~Control() override;  // leaves in order

  int rank() const;
  int nRanks() const;
  const std::vector<std::string>& infos() const;
  const std::vector<ControlAddress>& controlAddresses() const;
  const Secret& secret() const;
  const std::shared_ptr<Session>& session() const;

  /// Collective.
  Result<std::vector<std::string>> allGather(std::string blob, Deadline deadline);
  /// The last allGather: of the abort word it takes no notice, only of failures that ranks report here.  Who has all
  /// blobs may do what sets that word elsewhere, while others still wait for theirs.
  /// meanwhile: called now and then until then, without the Session's lock.
  Result<std::vector<std::string>> farewell(std::string blob, Deadline deadline,
                                            const std::function<void()>& meanwhile = {});
  Status barrier(Deadline deadline);
  /// An allGather that is polled; blobs without ranks: not there yet.  Must be polled to its end.
  std::unique_ptr<Pending<Blobs>> beginAllGather(std::string blob);

  /// Vote in the ranks' next agreement and wait for its decision, the next that this rank has not had from here.  Ranks
  /// that are gone are missing from it.
  ///   All        of all ranks, as allGather: failures and the abort word end the wait, and its deadline breaks the
  ///              communicator
  ///   Survivors  heeds neither, only `stop` (or nullptr)
  /// Errors: RemoteError: the others go on without this rank, a failure, or *stop != 0; Timeout.  The vote stands all
  /// the same, and may come with the decision of a later call.
  enum class Among : uint8_t { All, Survivors };
  Result<Decision> agree(const Vote& vote, Among among, Deadline deadline, const std::atomic<uint32_t>* stop = nullptr);
  /// The same, without waiting for the decision.
  void vote(const Vote& vote);
  /// Called on the Session's thread, by the rules of onFailure, with every rank that is out of these agreements: it has
  /// died, left or been excluded, now or before.  Empty: not any more.
  void setOnGone(std::function<void(int rank)> onGone);

  void setState(std::function<RankState()> state);
  void reportFailure(Failure failure);
  /// As BootstrapNode::setNames.
  void setNames(std::string where, std::vector<HostOfRank> hosts);
  /// For how long each rank's host has answered nothing, in milliseconds, as ranks that found so have told; 0: it
  /// answers.
  std::vector<int64_t> silentMs() const;
  /// Ask everyone what they are doing.  Gives the failure that the verdict made, or true: nothing is known beyond what
  /// made the caller ask.  Bounded by graceMs and what the verdict takes to come.
  std::unique_ptr<Pending<bool>> beginInquiry(InquiryReason reason, uint64_t sequence, int suspect, int graceMs);
  /// By rank: what was answered to this rank's last inquiry that found nothing wrong; empty: there was none.
  std::vector<std::optional<RankReport>> lastAnswers() const;
  /// The first failure, or ok.
  Status failure() const;

  Status serve(const std::string& key, int fd) override;
  void unserve(const std::string& key) override;
  PendingFd fetch(int peer, const std::string& key) override;
  PendingFd open(int peer, StreamIndex index) override;
  Result<Fd> opened(int peer, StreamIndex index) override;
  DirectionKeys keysOf(int peer, StreamIndex index) override;
  int nPaths() const override;
  /// Called on the Session's thread, by the rules of onFailure, when something that is polled may have come.  Empty:
  /// not any more.
  void setOnArrival(std::function<void()> onArrival);

  /// Watch these processes of this host (pid by rank, 0 where not to watch): when one ends, its rank has failed.
  void watchProcesses(const std::vector<int>& pids);

  /// Something to look at every intervalNs, on the I/O thread, between startTicker() and a look that wants no other.
  /// A suspicion becomes an inquiry (Mismatch).  The ticker must not block nor call the Control.  Empty: none any more.
  void setTicker(int64_t intervalNs, std::function<Look()> ticker);
  void startTicker();

  struct Impl;  // session_impl.hpp

 private:
  friend class Session;
  Control();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

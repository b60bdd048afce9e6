// Hands descriptors to other ranks of this host: an abstract Unix socket (nothing in the file system) and SCM_RIGHTS.
//
//   server  -> a nonce
//   client  -> communicator, nonce, proof of the communicator's secret over both nonces and the key, the key
//   server  -> once the key is served: its own proof, with the descriptor
// Both ends also check that the kernel names the same user (or root) at the other end.  Whoever does not prove the
// secret is cut off without a word.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "src/base/clock.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/session/fork_guard.hpp"
#include "src/control/session/reactor.hpp"

namespace tutti {

inline constexpr size_t kMaxFdKeyBytes = 1024;

/// The serving end.  Threads: all under the Session's lock.
class FdServer {
 public:
  /// Errors: SystemError.
  static Result<std::unique_ptr<FdServer>> create(Reactor& reactor);
  ~FdServer();

  /// The name of the socket in this network namespace.
  const std::string& name() const { return name_; }

  /// Lets those who prove this secret fetch what is served for this communicator.
  void admit(const CommId& commId, const Secret& secret);
  /// Forget the communicator and everything served for it; those that wait are cut off.
  void dismiss(const CommId& commId);

  /// Serve a duplicate of fd.  Errors: InvalidUsage: the key is taken or too long; SystemError.
  Status serve(const CommId& commId, const std::string& key, int fd);
  void unserve(const CommId& commId, const std::string& key);

  /// When onTimer wants to be called; kNoTimer for never.
  int64_t nextTimerNs() const { return acceptAgainNs_; }
  void onTimer();

 private:
  explicit FdServer(Reactor& reactor) : reactor_(reactor) {}
  struct Community {
    Secret secret{};  // derived, for this purpose alone
    std::map<std::string, OwnFd> served;
  };
  struct Client {
    OwnFd fd;
    Reactor::Id watch = 0;
    std::string nonce;
    bool waiting = false;  // has proven the secret; what follows is set
    CommId commId{};
    std::string key;
    std::string answer;
  };
  using ClientIt = std::list<Client>::iterator;

  void onAcceptable();
  void onClient(ClientIt client);
  bool readRequest(Client* client);
  bool answer(Client* client);
  void drop(ClientIt client);

  Reactor& reactor_;
  std::string name_;
  OwnFd listener_;
  Reactor::Id watch_ = 0;
  std::map<CommId, Community> communities_;
  std::list<Client> clients_;
  int64_t acceptAgainNs_ = kNoTimer;
};

/// A fetch: the server, the communicator with its secret, and the key.
struct FdRequest {
  std::string serverName;
  CommId commId{};
  Secret secret{};
  std::string key;
};

/// The fetching end, of one descriptor.  Threads: all under the Session's lock.
class FdFetch {
 public:
  /// arrived: called by the reactor's thread when poll() has something new to say.
  FdFetch(Reactor& reactor, FdRequest request, std::function<void()> arrived)
      : reactor_(reactor), request_(std::move(request)), arrived_(std::move(arrived)) {}
  ~FdFetch() { reactor_.remove(watch_); }
  FdFetch(const FdFetch&) = delete;
  FdFetch& operator=(const FdFetch&) = delete;

  /// The descriptor, once; invalid while it is not there.  Errors: RemoteError: the server is gone or does not know the
  /// secret; SystemError.
  Result<Fd> poll();

 private:
  Status connect();
  Status prove();
  Status receive();
  void onReadable();

  Reactor& reactor_;
  const FdRequest request_;
  const std::function<void()> arrived_;
  OwnFd socket_;
  Reactor::Id watch_ = 0;  // 0: not connected, or over
  std::string expected_;   // the server's proof; empty: its nonce is to come
  Fd fetched_;
  Status failure_;
};

/// Where descriptors can be handed over: equal texts share a network namespace of one running system (and have the same
/// TUTTI_HOSTID).
std::string descriptorDomain();

}  // namespace tutti

// How ranks of one user on one host get the secret of a place for which their launcher hands out none: from the process
// that serves the place, over an abstract Unix socket, where the kernel says which user is at the other end.
//
//   server -> one byte: 0, then the secret; 1: the place has the secret of TUTTI_SECRET, which is not told
//
// Both ends accept their own user and root alone.  The connections of ranks then prove that secret as any other, so
// that what the kernel has said holds for them, too.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>

#include "src/base/clock.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/session/reactor.hpp"

namespace tutti {

/// The serving end.  Threads: all under the Session's lock.
class PlaceSecretServer {
 public:
  /// secret: empty where TUTTI_SECRET has it.  Errors: SystemError: the name is taken, by the place of a communicator
  /// that is closing, or by another process.
  static Result<std::unique_ptr<PlaceSecretServer>> create(Reactor& reactor, const CommId& commId, Secret secret);
  ~PlaceSecretServer();

  /// When onTimer wants to be called; kNoTimer for never.
  int64_t nextTimerNs() const { return acceptAgainNs_; }
  void onTimer();

 private:
  PlaceSecretServer(Reactor& reactor, Secret secret) : reactor_(reactor), secret_(std::move(secret)) {}
  void onAcceptable();

  Reactor& reactor_;
  const Secret secret_;
  OwnFd listener_;
  Reactor::Id watch_ = 0;
  int64_t acceptAgainNs_ = kNoTimer;  // out of descriptors until then
};

/// The secret of the place of this name, once somebody serves it; waits until the deadline or *stop != 0 (or nullptr).
/// where: of the place, for the text.
/// Errors: Timeout: nobody of this user does; InvalidUsage: TUTTI_SECRET is set where it is served; RemoteError:
/// stopped; SystemError.
Result<Secret> fetchPlaceSecret(const CommId& commId, const std::string& where, Deadline deadline,
                                const std::atomic<uint32_t>* stop);

}  // namespace tutti

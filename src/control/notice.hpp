// One who does not come: tells a rendezvous so, with the reason, for all who wait there.
#pragma once

#include "src/control/authentication.hpp"

namespace tutti {

/// A machine like Member, of the BootstrapNode's.  Dials the rendezvous of `request` until it has proven the secret,
/// says `failure`, and closes.  Of the request it needs commId, secret, rank, nRanks and rendezvous.
class Notice {
 public:
  Notice(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request,
         Failure failure);

  void start();
  bool told() const { return told_; }
  /// Why the last dial failed; InvalidUsage: who listens there has another secret.
  const Status& trouble() const { return trouble_; }
  void cancel();

  // From the BootstrapNode.
  void onProven(LinkId link);
  void onDialFailed(LinkId link, const Status& why);
  int64_t nextTimerNs() const { return nextNs_; }
  void onTimer();

 private:
  Network& network_;
  LinkAuthentication& authentication_;
  const MemberId id_;
  const JoinRequest request_;
  const Failure failure_;
  LinkId link_ = 0;  // under way; 0: none
  int64_t nextNs_ = kNoTimer;
  bool told_ = false;
  Status trouble_;
};

}  // namespace tutti

// The streams that one rank dials to others, and the summons by which it asks lower ranks to dial.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "src/base/stream_index.hpp"
#include "src/control/dialer.hpp"

namespace tutti {

/// A machine without I/O.
class StreamDials {
 public:
  /// The references outlive it; control addresses are empty until the ranks are up.
  StreamDials(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request,
              const std::vector<ControlAddress>& controlAddresses)
      : network_(network),
        request_(request),
        controlAddresses_(controlAddresses),
        dialer_(network, authentication, id, request.secret) {}

  /// Control addresses are known from now on.
  void up();
  /// The communicator has failed, or the rank leaves: none is dialed any more.
  void stop();
  /// As BootstrapNode::dialStream.
  void dial(int peer, StreamIndex index);
  /// As BootstrapNode::summonStream.
  void summon(int peer, StreamIndex index);

  /// A link of Purpose::Stream or Summon is proven.  False also for a summons that has done its work: the link is
  /// closed.
  bool onProven(LinkId link, const Hello& hello, bool weDialed);
  void onDialFailed(LinkId link, const Status& why);
  const Dial* unreachable() { return dialer_.unreachable(dials()); }
  int64_t nextTimerNs() const { return dialer_.nextTimerNs(); }
  void onTimer() { dialer_.onTimer(dials()); }

 private:
  void dialFor(Purpose purpose, int peer, StreamIndex index);
  std::vector<Dial*> dials();

  Network& network_;
  const JoinRequest& request_;
  const std::vector<ControlAddress>& controlAddresses_;
  Dialer dialer_;
  std::vector<Dial> dials_;                           // and summons
  std::set<std::pair<int, StreamIndex>> dialed_;      // by peer and index, each once
  std::vector<std::pair<int, StreamIndex>> waiting_;  // until the ranks are up
  bool up_ = false, stopped_ = false;
};

}  // namespace tutti

// Dials and links of a member; overlay_links.cpp has those of its neighbours.
#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/log.hpp"
#include "src/base/stream_index.hpp"
#include "src/control/member.hpp"
#include "src/control/overlay.hpp"

namespace tutti {

namespace {

/// A rendezvous that has been reached before and cuts links off for this long is gone.
constexpr int64_t kRendezvousCutOffNs = 1'000'000'000;
/// How long a rendezvous may have another secret: that of an earlier job may still be closing.
constexpr int64_t kOtherSecretNs = 2'000'000'000;

}  // namespace

void Member::tryDial(Dial& dial) {
  dial.nextNs = kNoTimer;
  dial.link = authentication_.dial(dial.to, dial.hello, request_.secret, id_);
}

void Member::retryDial(Dial& dial, const Status& why) {
  dial.retry(network_, why);
  dialNs_ = std::min(dialNs_, dial.nextNs);
}

std::vector<Dial*> Member::dials() {
  std::vector<Dial*> all{&rendezvousDial_};
  for (auto& [rank, neighbour] : neighbours_) all.push_back(&neighbour.dial);
  for (Dial& stream : streams_) all.push_back(&stream);
  return all;
}

ControlAddress Member::controlAddressOf(int peer) const {
  const ControlAddress& known = controlAddresses_[static_cast<size_t>(peer)];
  if (!known.empty()) return known;
  const auto it = neighbours_.find(peer);
  return it != neighbours_.end() && !it->second.dial.to.empty() ? it->second.dial.to : "an unknown address";
}

void Member::setControlAddress(int peer, const ControlAddress& controlAddress) {
  const auto it = neighbours_.find(peer);
  if (it == neighbours_.end()) return;
  Neighbour& neighbour = it->second;
  const bool news = neighbour.dial.to.empty();
  neighbour.dial.to = controlAddress;
  if (!news || !neighbour.weDial || neighbour.made > 0) return;
  neighbour.dial.beganNs = network_.nowNs();
  tryDial(peer, neighbour);
}

/// The rendezvous says who has not come before this rank looks for whom to name (checkJoin).
void Member::registerAtPlace() {
  toldDeadlineNs_ = joinDeadlineNs_;
  const int64_t patienceNs = joinDeadlineNs_ - joinMarginNs() * 5 / 2 - network_.nowNs();
  network_.send(rendezvousLink_,
                registerMessage({request_.rank, request_.nRanks, request_.self, instance_,
                                 joinDeadlineNs_ == kNoTimer ? kNoTimer : std::max<int64_t>(patienceNs, 0)}));
}

bool Member::onProven(LinkId link, const Hello& hello, bool weDialed) {
  if (hello.nRanks != request_.nRanks) return false;
  if (hello.purpose == Purpose::Agreement) return survivors_.onProven(link, hello, weDialed);
  if (hello.purpose == Purpose::Meet) {
    if (!weDialed || link != rendezvousDial_.link) return false;
    rendezvousDial_.link = 0;
    rendezvousDial_.backoffNs = 0;
    rendezvousDial_.failingSinceNs = rendezvousDial_.refusedSinceNs = kNoTimer;
    rendezvousLink_ = link;
    registered_ = true;
    registerAtPlace();
    if (failure_) network_.send(link, failureMessage(*failure_));
    return true;
  }
  if (hello.purpose == Purpose::Stream || hello.purpose == Purpose::Summon)
    return onStreamProven(link, hello, weDialed);
  return hello.purpose == Purpose::Recall ? onRecallProven(link, hello, weDialed)
                                          : onOverlayProven(link, hello, weDialed);
}

/// False also for a summons that has done its work: the link is closed.
bool Member::onStreamProven(LinkId link, const Hello& hello, bool weDialed) {
  const int peer = weDialed ? hello.acceptor : hello.dialer;
  if (weDialed) {
    const auto dial = std::find_if(streams_.begin(), streams_.end(), [&](const Dial& d) { return d.link == link; });
    if (dial == streams_.end()) return false;
    streams_.erase(dial);
  }
  if (hello.purpose == Purpose::Summon) {
    if (!weDialed && peer > request_.rank) dialStream(peer, hello.index);
    return false;
  }
  if (!weDialed && peer >= request_.rank) return false;  // the lower rank dials
  network_.handOver(link, BootstrapNode::streamKey(request_.commId, peer, hello.index), {});
  return true;
}

void Member::onDialFailed(LinkId link, const Status& why) {
  if (survivors_.onDialFailed(link, why)) return;
  if (rendezvousDial_.link == link) return onRendezvousDialFailed(why);
  for (const auto& [peer, neighbour] : neighbours_)
    if (neighbour.dial.link == link) return onNeighbourDialFailed(peer, why);
  for (Dial& stream : streams_)
    if (stream.link == link) return retryDial(stream, why);
}

bool Member::rendezvousNeeded() const {
  if (up_ || failure_ || !request_.members.empty()) return false;
  // Whoever knows all it has to dial can do without.
  return std::any_of(neighbours_.begin(), neighbours_.end(),
                     [](const auto& n) { return n.second.weDial && n.second.dial.to.empty(); });
}

void Member::onRendezvousDialFailed(const Status& why) {
  retryDial(rendezvousDial_, why);
  const int64_t now = network_.nowNs();
  otherSecretNs_ = why.code() == tuttiInvalidUsage ? std::min(otherSecretNs_, now) : kNoTimer;
  if (!registered_ && otherSecretNs_ != kNoTimer && now - otherSecretNs_ >= kOtherSecretNs) {
    rendezvousDial_.nextNs = kNoTimer;
    return fail({request_.rank, invalidUsage(ErrorCode::SecretDiffers, "rank ", request_.rank,
                                             " has another secret than the rendezvous at ", request_.rendezvous,
                                             "; set TUTTI_SECRET alike on all ranks")});
  }
  const bool wasThere = registered_ || openBeforeKnown(request_.commId);
  if (!wasThere || !rendezvousDial_.findsNobody(now, kRendezvousCutOffNs)) return;
  rendezvousDial_.nextNs = kNoTimer;
  if (rendezvousNeeded())
    fail({-1,
          remoteError(ErrorCode::RendezvousGone, "the rendezvous at ", request_.rendezvous, " is gone (", why.message(),
                      ") before all ranks had met; the process that made the unique id has probably ended")});
}

void Member::onClosed(LinkId link, const Status& why) {
  if (survivors_.onClosed(link, why)) return;
  if (link == rendezvousLink_) {
    rendezvousLink_ = 0;
    if (!up_ && !failure_) retryDial(rendezvousDial_, why);
    return;
  }
  for (auto& [peer, neighbour] : neighbours_)
    if (neighbour.link.id() == link) return lostNeighbour(peer, why);
}

void Member::onUnlike() {
  const bool here = authentication_.encrypts();
  fail({request_.rank, invalidUsage(ErrorCode::EncryptionDiffers, "TUTTI_ENCRYPT is ", here ? 1 : 0, " on rank ",
                                    request_.rank, " and ", here ? 0 : 1, " where ranks meet, at ", request_.rendezvous,
                                    "; set it alike on all ranks")});
}

void Member::dialStream(int peer, StreamIndex index) {
  TUTTI_ASSERT(peer >= 0 && peer < request_.nRanks);
  if (peer <= request_.rank || failure_) return;
  if (!up_) {  // its control address may not be known yet
    summons_.emplace_back(peer, index);
    return;
  }
  if (dialed_.emplace(peer, index).second) dialFor(Purpose::Stream, peer, index);
}

void Member::summonStream(int peer, StreamIndex index) {
  TUTTI_ASSERT(up_ && peer >= 0 && peer < request_.rank);
  if (!failure_) dialFor(Purpose::Summon, peer, index);
}

void Member::dialFor(Purpose purpose, int peer, StreamIndex index) {
  Dial& dial = streams_.emplace_back();
  const ControlAddress& to = controlAddresses_[static_cast<size_t>(peer)];
  dial.to = purpose == Purpose::Stream ? beginWith(to, pathOfStream(index)) : to;
  dial.hello = {purpose, request_.commId, request_.rank, peer, request_.nRanks, index};
  dial.beganNs = network_.nowNs();
  tryDial(dial);
}

/// Fail if a link or stream lacks because the peer's host does not even take connections.  A process that is busy or
/// stopped has a system that does, and one packet may be lost.  For when time is up: till then the network may heal.
bool Member::failUnreachable() {
  constexpr int64_t kUnansweredNs = 2'000'000'000;
  for (const Dial* dial : dials()) {
    const bool waits = dial->beganNs != kNoTimer && (dial->link == 0 || authentication_.connecting(dial->link));
    if (!waits || network_.nowNs() - dial->beganNs < kUnansweredNs) continue;
    const int peer = dial->hello.acceptor;
    fail({peer, timeoutError(ErrorCode::RanksUnreachable, "rank ", peer, " cannot be reached by rank ", request_.rank,
                             " (", dial->why.ok() ? cat(dial->to, " has not answered") : dial->why.message(), ") ",
                             during(), "; check that no firewall is between them, and TUTTI_SOCKET_IFNAME")});
    return true;
  }
  return false;
}

Departed Member::leave() {
  if (!up_ && !failure_ && request_.nRanks > 1)
    fail({request_.rank, remoteError(ErrorCode::LeftEarly, "rank ", request_.rank, " has given up ", during())});
  for (Dial* dial : dials()) authentication_.cancel(dial->link);
  streams_.clear();
  Departed departed{request_.commId, request_.secret, request_.rank, failure_, report()};
  const std::string goodbye = goodbyeMessage(departed.lastWords);
  for (auto& [peer, neighbour] : neighbours_) {
    if (neighbour.link.flows()) network_.send(neighbour.link.id(), goodbye);
    closeLink(neighbour);
    if (!neighbour.departed && neighbour.link.kept() > 0) departed.rest.emplace(peer, std::move(neighbour.link));
  }
  if (rendezvousLink_ != 0) network_.close(rendezvousLink_);
  survivors_.leave();
  return departed;
}

void Member::flood(const std::string& message, int but) {
  for (auto& [peer, neighbour] : neighbours_)
    if (peer != but) neighbour.link.send(message);
}

void Member::sendTo(int peer, const std::string& message) {
  const auto it = neighbours_.find(peer);
  if (it != neighbours_.end()) it->second.link.send(message);
}

}  // namespace tutti

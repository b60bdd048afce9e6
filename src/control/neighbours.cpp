#include "src/control/neighbours.hpp"

#include <algorithm>

#include "src/base/log.hpp"
#include "src/base/tcp_stall.hpp"
#include "src/control/overlay.hpp"

namespace tutti {

namespace {

constexpr int64_t kHeartbeatNs = 1'000'000'000;
/// A neighbour that was not heard for this long is suspect; three beats may be late.
constexpr int64_t kQuietNs = 3'500'000'000;
/// A neighbour that has never been linked with us and cuts links off for this long is gone.
constexpr int64_t kNeighbourCutOffNs = 5'000'000'000;
/// A link that does not last for this long is dialed later each time.
constexpr int64_t kLastsNs = 1'000'000'000;
/// How long a peer that has been recalled gets to dial.
constexpr int64_t kRecalledNs = 100'000'000;

}  // namespace

Neighbours::Neighbours(NeighboursHost& host, Network& network, LinkAuthentication& authentication, MemberId id,
                       const JoinRequest& request)
    : host_(host),
      network_(network),
      request_(request),
      dialer_(network, authentication, id, request.secret),
      silences_(request.rank, request.nRanks, [this](int rank) { return host_.controlAddressOf(rank); }) {
  for (const OverlayLink& link : overlayLinks(request_.rank, request_.nRanks))
    neighbours_.try_emplace(link.peer, Neighbour{.weDial = link.weDial, .link = ResumableLink(network_)});
}

void Neighbours::start() {
  if (request_.nRanks > 1) heartbeatNs_ = network_.nowNs() + kHeartbeatNs;
}

// ---- Ranks and messages

std::vector<Dial*> Neighbours::dials() {
  std::vector<Dial*> all;
  for (auto& [peer, neighbour] : neighbours_) all.push_back(&neighbour.dial);
  return all;
}

void Neighbours::setControlAddress(int peer, const ControlAddress& controlAddress) {
  const auto it = neighbours_.find(peer);
  if (it == neighbours_.end()) return;
  Neighbour& neighbour = it->second;
  const bool news = neighbour.dial.to.empty();
  neighbour.dial.to = controlAddress;
  if (!news || !neighbour.weDial || neighbour.made > 0) return;
  neighbour.dial.beganNs = network_.nowNs();
  tryDial(peer, neighbour);
}

ControlAddress Neighbours::addressOf(int peer) const {
  const auto it = neighbours_.find(peer);
  return it != neighbours_.end() ? it->second.dial.to : ControlAddress();
}

bool Neighbours::lacksAddress() const {
  return std::any_of(neighbours_.begin(), neighbours_.end(),
                     [](const auto& n) { return n.second.weDial && !n.second.confirmed && n.second.dial.to.empty(); });
}

bool Neighbours::allStand() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [](const auto& n) { return n.second.confirmed; });
}

void Neighbours::flood(const std::string& message, int but) {
  for (auto& [peer, neighbour] : neighbours_)
    if (peer != but) neighbour.link.send(message);
}

void Neighbours::sendTo(int peer, const std::string& message) {
  const auto it = neighbours_.find(peer);
  if (it != neighbours_.end()) it->second.link.send(message);
}

std::map<int, ResumableLink> Neighbours::leave(const std::string& goodbye) {
  std::map<int, ResumableLink> rest;
  for (auto& [peer, neighbour] : neighbours_) {
    dialer_.cancel(neighbour.dial);
    if (neighbour.link.flows()) network_.send(neighbour.link.id(), goodbye);
    closeLink(neighbour);
    if (!neighbour.departed && neighbour.link.kept() > 0) rest.emplace(peer, std::move(neighbour.link));
  }
  return rest;
}

std::vector<std::pair<int, RankReport>> Neighbours::departed() const {
  std::vector<std::pair<int, RankReport>> all;
  for (const auto& [peer, neighbour] : neighbours_)
    if (neighbour.departed) all.emplace_back(peer, *neighbour.departed);
  return all;
}

bool Neighbours::misses(int rank) const {
  const auto it = neighbours_.find(rank);
  return it != neighbours_.end() && !it->second.departed;
}

void Neighbours::onGoodbye(int from, const RankReport& words) {
  Neighbour& neighbour = neighbours_.at(from);
  neighbour.departed = words;
  closeLink(neighbour);
  dialer_.cancel(neighbour.dial);
  neighbour.dial = {};
  neighbour.broken = {};
  host_.lostLink(from);
}

std::vector<int> Neighbours::quiet() const {
  std::vector<int> ranks;
  for (const auto& [peer, neighbour] : neighbours_) {
    const bool counts = neighbour.link.flows() || neighbour.broken.sinceNs != kNoTimer;
    if (counts && network_.nowNs() - neighbour.heardNs > kQuietNs) ranks.push_back(peer);
  }
  return ranks;
}

Neighbours::Unlinked Neighbours::unlinked(bool all) const {
  Unlinked found;
  for (const auto& [peer, neighbour] : neighbours_) {
    if (neighbour.confirmed || !(neighbour.weDial || all)) continue;
    found.ranks.push_back(peer);
    if (found.how.empty()) found.how = howMissed(peer, neighbour);
  }
  return found;
}

/// Between which addresses a link did not come about.
std::string Neighbours::howMissed(int peer, const Neighbour& neighbour) const {
  if (!neighbour.weDial) return cat("rank ", peer, " dials rank ", request_.rank, " at ", request_.self);
  const Status& why = neighbour.dial.why;
  return cat("rank ", request_.rank, " dials rank ", peer, ": ",
             why.ok() ? cat(neighbour.dial.to, " has not answered yet") : why.message());
}

Neighbours::Came Neighbours::onMessage(LinkId link, std::string_view message) {
  for (auto& [peer, neighbour] : neighbours_) {
    if (neighbour.link.id() != link) continue;
    const ResumableLink::Came came = neighbour.link.onMessage(message);
    if (neighbour.link.flows()) {
      if (neighbour.broken.sinceNs != kNoTimer) mended(peer, neighbour);
      confirm(neighbour);
    }
    return {peer, came};
  }
  return {};
}

bool Neighbours::onProven(LinkId link, const Hello& hello, bool weDialed) {
  return hello.purpose == Purpose::Recall ? onRecallProven(link, hello, weDialed)
                                          : onOverlayProven(link, hello, weDialed);
}

bool Neighbours::onDialFailed(LinkId link, const Status& why) {
  for (auto& [peer, neighbour] : neighbours_) {
    if (neighbour.dial.link != link) continue;
    dialFailed(peer, neighbour, why);
    return true;
  }
  return false;
}

void Neighbours::onClosed(LinkId link, const Status& why) {
  for (auto& [peer, neighbour] : neighbours_)
    if (neighbour.link.id() == link) return lost(peer, why);
}

int64_t Neighbours::nextTimerNs() const {
  return std::min({dialer_.nextTimerNs(), brokenNs_, silenceLookNs_, heartbeatNs_});
}

void Neighbours::onTimer() {
  const int64_t now = network_.nowNs();
  dialer_.onTimer(dials());
  if (heartbeatNs_ <= now) {
    heartbeatNs_ = now + kHeartbeatNs;
    for (auto& [peer, neighbour] : neighbours_) neighbour.link.beat();
    silenceLookNs_ = now + kTcpSilenceShowsNs;
  }
  if (silenceLookNs_ <= now) lookForSilence();
  if (brokenNs_ <= now) giveUpBroken();
}

// ---- Made

bool Neighbours::onOverlayProven(LinkId link, const Hello& hello, bool weDialed) {
  const int peer = weDialed ? hello.acceptor : hello.dialer;
  const auto it = neighbours_.find(peer);
  if (it == neighbours_.end() || it->second.weDial != weDialed || hello.index + 1 < it->second.made) return false;
  // One that comes again has given up the former connection, perhaps before it knew that it stood.
  closeLink(it->second);
  linked(it->second, link, hello, weDialed);
  return true;
}

/// False: the link has done its work, and is closed.
bool Neighbours::onRecallProven(LinkId link, const Hello& hello, bool weDialed) {
  const int peer = weDialed ? hello.acceptor : hello.dialer;
  const auto it = neighbours_.find(peer);
  if (it == neighbours_.end() || it->second.weDial == weDialed) return false;
  Neighbour& neighbour = it->second;
  if (weDialed) {
    if (neighbour.dial.link != link) return false;
    neighbour.dial.link = 0;
    breakSilent(neighbour);
    closeLink(neighbour);
    neighbour.link.listen(link);
    return true;
  }
  const LinkId old = neighbour.link.id();
  if (old != 0 && hello.index + 1 == neighbour.made) {
    network_.drop(old);
    lost(peer, remoteError(ErrorCode::ConnectionLost, "the other end has lost it"));
  } else if (old == 0 && neighbour.made > 0 && neighbour.dial.link == 0 && neighbour.dial.nextNs == kNoTimer) {
    dialAgain(peer, neighbour);  // one that was taken for dead lives, and is to hear why we have failed
  }
  return false;
}

/// The dialer knows that both ends count on the link.  The acceptor does when it hears the first message; until then
/// the dialer may still give up (it left, or heard of a failure), which says nothing of its health.
void Neighbours::linked(Neighbour& neighbour, LinkId link, const Hello& hello, bool weDialed) {
  if (!weDialed) dialer_.cancel(neighbour.dial);
  neighbour.dial.link = 0;
  neighbour.dial.nextNs = kNoTimer;
  neighbour.dial.failingSinceNs = neighbour.dial.refusedSinceNs = neighbour.dial.beganNs = kNoTimer;
  breakSilent(neighbour);
  neighbour.made = hello.index + 1;
  neighbour.link.connect(link, hello.index == 0, request_.self);
  if (weDialed) confirm(neighbour);
}

void Neighbours::confirm(Neighbour& neighbour) {
  neighbour.heardNs = network_.nowNs();
  if (neighbour.confirmed) return;
  neighbour.confirmed = true;
  host_.linkStands();
}

// ---- Broken

void Neighbours::closeLink(Neighbour& neighbour) {
  if (neighbour.link.id() != 0) network_.close(neighbour.link.id());
  neighbour.link.disconnect();
}

void Neighbours::lost(int peer, const Status& why) {
  Neighbour& neighbour = neighbours_.at(peer);
  neighbour.link.disconnect();
  if (!neighbour.confirmed || neighbour.departed) return;
  const int64_t now = network_.nowNs();
  if (neighbour.broken.sinceNs == kNoTimer) {
    // Silence is over its time, and of what is wrong here another connection would be no better.
    if (why.code() != tuttiRemoteError) return gone(peer, why);
    TUTTI_INFO("bootstrap", "rank ", request_.rank, "'s control connection to rank ", peer, " broke: ", why.message());
    neighbour.broken = {why, now, now + brokenPatienceNs(why)};
    brokenNs_ = std::min(brokenNs_, neighbour.broken.untilNs);
    neighbour.silentNs = kNoTimer;
    if (neighbour.dial.link != 0) return;  // beside the silent one
    if (now - neighbour.mendedNs >= kLastsNs) return dialAgain(peer, neighbour);
  } else if (!neighbour.weDial) {
    neighbour.dial.backoffNs = std::max(neighbour.dial.backoffNs, kRecalledNs);
  }
  dialer_.again(neighbour.dial, why);
}

void Neighbours::dialAgain(int peer, Neighbour& neighbour) {
  neighbour.dial.beganNs = network_.nowNs();
  neighbour.dial.backoffNs = 0;
  tryDial(peer, neighbour);
}

void Neighbours::tryDial(int peer, Neighbour& neighbour) {
  const Purpose purpose = neighbour.weDial ? Purpose::Overlay : Purpose::Recall;
  const StreamIndex index = neighbour.weDial ? neighbour.made : neighbour.made - 1;
  if (!neighbour.weDial) neighbour.dial.to = neighbour.link.peerAddress();
  neighbour.dial.hello = {purpose, request_.commId, request_.rank, peer, request_.nRanks, index};
  dialer_.dial(neighbour.dial);
}

void Neighbours::dialFailed(int peer, Neighbour& neighbour, const Status& why) {
  dialer_.again(neighbour.dial, why);
  if (neighbour.broken.sinceNs != kNoTimer) {
    if (nobodyListens(why) || why.code() == tuttiInvalidUsage)
      gone(peer, remoteError(neighbour.broken.why.text(), "; ", why.message()));
    return;
  }
  if (neighbour.made > 0) {
    neighbour.dial.nextNs = kNoTimer;
    if (neighbour.silentNs != kNoTimer && nobodyListens(why))
      gone(peer, remoteError(ErrorCode::ConnectionLost, "it fell silent; ", why.message()));
    return;
  }
  if (host_.failed() || !neighbour.dial.findsNobody(network_.nowNs(), kNeighbourCutOffNs)) return;
  host_.fail({peer, remoteError(ErrorCode::CannotReach, "rank ", peer, " at ", neighbour.dial.to,
                                " cannot be reached by rank ", request_.rank, " (", why.message(), ") ", host_.during(),
                                "; its process has probably ended, or a firewall or TUTTI_SOCKET_IFNAME is wrong")});
}

/// Both ends go on.
void Neighbours::mended(int peer, Neighbour& neighbour) {
  const int64_t now = network_.nowNs();
  const uint64_t times = neighbour.mends.due(now);
  TUTTI_LOG_AT(times > 0 ? LogLevel::Warn : LogLevel::Info, "bootstrap", "rank ", request_.rank,
               "'s control connection to rank ", peer, " broke (", neighbour.broken.why.message(),
               ") and is back after ", (now - neighbour.broken.sinceNs) / 1'000'000, " ms",
               times > 1 ? cat("; ", times - 1, " others since the last such line") : "");
  neighbour.broken = {};
  neighbour.mendedNs = neighbour.heardNs = now;
  tellSilence();
}

/// Those whose time is up.
void Neighbours::giveUpBroken() {
  const int64_t now = network_.nowNs();
  brokenNs_ = kNoTimer;
  for (auto& [peer, neighbour] : neighbours_) {
    const Break& broken = neighbour.broken;
    if (broken.sinceNs == kNoTimer) continue;
    if (broken.untilNs > now) {
      brokenNs_ = std::min(brokenNs_, broken.untilNs);
      continue;
    }
    const std::string last(neighbour.dial.why.message());
    gone(peer, remoteError(ErrorCode::ConnectionLost, broken.why.message(), "; it could not be made again within ",
                           (broken.untilNs - broken.sinceNs) / 1'000'000, " ms", last.empty() ? "" : ": ", last));
  }
}

void Neighbours::gone(int peer, const Status& why) {
  Neighbour& neighbour = neighbours_.at(peer);
  dialer_.cancel(neighbour.dial);
  neighbour.dial.link = 0;
  neighbour.dial.nextNs = neighbour.dial.beganNs = kNoTimer;
  neighbour.broken = {};
  closeLink(neighbour);
  host_.lostLink(peer);
  host_.fail({peer, remoteError(ErrorCode::RankGone, "rank ", peer, " at ", host_.controlAddressOf(peer),
                                " is gone: its connection to rank ", request_.rank, " broke (", why.message(), ") ",
                                host_.during(), "; abort this communicator, or shrink it to go on without the rank")});
}

/// Told before the link goes, so that the peer hears it, too.
void Neighbours::onDamage(LinkId link, const Status& why) {
  for (auto& [peer, neighbour] : neighbours_) {
    if (neighbour.link.id() != link) continue;
    host_.fail({peer, remoteError(ErrorCode::DataDamaged, "the control connection of rank ", peer, " at ",
                                  host_.controlAddressOf(peer), " to rank ", request_.rank, " cannot be trusted ",
                                  host_.during(), ": ", why.message(),
                                  "; abort this communicator, and look at the network between the two")});
    neighbour.link.disconnect();
    host_.lostLink(peer);
  }
}

}  // namespace tutti

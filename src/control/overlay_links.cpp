// The overlay's links of a member: made, missed, made again, given up.
//
// A connection that breaks says little: a process that dies, a firewall that restarts and a wrong bit all end it.  So
// both ends dial at once.  Where nobody listens any more the peer is dead, as listeners live as long as their process;
// where the peer answers, both go on where they were (resumable_link.hpp).  The rank that dials a link always dials it;
// the other one asks it to, by a recall, which finds out the same.
//
// A connection that falls silent may have lost its way alone.  It is made again beside the silent one, by whichever of
// the peer's addresses answers, and the silent one serves until then, in case its way comes back first.
#include <algorithm>

#include "src/base/log.hpp"
#include "src/control/member.hpp"

namespace tutti {

namespace {

/// A neighbour that has never been linked with us and cuts links off for this long is gone.
constexpr int64_t kNeighbourCutOffNs = 5'000'000'000;
/// A link that does not last for this long is dialed later each time.
constexpr int64_t kLastsNs = 1'000'000'000;
/// How long a peer that has been recalled gets to dial.
constexpr int64_t kRecalledNs = 100'000'000;

}  // namespace

// ---- Made

bool Member::onOverlayProven(LinkId link, const Hello& hello, bool weDialed) {
  const int peer = weDialed ? hello.acceptor : hello.dialer;
  const auto it = neighbours_.find(peer);
  if (it == neighbours_.end() || it->second.weDial != weDialed || hello.index + 1 < it->second.made) return false;
  // One that comes again has given up the former connection, perhaps before it knew that it stood.
  closeLink(it->second);
  linked(peer, link, hello, weDialed);
  return true;
}

/// False: the link has done its work, and is closed.
bool Member::onRecallProven(LinkId link, const Hello& hello, bool weDialed) {
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
    lostNeighbour(peer, remoteError(ErrorCode::ConnectionLost, "the other end has lost it"));
  } else if (old == 0 && neighbour.made > 0 && neighbour.dial.link == 0 && neighbour.dial.nextNs == kNoTimer) {
    dialAgain(peer, neighbour);  // one that was taken for dead lives, and is to hear why we have failed
  }
  return false;
}

/// The dialer knows that both ends count on the link.  The acceptor does when it hears the first message; until then
/// the dialer may still give up (it left, or heard of a failure), which says nothing of its health.
void Member::linked(int peer, LinkId link, const Hello& hello, bool weDialed) {
  Neighbour& neighbour = neighbours_.at(peer);
  if (!weDialed) authentication_.cancel(neighbour.dial.link);
  neighbour.dial.link = 0;
  neighbour.dial.nextNs = kNoTimer;
  neighbour.dial.failingSinceNs = neighbour.dial.refusedSinceNs = neighbour.dial.beganNs = kNoTimer;
  breakSilent(neighbour);
  neighbour.made = hello.index + 1;
  neighbour.link.connect(link, hello.index == 0, request_.self);
  if (weDialed) confirm(neighbour);
}

void Member::confirm(Neighbour& neighbour) {
  neighbour.heardNs = network_.nowNs();
  if (neighbour.confirmed) return;
  neighbour.confirmed = true;
  finishJoin();
}

// ---- Broken

void Member::closeLink(Neighbour& neighbour) {
  if (neighbour.link.id() != 0) network_.close(neighbour.link.id());
  neighbour.link.disconnect();
}

void Member::lostNeighbour(int peer, const Status& why) {
  Neighbour& neighbour = neighbours_.at(peer);
  neighbour.link.disconnect();
  if (!neighbour.confirmed || neighbour.departed) return;
  const int64_t now = network_.nowNs();
  if (neighbour.broken.sinceNs == kNoTimer) {
    // Silence is over its time, and of what is wrong here another connection would be no better.
    if (why.code() != tuttiRemoteError) return goneNeighbour(peer, why);
    TUTTI_INFO("bootstrap", "rank ", request_.rank, "'s control connection to rank ", peer, " broke: ", why.message());
    neighbour.broken = {why, now, now + brokenPatienceNs(why)};
    brokenNs_ = std::min(brokenNs_, neighbour.broken.untilNs);
    neighbour.silentNs = kNoTimer;
    if (neighbour.dial.link != 0) return;  // beside the silent one
    if (now - neighbour.mendedNs >= kLastsNs) return dialAgain(peer, neighbour);
  } else if (!neighbour.weDial) {
    neighbour.dial.backoffNs = std::max(neighbour.dial.backoffNs, kRecalledNs);
  }
  retryDial(neighbour.dial, why);
}

void Member::dialAgain(int peer, Neighbour& neighbour) {
  neighbour.dial.beganNs = network_.nowNs();
  neighbour.dial.backoffNs = 0;
  tryDial(peer, neighbour);
}

void Member::tryDial(int peer, Neighbour& neighbour) {
  const Purpose purpose = neighbour.weDial ? Purpose::Overlay : Purpose::Recall;
  const StreamIndex index = neighbour.weDial ? neighbour.made : neighbour.made - 1;
  if (!neighbour.weDial) neighbour.dial.to = neighbour.link.peerAddress();
  neighbour.dial.hello = {purpose, request_.commId, request_.rank, peer, request_.nRanks, index};
  tryDial(neighbour.dial);
}

void Member::onNeighbourDialFailed(int peer, const Status& why) {
  Neighbour& neighbour = neighbours_.at(peer);
  retryDial(neighbour.dial, why);
  if (neighbour.broken.sinceNs != kNoTimer) {
    if (nobodyListens(why) || why.code() == tuttiInvalidUsage)
      goneNeighbour(peer, remoteError(neighbour.broken.why.text(), "; ", why.message()));
    return;
  }
  if (neighbour.made > 0) {
    neighbour.dial.nextNs = kNoTimer;
    if (neighbour.silentNs != kNoTimer && nobodyListens(why))
      goneNeighbour(peer, remoteError(ErrorCode::ConnectionLost, "it fell silent; ", why.message()));
    return;
  }
  if (failure_ || !neighbour.dial.findsNobody(network_.nowNs(), kNeighbourCutOffNs)) return;
  fail({peer, remoteError(ErrorCode::CannotReach, "rank ", peer, " at ", neighbour.dial.to,
                          " cannot be reached by rank ", request_.rank, " (", why.message(), ") ", during(),
                          "; its process has probably ended, or a firewall or TUTTI_SOCKET_IFNAME is wrong")});
}

/// Both ends go on.
void Member::mended(int peer, Neighbour& neighbour) {
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

// ---- Silent

void Member::lookForSilence() {
  silenceLookNs_ = kNoTimer;
  const int64_t now = network_.nowNs();
  for (auto& [peer, neighbour] : neighbours_) {
    const bool counts = neighbour.confirmed && !neighbour.departed && neighbour.broken.sinceNs == kNoTimer;
    if (!counts || neighbour.link.id() == 0 || !network_.silent(neighbour.link.id())) {
      neighbour.silentNs = kNoTimer;
      continue;
    }
    if (neighbour.silentNs == kNoTimer) {
      TUTTI_INFO("bootstrap", "rank ", request_.rank, "'s control connection to rank ", peer, " has fallen silent");
      neighbour.silentNs = now;
    }
    if (neighbour.dial.link == 0 && neighbour.dial.nextNs == kNoTimer) dialAgain(peer, neighbour);
  }
  tellSilence();
}

/// Tells of links that are silent, and of broken ones that find no answer.
void Member::tellSilence() {
  if (failure_) return;
  const int64_t now = network_.nowNs();
  Silences::Found found;
  for (const auto& [peer, neighbour] : neighbours_) {
    const bool lacks = neighbour.silentNs != kNoTimer || neighbour.broken.sinceNs != kNoTimer;
    if (lacks && now - neighbour.heardNs >= kSilenceToldNs) found[peer] = (now - neighbour.heardNs) / 1'000'000;
  }
  if (const std::optional<std::string> message = silences_.find(found, now)) flood(*message, -1);
  warnOfSilence();
}

void Member::warnOfSilence() {
  for (const std::string& line : silences_.takeWarnings()) TUTTI_WARN("comm", line);
}

/// Of a link that another one replaces.
void Member::breakSilent(Neighbour& neighbour) {
  if (neighbour.silentNs == kNoTimer || neighbour.broken.sinceNs != kNoTimer) return;
  const Status why = remoteError(ErrorCode::ConnectionLost, "nothing was acknowledged");
  neighbour.broken = {why, neighbour.silentNs, network_.nowNs() + brokenPatienceNs(why)};
  brokenNs_ = std::min(brokenNs_, neighbour.broken.untilNs);
  neighbour.silentNs = kNoTimer;
}

/// Those whose time is up.
void Member::giveUpBroken() {
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
    goneNeighbour(peer,
                  remoteError(ErrorCode::ConnectionLost, broken.why.message(), "; it could not be made again within ",
                              (broken.untilNs - broken.sinceNs) / 1'000'000, " ms", last.empty() ? "" : ": ", last));
  }
}

void Member::goneNeighbour(int peer, const Status& why) {
  Neighbour& neighbour = neighbours_.at(peer);
  authentication_.cancel(neighbour.dial.link);
  neighbour.dial.link = 0;
  neighbour.dial.nextNs = neighbour.dial.beganNs = kNoTimer;
  neighbour.broken = {};
  closeLink(neighbour);
  survivors_.lostNeighbour(peer);
  fail({peer, remoteError(ErrorCode::RankGone, "rank ", peer, " at ", controlAddressOf(peer),
                          " is gone: its connection to rank ", request_.rank, " broke (", why.message(), ") ", during(),
                          "; abort this communicator, or shrink it to go on without the rank")});
}

/// Told before the link goes, so that the peer hears it, too.
void Member::onDamage(LinkId link, const Status& why) {
  for (auto& [peer, neighbour] : neighbours_) {
    if (neighbour.link.id() != link) continue;
    fail({peer, remoteError(ErrorCode::DataDamaged, "the control connection of rank ", peer, " at ",
                            controlAddressOf(peer), " to rank ", request_.rank, " cannot be trusted ", during(), ": ",
                            why.message(), "; abort this communicator, and look at the network between the two")});
    neighbour.link.disconnect();
    survivors_.lostNeighbour(peer);
  }
}

}  // namespace tutti

#include "src/control/member.hpp"

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/log.hpp"
#include "src/control/diagnosis.hpp"

namespace tutti {

std::string goodbyeMessage(const RankReport& lastWords) {
  Writer w(MessageType::Goodbye);
  writeRankReport(w, lastWords);
  return w.take();
}

Member::Member(Network& network, LinkAuthentication& authentication, Circles& circles, MemberId id, JoinRequest request)
    : network_(network),
      authentication_(authentication),
      circles_(circles),
      id_(id),
      request_(std::move(request)),
      joinWatch_(request_.deadlineNs),
      meeting_(network_, authentication_, id_, request_),
      neighbours_(*this, network_, authentication_, id_, request_),
      streams_(network_, authentication_, id_, request_, controlAddresses_),
      exchanges_(request_.rank, request_.nRanks,
                 [this](int to, const std::string& message) { neighbours_.sendTo(to, message); }),
      inquiry_(*this, request_.rank, request_.nRanks),
      survivors_(network_, authentication_, id_, request_, controlAddresses_) {
  TUTTI_ASSERT(request_.nRanks >= 1 && request_.nRanks <= kMaxRanks);
  TUTTI_ASSERT(request_.rank >= 0 && request_.rank < request_.nRanks);
  TUTTI_ASSERT(request_.members.empty() || request_.members.size() == static_cast<size_t>(request_.nRanks));
  controlAddresses_.resize(static_cast<size_t>(request_.nRanks));
}

Departed Member::leave() {
  if (!up_ && !failure_ && request_.nRanks > 1)
    fail({request_.rank, remoteError(ErrorCode::LeftEarly, "rank ", request_.rank, " has given up ", during())});
  Departed departed{request_.commId, request_.secret, request_.rank, failure_, report()};
  streams_.stop();
  departed.rest = neighbours_.leave(goodbyeMessage(departed.lastWords));
  meeting_.close();
  survivors_.leave();
  return departed;
}

// ---- Exchanges

uint64_t Member::allGather(std::string blob) {
  const uint64_t n = exchanges_.next();
  startExchange(n, std::move(blob));
  return n;
}

void Member::startExchange(uint64_t n, std::string blob) {
  if (blob.size() > Gather::kMaxBlobBytes)
    fail({request_.rank, invalidArgument(ErrorCode::CountTooLarge, "rank ", request_.rank, " gathers a blob of ",
                                         blob.size(), " bytes; the limit is ", Gather::kMaxBlobBytes)});
  if (failure_) return;
  exchanges_.start(n, std::move(blob));
  if (n == Exchanges::kJoining) linkStands();
  checkDeparted();
}

/// Whether a neighbour has left that an exchange still needs.
void Member::checkDeparted() {
  for (const auto& [peer, words] : neighbours_.departed()) {
    const std::optional<uint64_t> n = exchanges_.needing(peer);
    if (!n) continue;
    return fail({peer, remoteError(ErrorCode::LeftEarly, "rank ", peer, " has destroyed its communicator while rank ",
                                   request_.rank, " waits for it in ",
                                   *n == Exchanges::kJoining ? "joining" : cat("control exchange number ", *n),
                                   "; all ranks must make the same calls before any of them leaves")});
  }
}

bool Member::onGatherPart(int from, Reader& in) {
  const uint64_t n = in.u64();
  if (failure_) return true;
  if (!exchanges_.accept(from, n, in)) return false;
  if (n == Exchanges::kJoining) linkStands();
  return true;
}

// ---- Links and messages

bool Member::onProven(LinkId link, const Hello& hello, bool weDialed) {
  if (hello.nRanks != request_.nRanks) return false;
  switch (hello.purpose) {
    case Purpose::Agreement: return survivors_.onProven(link, hello, weDialed);
    case Purpose::Meet: return weDialed && onMeetingProven(link);
    case Purpose::Stream:
    case Purpose::Summon: return streams_.onProven(link, hello, weDialed);
    default: return neighbours_.onProven(link, hello, weDialed);
  }
}

void Member::onDialFailed(LinkId link, const Status& why) {
  if (survivors_.onDialFailed(link, why)) return;
  if (meeting_.dials(link)) {
    const Meeting::Lacks lacks = neighbours_.lacksAddress() ? Meeting::Lacks::AddressOfPeer
                                 : neighbours_.allStand()   ? Meeting::Lacks::Nothing
                                                            : Meeting::Lacks::Link;
    if (const std::optional<Failure> gone = meeting_.onDialFailed(why, lacks)) fail(*gone);
    return;
  }
  if (!neighbours_.onDialFailed(link, why)) streams_.onDialFailed(link, why);
}

void Member::onClosed(LinkId link, const Status& why) {
  if (survivors_.onClosed(link, why)) return;
  meeting_.is(link) ? meeting_.onClosed(why) : neighbours_.onClosed(link, why);
}

ControlAddress Member::controlAddressOf(int rank) const {
  const ControlAddress& known = controlAddresses_[static_cast<size_t>(rank)];
  if (!known.empty()) return known;
  const ControlAddress dialed = neighbours_.addressOf(rank);
  return dialed.empty() ? "an unknown address" : dialed;
}

void Member::onMessage(LinkId link, std::string_view message) {
  if (meeting_.is(link)) return onMeetingMessage(message);
  if (survivors_.onMessage(link, message)) return;
  const auto [from, came] = neighbours_.onMessage(link, message);
  if (came == ResumableLink::Came::Known) return;
  if (came == ResumableLink::Came::Nonsense || !onOverlayMessage(from, message))
    fail({from, remoteError(ErrorCode::Malformed, "rank ", from, " sent a message that makes no sense to rank ",
                            request_.rank, "; are all ranks of the same version of Tutti?")});
}

/// False: malformed.
bool Member::onOverlayMessage(int from, std::string_view message) {
  Reader in(message);
  const auto type = static_cast<MessageType>(in.u8());
  switch (type) {
    case MessageType::Goodbye: onGoodbye(from, in); return true;
    case MessageType::Failure: {
      const auto failure = readFailure(in);
      if (!failure.ok() || failure->rank >= request_.nRanks) return false;
      fail(*failure);
      return true;
    }
    case MessageType::GatherPart: return onGatherPart(from, in);
    case MessageType::Ask: {
      const bool timeIsUp = Inquiry::reasonOf(in) == InquiryReason::Deadline;
      return failure_ || (timeIsUp && failUnreachable()) || inquiry_.onAsk(from, in);
    }
    case MessageType::Answer: return failure_ || inquiry_.onAnswer(from, in);
    case MessageType::AllIsWell: return failure_ || inquiry_.onAllIsWell(from, in);
    case MessageType::Silence: return failure_ || neighbours_.onSilence(from, in, message);
    case MessageType::Waits: return onWaits(from, in, message);
    default: return false;
  }
}

void Member::onGoodbye(int from, Reader& in) {
  RankReport words = readRankReport(in);
  words.left = true;
  neighbours_.onGoodbye(from, in.done() ? words : RankReport{.left = true});
  if (!failure_) checkDeparted();
}

// ---- Failures and inquiries

std::string Member::during() const {
  if (!up_) return "while ranks were joining";
  return cat("while rank ", request_.rank, " was ", describeState(report()));
}

/// The first failure stays.  An end on purpose that comes after it goes on its way all the same: ranks that have heard
/// of the death of the one that revoked would else keep the revocation from others.
void Member::fail(Failure failure) {
  const bool endsFirst = failure.onPurpose && !endOnPurpose_;
  if (failure.status.ok() || (failure_ && !endsFirst)) return;
  TUTTI_INFO("bootstrap", "rank ", request_.rank, ": ", failure.status.text());
  if (endsFirst) endOnPurpose_ = failure;
  if (!failure_) failure_ = failure;
  inquiry_.stop();
  neighbours_.flood(failureMessage(failure), -1);
  meeting_.tell(failure);
  streams_.stop();
  joinWatch_.end();
}

/// Fail if a link or stream lacks because the peer's host does not answer.  For when time is up: till then the network
/// may heal.
bool Member::failUnreachable() {
  const Dial* dial = neighbours_.unreachable();
  if (dial == nullptr) dial = streams_.unreachable();
  if (dial == nullptr) return false;
  const int peer = dial->hello.acceptor;
  fail({peer, timeoutError(ErrorCode::RanksUnreachable, "rank ", peer, " cannot be reached by rank ", request_.rank,
                           " (", dial->why.ok() ? cat(dial->to, " has not answered") : dial->why.message(), ") ",
                           during(), "; check that no firewall is between them, and TUTTI_SOCKET_IFNAME")});
  return true;
}

RankReport Member::report() const {
  RankReport t;
  if (state_) t.state = state_();
  t.joined = up_;
  const Exchanges::Standing standing = exchanges_.standing();
  t.gathers = standing.gathers;
  t.gatherWaitingOn = standing.waitingOn;
  // An agreement is an exchange, too: all ranks take part in both in the same order.
  const Agreement& agreement = survivors_.agreement();
  t.gathers += agreement.entered();
  if (t.gatherWaitingOn < 0 && agreement.entered() > agreement.decided().epoch) {
    const std::vector<int> lacking = agreement.waitingOn();
    if (!lacking.empty()) t.gatherWaitingOn = lacking.front();
  }
  return t;
}

void Member::suspect(const Failure& failure) {
  if (silentSinceNs(failure.rank) != kNoTimer || !stall_.isNews(failure.rank)) return;
  TUTTI_WARN("comm", "waiting for ", stall_.lastsNs(nowNs()) / 1'000'000, " ms: ", failure.status.message());
}

void Member::inquire(InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs) {
  if (reason == InquiryReason::Stalled) stall_.note(report(), nowNs());
  if (failure_ || (reason == InquiryReason::Deadline && failUnreachable())) return;
  inquiry_.start(reason, sequence, suspect, graceNs);
}

// ---- Time

int64_t Member::nextTimerNs() const {
  return std::min({joinWatch_.nextTimerNs(), meeting_.nextTimerNs(), neighbours_.nextTimerNs(), streams_.nextTimerNs(),
                   inquiry_.nextTimerNs(), survivors_.nextTimerNs()});
}

void Member::onTimer() {
  meeting_.onTimer();
  neighbours_.onTimer();
  streams_.onTimer();
  checkJoin();
  inquiry_.onTimer();
  survivors_.onTimer();
}

}  // namespace tutti

#include "src/control/member.hpp"

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/log.hpp"
#include "src/base/tcp_stall.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/overlay.hpp"

namespace tutti {

namespace {

constexpr int64_t kHeartbeatNs = 1'000'000'000;
/// A neighbour that was not heard for this long is suspect; three beats may be late.
constexpr int64_t kQuietNs = 3'500'000'000;
/// A rank that waits for this long says for whom.
constexpr int64_t kLongNs = 2'500'000'000;
/// A rendezvous hears that a join has been put off when that makes so much.
constexpr int64_t kPutOffToldNs = 250'000'000;
/// How far ahead of us a peer's gathers may be.
constexpr uint64_t kMaxGathersAhead = 1 << 12;

std::string joinBlob(const JoinRequest& request) {
  Writer w;
  w.text(request.self);
  w.text(request.info);
  return w.take();
}

}  // namespace

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
      inquiry_(*this, request_.rank, request_.nRanks),
      survivors_(network_, authentication_, id_, request_, controlAddresses_),
      silences_(request_.rank, request_.nRanks, [this](int rank) { return controlAddressOf(rank); }),
      joinDeadlineNs_(request_.deadlineNs) {
  TUTTI_ASSERT(request_.nRanks >= 1 && request_.nRanks <= kMaxRanks);
  TUTTI_ASSERT(request_.rank >= 0 && request_.rank < request_.nRanks);
  TUTTI_ASSERT(request_.members.empty() || request_.members.size() == static_cast<size_t>(request_.nRanks));
  network_.randomBytes(std::as_writable_bytes(std::span(instance_)));
  controlAddresses_.resize(static_cast<size_t>(request_.nRanks));
  for (const OverlayLink& link : overlayLinks(request_.rank, request_.nRanks))
    neighbours_.try_emplace(link.peer, Neighbour{.weDial = link.weDial, .link = ResumableLink(network_)});
}

void Member::start() {
  beganNs_ = network_.nowNs();
  heartbeatNs_ = beganNs_ + kHeartbeatNs;
  if (joinDeadlineNs_ != kNoTimer) checkJoin();
  if (unanswered()) overdue_.begin(beganNs_);
  if (!request_.members.empty()) {
    for (int peer = 0; peer < request_.nRanks; ++peer)
      setControlAddress(peer, request_.members[static_cast<size_t>(peer)]);
  } else if (request_.nRanks > 1) {
    rendezvousDial_.to = request_.rendezvous;
    rendezvousDial_.hello = {Purpose::Meet, request_.commId, request_.rank, -1, request_.nRanks, 0};
    tryDial(rendezvousDial_);
  }
  startExchange(0, joinBlob(request_));
}

// ---- Gathers.

Member::Exchange& Member::exchange(uint64_t n) {
  return exchanges_.try_emplace(n, Exchange{Gather(request_.rank, request_.nRanks, n)}).first->second;
}

uint64_t Member::allGather(std::string blob) {
  const uint64_t n = nextExchange_++;
  startExchange(n, std::move(blob));
  return n;
}

void Member::startExchange(uint64_t n, std::string blob) {
  if (blob.size() > Gather::kMaxBlobBytes)
    fail({request_.rank, invalidArgument(ErrorCode::CountTooLarge, "rank ", request_.rank, " gathers a blob of ",
                                         blob.size(), " bytes; the limit is ", Gather::kMaxBlobBytes)});
  if (failure_) return;
  exchange(n).gather.start(std::move(blob));
  advance(n);
  checkDeparted(n);
}

void Member::advance(uint64_t n) {
  Exchange& e = exchanges_.at(n);
  for (const Gather::Outgoing& out : e.gather.takeReady()) sendTo(out.to, out.message);
  if (!e.gather.complete()) return;
  if (n == 0) return finishJoin();
  if (e.forgotten) exchanges_.erase(n);
}

/// Whether a neighbour has left that this gather still needs.
void Member::checkDeparted(uint64_t n) {
  const auto it = exchanges_.find(n);
  if (it == exchanges_.end() || failure_ || !it->second.gather.started()) return;
  for (const auto& [peer, neighbour] : neighbours_) {
    if (!neighbour.departed || !it->second.gather.needs(peer)) continue;
    return fail(
        {peer, remoteError(ErrorCode::LeftEarly, "rank ", peer, " has destroyed its communicator while rank ",
                           request_.rank, " waits for it in ", n == 0 ? "joining" : cat("control exchange number ", n),
                           "; all ranks must make the same calls before any of them leaves")});
  }
}

const std::vector<std::string>* Member::gathered(uint64_t n) const {
  const auto it = exchanges_.find(n);
  return it != exchanges_.end() && it->second.gather.complete() ? &it->second.gather.blobs() : nullptr;
}

void Member::forget(uint64_t n) {
  const auto it = exchanges_.find(n);
  if (it == exchanges_.end()) return;
  // An incomplete one stays until it is complete: others need what it has still to send.
  it->second.forgotten = true;
  if (it->second.gather.complete() || failure_) exchanges_.erase(it);
}

/// Up: everyone's information is here and all our links stand.
void Member::finishJoin() {
  const auto it = exchanges_.find(0);
  if (up_ || failure_ || it == exchanges_.end() || !it->second.gather.complete()) return;
  for (const auto& [peer, neighbour] : neighbours_)
    if (!neighbour.confirmed) return;
  std::vector<std::string> infos;
  for (int rank = 0; rank < request_.nRanks; ++rank) {
    Reader in(it->second.gather.blobs()[static_cast<size_t>(rank)]);
    controlAddresses_[static_cast<size_t>(rank)] = in.text(kMaxControlAddressBytes);
    infos.emplace_back(in.text(kMaxMessageBytes));
    if (!in.done())
      return fail({rank, remoteError(ErrorCode::Malformed, "rank ", rank, " told malformed information of itself")});
  }
  infos_ = std::move(infos);
  exchanges_.erase(it);
  up_ = true;
  survivors_.up();
  joinCheckNs_ = kNoTimer;
  authentication_.cancel(rendezvousDial_.link);
  rendezvousDial_ = {};
  for (const auto& [peer, index] : std::exchange(summons_, {})) dialStream(peer, index);
  if (rendezvousLink_ == 0) return;
  network_.send(rendezvousLink_, goodbyeMessage({}));
  network_.close(rendezvousLink_);
  rendezvousLink_ = 0;
}

// ---- Messages.

void Member::onMessage(LinkId link, std::string_view message) {
  if (link == rendezvousLink_) return onRendezvousMessage(message);
  if (survivors_.onMessage(link, message)) return;
  for (auto& [peer, neighbour] : neighbours_) {
    if (neighbour.link.id() != link) continue;
    const ResumableLink::Came came = neighbour.link.onMessage(message);
    if (neighbour.link.flows()) {
      if (neighbour.broken.sinceNs != kNoTimer) mended(peer, neighbour);
      confirm(neighbour);
    }
    if (came == ResumableLink::Came::Known) return;
    if (came == ResumableLink::Came::Nonsense || !onOverlayMessage(peer, message))
      fail({peer, remoteError(ErrorCode::Malformed, "rank ", peer, " sent a message that makes no sense to rank ",
                              request_.rank, "; are all ranks of the same version of Tutti?")});
    return;
  }
}

void Member::onRendezvousMessage(std::string_view message) {
  Reader in(message);
  const auto type = static_cast<MessageType>(in.u8());
  if (type == MessageType::Peers) {
    const auto peers = readPeers(in);
    if (!peers.ok())
      return fail({-1, remoteError(ErrorCode::Malformed, "the rendezvous sent a malformed list of peers")});
    told_ = true;
    for (const auto& [rank, controlAddress] : *peers) setControlAddress(rank, controlAddress);
  } else if (type == MessageType::Failure) {
    const auto failure = readFailure(in);
    fail(failure.ok() ? *failure : Failure{-1, failure.status()});
  }
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
    case MessageType::Silence: {
      if (failure_) return true;
      const std::optional<bool> news = silences_.onMessage(in, network_.nowNs());
      if (news && *news) flood(std::string(message), from);
      warnOfSilence();
      return news.has_value();
    }
    case MessageType::Waits: return onWaits(from, in, message);
    default: return false;
  }
}

bool Member::onGatherPart(int from, Reader& in) {
  const uint64_t n = in.u64();
  if (failure_) return true;
  const bool finished = n == 0 ? up_ : n < nextExchange_ && !exchanges_.contains(n);
  if (finished || n >= nextExchange_ + kMaxGathersAhead) return false;
  if (!exchange(n).gather.accept(from, in).ok()) return false;
  advance(n);
  return true;
}

void Member::onGoodbye(int from, Reader& in) {
  Neighbour& neighbour = neighbours_.at(from);
  RankReport words = readRankReport(in);
  words.left = true;
  neighbour.departed = in.done() ? words : RankReport{.left = true};
  closeLink(neighbour);
  authentication_.cancel(neighbour.dial.link);
  neighbour.dial = {};
  neighbour.broken = {};
  survivors_.lostNeighbour(from);
  for (const auto& [n, e] : exchanges_) checkDeparted(n);
}

// ---- Failures and inquiries.

/// What was going on, for sentences.
std::string Member::during() const {
  if (!up_) return "while ranks were joining";
  const RankReport t = report();
  return cat("while rank ", request_.rank, " was ", describeState(t));
}

/// The first failure stays.  An end on purpose that comes after it goes on its way all the same: ranks that have heard
/// of the death of the one that revoked would else keep the revocation from others.
void Member::fail(Failure failure) {
  const bool endsFirst = failure.onPurpose && !endOnPurpose_;
  if (failure.status.ok() || (failure_ && !endsFirst)) return;
  TUTTI_INFO("bootstrap", "rank ", request_.rank, ": ", failure.status.text());
  const std::string message = failureMessage(failure);
  if (endsFirst) endOnPurpose_ = failure;
  if (!failure_) failure_ = std::move(failure);
  inquiry_.stop();
  flood(message, -1);
  if (rendezvousLink_ != 0) network_.send(rendezvousLink_, message);
  for (Dial& stream : streams_) authentication_.cancel(stream.link);
  streams_.clear();
  joinCheckNs_ = kNoTimer;
}

RankReport Member::report() const {
  RankReport t;
  if (state_) t.state = state_();
  t.joined = up_;
  t.gathers = nextExchange_ - 1;
  for (const auto& [n, e] : exchanges_) {
    if (!e.gather.started() || e.gather.complete()) continue;
    t.gatherWaitingOn = e.gather.waitingOn();
    if (n > 0) t.gathers = n;
    break;
  }
  // An agreement is an exchange, too: all ranks take part in both in the same order.
  const Agreement& agreement = survivors_.agreement();
  t.gathers += agreement.entered();
  if (t.gatherWaitingOn < 0 && agreement.entered() > agreement.decided().epoch) {
    const std::vector<int> lacking = agreement.waitingOn();
    if (!lacking.empty()) t.gatherWaitingOn = lacking.front();
  }
  return t;
}

std::vector<std::pair<int, RankReport>> Member::departed() const {
  std::vector<std::pair<int, RankReport>> all;
  for (const auto& [peer, neighbour] : neighbours_)
    if (neighbour.departed) all.emplace_back(peer, *neighbour.departed);
  return all;
}

std::vector<int> Member::quiet() const {
  std::vector<int> ranks;
  for (const auto& [peer, neighbour] : neighbours_) {
    const bool counts = neighbour.link.flows() || neighbour.broken.sinceNs != kNoTimer;
    if (counts && network_.nowNs() - neighbour.heardNs > kQuietNs) ranks.push_back(peer);
  }
  return ranks;
}

/// A wait goes on as long as it is asked about, and this rank gets nowhere.
void Member::noteStall() {
  constexpr int64_t kMostBetweenNs = 2'500'000'000;
  const RankReport t = report();
  Stall now{t.state.entered, t.gathers, t.state.message ? t.state.message->call.head : 0, network_.nowNs(), 0};
  const bool same = now.entered == stall_.entered && now.gathers == stall_.gathers && now.message == stall_.message;
  if (same && now.sinceNs - stall_.lastNs < kMostBetweenNs) std::swap(now.sinceNs, stall_.sinceNs);
  now.lastNs = network_.nowNs();
  stall_ = now;
}

bool Member::waitsLong() const { return network_.nowNs() - stall_.sinceNs >= kLongNs; }

/// Once of each rank: it may be late in every call, and that is known then.
void Member::suspect(const Failure& failure) {
  if (silentSinceNs(failure.rank) != kNoTimer || !suspected_.insert(failure.rank).second) return;
  TUTTI_WARN("comm", "waiting for ", (network_.nowNs() - stall_.sinceNs) / 1'000'000,
             " ms: ", failure.status.message());
}

void Member::inquire(InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs) {
  if (reason == InquiryReason::Stalled) noteStall();
  if (failure_ || (reason == InquiryReason::Deadline && failUnreachable())) return;
  inquiry_.start(reason, sequence, suspect, graceNs);
}

// ---- Time.

/// Between two looks; of the time that the join was given, however much it is put off.
int64_t Member::joinMarginNs() const {
  return std::clamp<int64_t>((request_.deadlineNs - beganNs_) / 10, 0, 1'000'000'000);
}

void Member::putOff(int64_t deadlineNs) {
  joinDeadlineNs_ = std::max(joinDeadlineNs_, deadlineNs);
  const bool known = joinDeadlineNs_ - toldDeadlineNs_ < kPutOffToldNs;
  if (rendezvousLink_ != 0 && !failure_ && !known) registerAtPlace();
}

/// Joining takes long: ever closer looks for whom to name, the last one at the deadline.
///   1  who is not linked with us, in time for all to hear of it; rank -1 would be the answer of everyone else
///   2  who does not answer
///   3  give up
void Member::checkJoin() {
  const int64_t margin = joinMarginNs();
  const int64_t looks[] = {joinDeadlineNs_ - 2 * margin, joinDeadlineNs_ - margin, joinDeadlineNs_};
  if (joinChecks_ > 0 && looks[joinChecks_ - 1] > network_.nowNs()) {  // it was put off
    joinCheckNs_ = looks[joinChecks_ - 1];
    return;
  }
  if (joinChecks_ == 1) joinTooLate(false);
  if (joinChecks_ == 2) inquire(InquiryReason::Deadline, 0, exchange(0).gather.waitingOn(), margin * 8 / 10);
  if (joinChecks_ == 3) {
    joinTooLate(true);
    fail({-1, timeoutError(ErrorCode::RanksMissing, "rank ", request_.rank,
                           " gave up joining at its deadline; no information has come from ranks ",
                           listRanks(exchange(0).gather.missing()), "; check that they run, or raise the timeout")});
  }
  joinCheckNs_ = failure_ || joinChecks_ == 3 ? kNoTimer : looks[joinChecks_];
  ++joinChecks_;
}

/// Between which addresses a link did not come about.
std::string Member::howMissed(int peer, const Neighbour& neighbour) const {
  if (!neighbour.weDial) return cat("rank ", peer, " dials rank ", request_.rank, " at ", request_.self);
  const Status& why = neighbour.dial.why;
  return cat("rank ", request_.rank, " dials rank ", peer, ": ",
             why.ok() ? cat(neighbour.dial.to, " has not answered yet") : why.message());
}

/// The rendezvous has yet to say anything.
bool Member::unanswered() const { return !told_ && request_.members.empty() && request_.nRanks > 1; }

std::string Member::noAnswer(const std::string& when) const {
  const char* const advice =
      openBeforeKnown(request_.commId)
          ? "; check that the process that made the unique id runs, and that no firewall keeps this rank from it"
          : "; check that rank 0, which opens it, was started, that the address is right, and that no firewall keeps "
            "this rank from it";
  return cat("rank ", request_.rank, " got no answer from the rendezvous at ", request_.rendezvous, " ", when,
             rendezvousDial_.why.ok() ? "" : cat(" (", rendezvousDial_.why.message(), ")"), advice);
}

/// Name those that are not linked with us: first those that we dial, because those who should dial us may lack our
/// control address and say so now; at last all.  The rendezvous has told us before, if some have not come at all.
void Member::joinTooLate(bool last) {
  std::vector<int> absent;
  bool untold = unanswered();
  std::string how;
  for (const auto& [peer, neighbour] : neighbours_) {
    if (neighbour.confirmed) continue;
    if (neighbour.weDial || last) absent.push_back(peer);
    untold = untold || (neighbour.weDial && neighbour.dial.to.empty());
    if (how.empty() && (neighbour.weDial || last)) how = howMissed(peer, neighbour);
  }
  if (untold) return fail({-1, timeoutError(ErrorCode::RendezvousSilent, noAnswer("in time"))});
  if (absent.empty()) return;
  // Several are no one's fault in particular: perhaps it is our own network.
  fail({absent.size() == 1 ? absent[0] : -1,
        timeoutError(ErrorCode::RanksUnreachable, nameRanks(absent), " did not connect with rank ", request_.rank,
                     " in time while ranks were joining (", how,
                     "); check that every rank runs, that no firewall is between them, and TUTTI_SOCKET_IFNAME")});
}

int64_t Member::nextTimerNs() const {
  const int64_t next =
      std::min({inquiry_.nextTimerNs(), joinCheckNs_, dialNs_, brokenNs_, silenceLookNs_, survivors_.nextTimerNs()});
  const bool waits = !failure_ && unanswered();
  return std::min({next, request_.nRanks > 1 ? heartbeatNs_ : kNoTimer, waits ? overdue_.nextNs() : kNoTimer});
}

void Member::onTimer() {
  const int64_t now = network_.nowNs();
  if (dialNs_ <= now) {
    dialNs_ = kNoTimer;
    for (Dial* dial : dials()) {
      if (dial->nextNs <= now) tryDial(*dial);
      dialNs_ = std::min(dialNs_, dial->nextNs);
    }
  }
  if (heartbeatNs_ <= now) {
    heartbeatNs_ = now + kHeartbeatNs;
    for (auto& [peer, neighbour] : neighbours_) neighbour.link.beat();
    silenceLookNs_ = now + kTcpSilenceShowsNs;
  }
  if (silenceLookNs_ <= now) lookForSilence();
  if (brokenNs_ <= now) giveUpBroken();
  if (joinCheckNs_ <= now) checkJoin();
  const int64_t seconds = !failure_ && unanswered() ? overdue_.dueSeconds(now) : 0;
  if (seconds > 0) TUTTI_WARN("bootstrap", noAnswer(cat("within ", seconds, " s")));
  inquiry_.onTimer();
  survivors_.onTimer();
}

}  // namespace tutti

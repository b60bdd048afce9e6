#include "src/control/survivors.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/control/member.hpp"

namespace tutti {

namespace {

/// A rank that cuts links off for so long is gone.
constexpr int64_t kSurvivorCutOffNs = 300'000'000;
/// Of a call, as bytes, without its text.
constexpr size_t kCallBytes = 18;

void writeRanks(Writer& w, const std::vector<int>& ranks) {
  w.u32(static_cast<uint32_t>(ranks.size()));
  for (const int rank : ranks) w.i32(rank);
}

std::vector<int> readRanks(Reader& in) {
  std::vector<int> ranks(in.count(4));
  for (int& rank : ranks) rank = in.i32();
  return ranks;
}

void writeCall(Writer& w, const MembershipCall& call) {
  w.u8(static_cast<uint8_t>(call.kind));
  w.u8((call.anew ? 1 : 0) | (call.aborts ? 2 : 0));
  for (const int32_t number : {call.color, call.key, call.nRanks}) w.i32(number);
  w.text(std::string_view(call.text).substr(0, kMaxCallBytes));
}

MembershipCall readMembershipCall(Reader& in) {
  MembershipCall call;
  call.kind = static_cast<MembershipCall::Kind>(in.u8());
  const uint8_t flags = in.u8();
  call.anew = (flags & 1) != 0;
  call.aborts = (flags & 2) != 0;
  for (int32_t* number : {&call.color, &call.key, &call.nRanks}) *number = in.i32();
  call.text = in.text(kMaxCallBytes);
  return call;
}

void writeDecision(Writer& w, const Decision& decision) {
  w.u64(decision.epoch);
  writeRanks(w, decision.gone);
  w.u32(static_cast<uint32_t>(decision.calls.size()));
  for (const MembershipCall& call : decision.calls) writeCall(w, call);
}

Decision readDecision(Reader& in) {
  Decision decision;
  decision.epoch = in.u64();
  decision.gone = readRanks(in);
  decision.calls.resize(in.count(kCallBytes));
  for (MembershipCall& call : decision.calls) call = readMembershipCall(in);
  return decision;
}

}  // namespace

std::string agreementMessage(const AgreementMessage& message) {
  Writer w(MessageType::Agreement);
  w.u8((message.order ? 1 : 0) | (message.voted ? 2 : 0));
  writeRanks(w, message.gone);
  writeDecision(w, message.decided);
  writeDecision(w, message.proposed);
  writeCall(w, message.call);
  writeRanks(w, message.lacking);
  return w.take();
}

Result<AgreementMessage> readAgreement(Reader& in) {
  AgreementMessage message;
  const uint8_t flags = in.u8();
  message.order = (flags & 1) != 0;
  message.voted = (flags & 2) != 0;
  message.gone = readRanks(in);
  message.decided = readDecision(in);
  message.proposed = readDecision(in);
  message.call = readMembershipCall(in);
  message.lacking = readRanks(in);
  if (!in.done() || flags > 3) return remoteError(ErrorCode::Malformed, "a malformed message of survivors");
  return message;
}

Survivors::Survivors(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request,
                     const std::vector<ControlAddress>& controlAddresses)
    : network_(network),
      authentication_(authentication),
      id_(id),
      request_(request),
      controlAddresses_(controlAddresses),
      agreement_(request.rank, request.nRanks) {}

void Survivors::vote(const Vote& vote) {
  agreement_.vote(vote);
  pump();
}

void Survivors::up() {
  for (auto& [rank, peer] : peers_)
    if (!peer.queue.empty()) tryDial(rank, peer);
}

void Survivors::lostNeighbour(int rank) {
  const Peer& peer = peers_[rank];
  if (peer.out == 0 && !peer.heard) lose(rank, "the overlay's link has ended");
}

void Survivors::leave() {
  over_ = true;
  reminders_.end();
  for (auto& [rank, peer] : peers_) close(peer, true);
}

// ---- Messages.

/// What the machine has to say.
void Survivors::pump() {
  if (over_) return;
  for (const Agreement::Outgoing& out : agreement_.take()) {
    const std::string message = agreementMessage(out.message);
    for (const int rank : out.to) send(rank, message);
  }
  if (!agreement_.leads()) {
    reminders_.end();
  } else if (!reminders_.begun()) {
    reminders_.begin(network_.nowNs());
  }
  if (agreement_.excludedBy() < 0) return;
  TUTTI_INFO("bootstrap", "rank ", request_.rank, " is out: rank ", agreement_.excludedBy(), " goes on without it");
  leave();
}

/// All messages to a rank take one way, so that they keep their order: our own link if there is to be one.
void Survivors::send(int rank, const std::string& message) {
  Peer& peer = peers_[rank];
  if (peer.lost) return;
  if (peer.out != 0) return network_.send(peer.out, message);
  if (peer.in != 0 && peer.queue.empty()) return network_.send(peer.in, message);
  peer.queue.push_back(message);
  dialIfIdle(rank, peer);
}

void Survivors::dialIfIdle(int rank, Peer& peer) {
  if (peer.out == 0 && peer.dial.link == 0 && peer.dial.nextNs == kNoTimer) tryDial(rank, peer);
}

/// A link stands again.
void Survivors::goOn(int rank, Peer& peer) {
  peer.brokenNs = kNoTimer;
  if (!std::exchange(peer.missed, false)) return;
  agreement_.goOnWith(rank);
  pump();
}

void Survivors::tryDial(int rank, Peer& peer) {
  peer.dial.to = controlAddresses_[static_cast<size_t>(rank)];
  if (peer.dial.to.empty()) return;  // up() comes
  peer.dial.nextNs = kNoTimer;
  peer.dial.hello = {Purpose::Agreement, request_.commId, request_.rank, rank, request_.nRanks, 0};
  peer.dial.link = authentication_.dial(peer.dial.to, peer.dial.hello, request_.secret, id_);
  links_[peer.dial.link] = rank;
}

void Survivors::lose(int rank, const char* why) {
  Peer& peer = peers_[rank];
  if (peer.lost || over_) return;
  TUTTI_DEBUG("bootstrap", "rank ", request_.rank, " has lost rank ", rank, ": ", why);
  peer.lost = true;
  close(peer, false);
  agreement_.markGone(rank);
  pump();
}

void Survivors::close(Peer& peer, bool goodbye) {
  authentication_.cancel(peer.dial.link);
  links_.erase(std::exchange(peer.dial.link, 0));
  peer.dial.nextNs = peer.brokenNs = kNoTimer;
  peer.queue.clear();
  for (LinkId* link : {&peer.out, &peer.in}) {
    if (*link == 0) continue;
    if (goodbye) network_.send(*link, goodbyeMessage({}));
    network_.close(*link);
    links_.erase(std::exchange(*link, 0));
  }
}

// ---- Links.

bool Survivors::onProven(LinkId link, const Hello& hello, bool weDialed) {
  const int rank = weDialed ? hello.acceptor : hello.dialer;
  Peer& peer = peers_[rank];
  if (over_ || peer.lost || rank == request_.rank) return false;
  links_[link] = rank;
  if (!weDialed) {  // one that comes again has given up the former link before it knew that it stood
    if (peer.in != 0) {
      links_.erase(peer.in);
      network_.close(peer.in);
    }
    peer.in = link;
    peer.heard = false;
    // Where our own is on its way it goes on by that.
    if (peer.dial.link == 0 && peer.dial.nextNs == kNoTimer) goOn(rank, peer);
    return true;
  }
  peer.dial.link = 0;
  peer.out = link;
  for (const std::string& message : std::exchange(peer.queue, {})) network_.send(link, message);
  goOn(rank, peer);
  return true;
}

bool Survivors::onDialFailed(LinkId link, const Status& why) {
  const auto it = links_.find(link);
  if (it == links_.end()) return false;
  const int rank = it->second;
  links_.erase(it);
  Peer& peer = peers_[rank];
  Dial& dial = peer.dial;
  dial.retry(network_, why);
  dialNs_ = std::min(dialNs_, dial.nextNs);
  if (peer.brokenNs != kNoTimer) {
    if (nobodyListens(why)) lose(rank, "its connection broke, and nobody listens any more");
    return true;
  }
  if (dial.findsNobody(network_.nowNs(), kSurvivorCutOffNs)) lose(rank, "it cannot be reached");
  return true;
}

bool Survivors::onMessage(LinkId link, std::string_view message) {
  const auto it = links_.find(link);
  if (it == links_.end()) return false;
  const int rank = it->second;
  Peer& peer = peers_[rank];
  peer.heard = peer.heard || link == peer.in;
  Reader in(message);
  const auto type = static_cast<MessageType>(in.u8());
  if (type == MessageType::Failure) return true;  // of a rank that has left, whose goodbye follows
  if (type == MessageType::Goodbye) {
    lose(rank, "it has left");
    return true;
  }
  Result<AgreementMessage> read = type == MessageType::Agreement
                                      ? readAgreement(in)
                                      : remoteError(ErrorCode::Malformed, "a message that is none of survivors");
  if (!read.ok() || !agreement_.accept(rank, std::move(*read))) {
    lose(rank, "its messages make no sense; are all ranks of the same version of Tutti?");
    return true;
  }
  pump();
  return true;
}

bool Survivors::onClosed(LinkId link, const Status& why) {
  const auto it = links_.find(link);
  if (it == links_.end()) return false;
  const int rank = it->second;
  links_.erase(it);
  Peer& peer = peers_[rank];
  if (link == peer.in) peer.in = 0;
  const bool counted = link == peer.out || std::exchange(peer.heard, false);
  if (link == peer.out) peer.out = 0;
  peer.missed = true;
  // Where our own still stands it tells of a death as well.
  if (!counted || peer.out != 0) return true;
  if (why.code() != tuttiRemoteError) {
    lose(rank, "its connection broke");
    return true;
  }
  if (peer.brokenNs == kNoTimer) peer.brokenNs = network_.nowNs() + brokenPatienceNs(why);
  brokenNs_ = std::min(brokenNs_, peer.brokenNs);
  peer.dial.backoffNs = 0;
  dialIfIdle(rank, peer);
  return true;
}

void Survivors::onTimer() {
  const int64_t now = network_.nowNs();
  if (brokenNs_ <= now) {
    brokenNs_ = kNoTimer;
    for (auto& [rank, peer] : peers_) {
      if (peer.brokenNs <= now) lose(rank, "its connection broke, and could not be made again");
      brokenNs_ = std::min(brokenNs_, peer.brokenNs);
    }
  }
  if (reminders_.due(now)) {
    agreement_.remind();
    pump();
  }
  if (dialNs_ > now) return;
  dialNs_ = kNoTimer;
  for (auto& [rank, peer] : peers_) {
    if (peer.dial.nextNs <= now) tryDial(rank, peer);
    dialNs_ = std::min(dialNs_, peer.dial.nextNs);
  }
}

}  // namespace tutti

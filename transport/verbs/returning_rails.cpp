// How a rail that a connection has lost is taken up again.
//
// Both ends have ended its queue pairs (lost_rails.cpp).  An end whose port is up makes new ones and offers them by the
// stream; once it has the other's offer it connects them, and says so; then it sends a write of nothing, and says when
// that has arrived.  Only a rail that is proven in both directions gets traffic, so an attempt on a way that is still
// broken delays nothing.  Between attempts are pauses that grow.
//
// An end may use the rail, and lose it again, before the other has read that it is proven.  So what is told of a lost
// rail says which of its generations of queue pairs is meant.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "transport/verbs/connection.hpp"

namespace tutti::verbs {
namespace {

using Kind = ReturnCard::Kind;
using Stage = Returning::Stage;

constexpr int64_t kBetweenLooksNs = 1 * kMs;
constexpr int64_t kFirstPauseNs = 10 * kMs, kMostPauseNs = 60'000 * kMs;
constexpr int64_t kPauseGrows = 10;
/// A rail that has carried traffic for so long begins anew with short pauses.
constexpr int64_t kSteadyNs = 10'000 * kMs;

}  // namespace

void Connection::lookForReturns() {
  const int64_t now = nowNs();
  if (now < nextReturnNs_ || ending_ || !trouble_.ok()) return;
  nextReturnNs_ = now + kBetweenLooksNs;
  lookAtStream();
  for (uint32_t rail = 0; rail < rails_ && trouble_.ok(); ++rail) {
    if (states_[rail] == RailState::Gone) goOnReturning(rail, now);
  }
  say();
}

void Connection::pauseReturn(uint32_t rail) {
  Returning& at = returning_[rail];
  const int64_t now = nowNs();
  if (at.upNs > 0 && now - at.upNs > kSteadyNs) at.pauseNs = 0;
  at.pauseNs = at.pauseNs == 0 ? kFirstPauseNs : std::min(at.pauseNs * kPauseGrows, kMostPauseNs);
  at.nextNs = now + at.pauseNs;
}

void Connection::goOnReturning(uint32_t rail, int64_t now) {
  Returning& at = returning_[rail];
  if (at.stage == Stage::Idle && now >= at.nextNs && !completions_->isDownNow(rail)) offer(rail);
  if (at.stage == Stage::Offered && at.offer && at.trouble.empty()) connectAgain(rail);
  if (at.stage == Stage::Connected && at.peerConnected && at.trouble.empty()) prove(rail);
  if (at.stage == Stage::Proving && isProven(at)) {
    at.stage = Stage::Proven;
    tell(rail, Kind::Proven);
  }
  if (at.stage == Stage::Proven) {
    if ((at.peerProven || at.lostAlready) && !moving_) useAgain(rail);
  } else if (!at.trouble.empty()) {
    TUTTI_DEBUG("verbs", who(rail), " is not used again yet: ", at.trouble);
    tell(rail, Kind::Failed);
    dropReturn(rail);
  }
}

void Connection::offer(uint32_t rail) {
  Returning& at = returning_[rail];
  ReturnCard card{.packetNumber = static_cast<uint32_t>(nowNs()) & 0xffffff, .card = card_.rail[rail]};
  at.packetNumber = card.packetNumber;
  at.stage = Stage::Offered;
  for (uint32_t k = 0; k < card_.queuePairs; ++k) {
    Result<std::unique_ptr<QueuePair>> made = QueuePair::create(this, *completions_, rail, receives(), options_);
    if (!made.ok()) {
      at.trouble = made.status().message();
      return;
    }
    card.card.queuePairs[k] = (*made)->number();
    at.pairs.push_back(std::move(*made));
  }
  card_.rail[rail] = card.card;
  tell(rail, Kind::Offer, card);
}

void Connection::connectAgain(uint32_t rail) {
  Returning& at = returning_[rail];
  ConnectionCard mine = card_;
  mine.packetNumber = at.packetNumber;
  theirs_.rail[rail] = at.offer->card;
  ConnectionCard theirs = theirs_;
  theirs.packetNumber = at.offer->packetNumber;
  for (size_t k = 0; k < at.pairs.size(); ++k) {
    const Status status = at.pairs[k]->connect(mine, theirs, theirs.rail[rail].queuePairs[k], options_);
    if (status.ok()) continue;
    at.trouble = status.message();
    return;
  }
  at.stage = Stage::Connected;
  tell(rail, Kind::Connected);
}

void Connection::prove(uint32_t rail) {
  Returning& at = returning_[rail];
  for (const auto& pair : at.pairs) {
    const Result<uint64_t> proof = pair->askForAnswer();
    if (!proof.ok()) {
      at.trouble = proof.status().message();
      return;
    }
    at.proofs.push_back(*proof);
  }
  at.stage = Stage::Proving;
}

bool Connection::isProven(const Returning& at) {
  for (size_t k = 0; k < at.pairs.size(); ++k) {
    if (!at.pairs[k]->isDone(at.proofs[k])) return false;
  }
  return at.trouble.empty();
}

void Connection::dropReturn(uint32_t rail) {
  Returning& before = returning_[rail];
  Returning next;
  next.attempt = before.attempt + 1;
  next.pauseNs = before.pauseNs;
  next.upNs = before.upNs;
  before = std::move(next);
  pauseReturn(rail);
}

// Queue pairs of the rails take turns as they did when the connection opened.
void Connection::useAgain(uint32_t rail) {
  Returning& at = returning_[rail];
  std::vector<std::vector<std::unique_ptr<QueuePair>>> byRail(rails_);
  for (auto& pair : pairs_) byRail[pair->rail()].push_back(std::move(pair));
  byRail[rail] = std::move(at.pairs);
  pairs_.clear();
  for (size_t k = 0; k < card_.queuePairs; ++k) {
    for (auto& pairs : byRail) {
      if (k < pairs.size()) pairs_.push_back(std::move(pairs[k]));
    }
  }
  lost_ &= ~(1U << rail);
  untold_ &= ~(1U << rail);
  states_[rail] = RailState::Up;
  ++generations_[rail];
  if (completions_->hasReturned(rail)) {
    TUTTI_WARN("verbs", who(rail), ": the port is back, and carries its part again");
  } else {
    TUTTI_INFO("verbs", who(rail), " is used again");
  }
  const std::string trouble = at.trouble;
  const std::optional<uint64_t> lostAlready = at.lostAlready;
  Returning next;
  next.attempt = at.attempt + 1;
  next.pauseNs = at.pauseNs;
  next.upNs = nowNs();
  at = std::move(next);
  if (lostAlready) return peerLostIt(rail, *lostAlready);
  if (!trouble.empty()) return failed(rail, trouble);
  if (completions_->isDown(rail)) failed(rail, "the port is down");
}

void Connection::tell(uint32_t rail, Kind kind, ReturnCard card) {
  card.kind = kind;
  card.rail = rail;
  card.attempt = returning_[rail].attempt;
  const auto* const bytes = reinterpret_cast<const char*>(&card);
  toSay_.append(bytes, sizeof card);
}

void Connection::say() {
  while (!toSay_.empty()) {
    const ssize_t n = ::send(stream_.get(), toSay_.data(), toSay_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0) return;  // later; the peer's end shows when the stream is read
    toSay_.erase(0, static_cast<size_t>(n));
  }
}

void Connection::heard(std::string_view bytes) {
  heard_ += bytes;
  while (heard_.size() >= sizeof(ReturnCard) && trouble_.ok()) {
    ReturnCard card;
    std::memcpy(&card, heard_.data(), sizeof card);
    heard_.erase(0, sizeof card);
    if (!isSound(card, rails_))
      return fail(remoteError(ErrorCode::Malformed, "rank ", peer_, " over verbs tells something unknown of a rail"));
    if (card.attempt == returning_[card.rail].attempt) hear(card);
  }
}

void Connection::hear(const ReturnCard& card) {
  Returning& at = returning_[card.rail];
  switch (card.kind) {
    case Kind::Offer: at.offer = card; break;
    case Kind::Connected: at.peerConnected = true; break;
    case Kind::Proven: at.peerProven = true; break;
    case Kind::Failed: dropReturn(card.rail); break;
  }
}

}  // namespace tutti::verbs

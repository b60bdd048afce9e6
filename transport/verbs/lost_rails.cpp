// What a connection does when one of its rails fails and others are left.
//
// Nobody knows what of the operations that were under way has arrived.  So both ends end their queue pairs of the rail,
// after which nothing late can come by it into a slot that is used again, and tell each other so by another rail, with
// the number of messages that have come whole.  An end that has heard this sends what is not among them again, from the
// memory in which it was kept; the receiver knows pieces that it has had.  Reads that were under way are begun again.
// New messages wait until the adapters are done with all that, since slots are used again in order.  How the rail is
// used again: returning_rails.cpp.
#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "transport/verbs/connection.hpp"

namespace tutti::verbs {

uint32_t Connection::railsUp() const { return rails_ - static_cast<uint32_t>(std::popcount(lost_ | failing_)); }

// Called while completions are taken, when no queue pair may be destroyed.
void Connection::failed(uint32_t rail, const std::string& what) {
  if ((lost_ & 1U << rail) != 0 && returning_[rail].trouble.empty() && !returning_[rail].pairs.empty())
    returning_[rail].trouble = what;
  if (!trouble_.ok() || ((lost_ | failing_) & 1U << rail) != 0) return;
  if (!connected_ || railsUp() == 1) return fail(remoteError(ErrorCode::ConnectionLost, who(rail), ": ", what));
  failing_ |= 1U << rail;
  why_[rail] = what;
  moving_ = true;
}

// Words of an earlier generation are told again when another rail is lost.
void Connection::peerLost(uint32_t word) {
  const uint32_t rail = lostRailOf(word), generation = lostGenerationOf(word);
  if (rail >= rails_)
    return fail(
        remoteError(ErrorCode::Malformed, "rank ", peer_, " over verbs has lost rail ", rail, ", which it never had"));
  const uint64_t peerHas = widen(word & kCounterBits, released_, sent_ - released_).value_or(released_);
  const uint32_t mine = generations_[rail];
  if (generation == mine % kGenerations) return peerLostIt(rail, peerHas);
  const bool next = generation == (mine + 1) % kGenerations;
  if (next && returning_[rail].stage == Returning::Stage::Proven) returning_[rail].lostAlready = peerHas;
}

void Connection::peerLostIt(uint32_t rail, uint64_t peerHas) {
  peerHas_[rail] = peerHas;
  peersWords_ |= 1U << rail;
  failed(rail, "the peer has lost it");
  moving_ = true;
}

void Connection::moveTraffic() {
  if (!trouble_.ok()) return;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    const uint32_t bit = 1U << rail;
    if ((failing_ & bit) != 0) lose(rail);
    if ((peersWords_ & bit) == 0) continue;
    peersWords_ &= ~bit;
    if (std::exchange(states_[rail], RailState::Gone) == RailState::Lost) sendAgain(rail);
  }
  tellOfLostRails();
  goOnAgain();
  moving_ = !isMoved();
}

void Connection::lose(uint32_t rail) {
  const uint32_t bit = 1U << rail;
  failing_ &= ~bit;
  lost_ |= bit;
  hasLost_ = true;
  pauseReturn(rail);
  states_[rail] = RailState::Lost;
  for (const auto& pair : pairs_) {
    if (pair->rail() != rail) continue;
    pair->forReadsUnderWay([this](uint32_t mark) {
      const uint64_t first = arrived_ - std::min<uint64_t>(arrived_, slots());
      const uint64_t message = first + (mark % slots() + slots() - first % slots()) % slots();
      again_.push_back({message, mark / slots(), true});
    });
  }
  std::erase_if(pairs_, [rail](const auto& pair) { return pair->rail() == rail; });
  lastAgain_.clear();
  untold_ = lost_;  // what was told by this rail may not have come
  told_ = 0;
  tellUpTo_ = givenBack_;
  std::string others;
  for (uint32_t k = 0; k < rails_; ++k) {
    if (((lost_ | failing_) & 1U << k) != 0) continue;
    others += cat(others.empty() ? "" : ", ", completions_->device(k)->name());
  }
  if (completions_->isFirstLoss(rail)) {
    TUTTI_WARN("verbs", who(rail), ": ", why_[rail], "; the traffic of this port moves to ", others);
  } else {
    TUTTI_INFO("verbs", who(rail), ": ", why_[rail], "; moves to ", others);
  }
}

// Both ends have ended their queue pairs: nothing more comes by the rail.
void Connection::sendAgain(uint32_t rail) {
  for (uint64_t message = std::max(released_, peerHas_[rail]); message < sent_; ++message) {
    Sent& sent = sentBySlot_[message % slots()];
    if ((sent.rails & 1U << rail) == 0) continue;
    sent.rails = 0;
    for (uint32_t piece = 0; piece < sent.over.count; ++piece) again_.push_back({message, piece, false});
  }
  lastAgain_.clear();
}

void Connection::tellOfLostRails() {
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    const uint32_t bit = 1U << rail;
    QueuePair& by = *pairs_[0];
    if ((untold_ & bit) == 0 || !by.hasRoom()) continue;
    untold_ &= ~bit;
    const Status status = by.write({}, place(0, by.rail()), lostRailWord(rail, generations_[rail], confirmed()));
    if (!status.ok()) failed(by.rail(), status.message());
  }
}

void Connection::goOnAgain() {
  const auto haveRoom = [this] {
    return std::ranges::all_of(pairs_, [](const auto& pair) { return pair->hasRoom(); });
  };
  for (; !again_.empty() && failing_ == 0 && haveRoom(); again_.pop_front()) {
    const Piece next = again_.front();
    next.isRead ? readPiece(next.message, next.piece) : putPiece(next.message, next.piece);
  }
}

/// Whether all that went again has arrived.
bool Connection::isMoved() {
  const bool awaited = std::ranges::count(states_, RailState::Lost) > 0;
  if (awaited || failing_ != 0 || untold_ != 0 || !again_.empty()) return false;
  if (lastAgain_.empty()) {
    for (const auto& pair : pairs_) {
      if (!pair->hasRoom()) return false;
    }
    for (const auto& pair : pairs_) {
      const Result<uint64_t> last = pair->flush();
      if (!last.ok()) failed(pair->rail(), last.status().message());
      lastAgain_.push_back(last.ok() ? *last : 0);
    }
  }
  for (size_t k = 0; k < pairs_.size(); ++k) {
    if (!pairs_[k]->isDone(lastAgain_[k])) return false;
  }
  lastAgain_.clear();
  return failing_ == 0;
}

}  // namespace tutti::verbs

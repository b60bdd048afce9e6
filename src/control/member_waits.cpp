// The wait of a member, and its part in chains of waits through several communicators (circles.hpp).
#include <algorithm>
#include <utility>

#include "src/control/deadlock.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/member.hpp"

namespace tutti {

std::optional<Hop> Member::wait() const {
  if (failure_ || !state_) return {};
  const RankState state = state_();
  if (!state.callerWaits || !state.oneThread) return {};
  Hop hop{.commId = request_.commId, .rank = request_.rank, .where = where_};
  if (state.message) {
    if (state.message->isSend) return {};
    hop.peer = state.message->peer;
    hop.sequence = partsOf(state.message->call).sequence;
    hop.text = describeMessage(*state.message);
    return hop;
  }
  if (!isInCallOfAll(state)) return {};
  hop.sequence = state.entered;
  hop.text = describeSequence(report(), state.entered);
  return hop;
}

bool Member::lacks(const Hop& hop) const {
  if (failure_ || !state_ || hop.commId != request_.commId || hop.rank == request_.rank) return false;
  const RankState state = state_();
  if (!state.oneThread) return false;  // what another thread is given to do counts as done
  return hop.peer < 0 ? state.entered < hop.sequence
                      : hop.peer == request_.rank && lacksSend(state, hop.rank, static_cast<uint32_t>(hop.sequence));
}

/// Somebody is missing in our call who waits elsewhere: for whom, and does that one wait for us?
void Member::allIsWell(const std::vector<std::optional<RankReport>>& answers) {
  const std::optional<Hop> own = wait();
  if (!own) return;
  const bool elsewhere = std::any_of(answers.begin(), answers.end(), [&](const std::optional<RankReport>& t) {
    return t && !t->left && t->state.oneThread && !t->state.elsewhere.empty();
  });
  if (elsewhere) circles_.begin(id_);
}

/// Also behind a failure: a circle that is closed breaks one communicator after the other.
bool Member::onWaits(int from, Reader in, std::string_view message) {
  const int32_t origin = in.i32();
  const uint64_t number = in.u64();
  Chain chain = readChain(in);
  if (!in.done() || origin < 0 || origin >= request_.nRanks) return false;
  uint64_t& newest = newestChain_[origin];
  if (origin == request_.rank || number <= newest) return true;
  newest = number;
  flood(std::string(message), from);
  if (chain.closed || !failure_) circles_.onChain(id_, std::move(chain));
  return true;
}

void Member::sendChain(const Chain& chain) {
  Writer w(MessageType::Waits);
  w.i32(request_.rank);
  w.u64(nextChain_++);
  writeChain(w, chain);
  flood(w.take(), -1);
}

}  // namespace tutti

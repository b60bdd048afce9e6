#include "src/comm/send_learning.hpp"

#include <optional>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/base/text.hpp"
#include "src/comm/learning.hpp"

namespace tutti {

SendProtocolChooser::Choice SendKind::choose(const Endpoint& endpoint, const std::byte* data) {
  const bool heard = this->heard(endpoint);
  if (trials_.wants() != Trials::Wants::Nothing) [[unlikely]] {
    if (!heard && putsOff()) return {lendsBy(trials_.way()), 0};
    compare();
  }
  const Trials::Turn turn = trials_.take();
  Choice choice{lendsBy(turn.way), 0};
  // Memory that the peer maps is lent, whatever is chosen here.
  if (!turn.timed || !heard || isMapped(data, data)) return choice;
  last_ = {this, turn};
  choice.beganNs = nowNs();
  return choice;
}

/// Whether the time of the last timed send to the peer is known, or there was none.
bool SendKind::heard(const Endpoint& endpoint) {
  if (last_.kind == nullptr) return true;
  const std::optional<int64_t> ns = endpoint.timedNs();
  if (!ns) return false;
  const TimedSend last = std::exchange(last_, {});
  last.kind->record(last.turn, *ns);
  return true;
}

/// A sender that lends its memory goes on once it hears that this was read, and one that has copied it at once.
void SendKind::record(const Trials::Turn& turn, int64_t ns) {
  trials_.record(turn, {lendsBy(turn.way) ? ns + planned_.handOverNs : ns});
}

/// The time that is missing is one of this kind's, and may still come.
bool SendKind::putsOff() {
  if (last_.kind != this || putOff_ == kMostPutOff) return false;
  ++putOff_;
  return true;
}

void SendKind::compare() {
  putOff_ = 0;
  const bool hadWays = trials_.wants() == Trials::Wants::Times && trials_.nWays() > 1;
  if (trials_.wants() == Trials::Wants::Times) trials_.settle(trials_.times(), true);
  if (hadWays && trials_.settled()) tellFound();
  if (trials_.wants() == Trials::Wants::Ways) trials_.offer(2);
}

void SendKind::tellFound() const {
  const uint8_t taken = trials_.taken();
  const LearnedSend found{key_, lends(), taken == 0, trials_.nsOf(taken), trials_.nsOf(0)};
  all_.add(found);
  TUTTI_INFO("plan", "sends of ", formatBytes(key_.bytes), " to rank ", key_.peer, key_.inGroup ? " in groups" : "",
             ": ", found.lends ? "direct" : "slots", " from now on; measured: ", found.lends ? "direct " : "slots ",
             usText(found.ns), " us, ", found.lends ? "slots " : "direct ", usText(trials_.nsOf(1 - taken)), " us");
}

std::vector<LearnedSend> SendLearning::takeFound() {
  std::vector<LearnedSend> all;
  for (const auto& [key, found] : found_) all.push_back(found);
  found_.clear();
  return all;
}

}  // namespace tutti

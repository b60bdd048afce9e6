// How a member comes up, and what it says when that takes too long.
#include <utility>

#include "src/control/diagnosis.hpp"
#include "src/control/member.hpp"

namespace tutti {

namespace {

std::string joinBlob(const JoinRequest& request) {
  Writer w;
  w.text(request.self);
  w.text(request.info);
  return w.take();
}

}  // namespace

void Member::start() {
  neighbours_.start();
  joinWatch_.begin(network_.nowNs());
  meeting_.start();
  for (size_t peer = 0; peer < request_.members.size(); ++peer)
    neighbours_.setControlAddress(static_cast<int>(peer), request_.members[peer]);
  startExchange(Exchanges::kJoining, joinBlob(request_));
}

void Member::putOff(int64_t deadlineNs) {
  joinWatch_.putOff(deadlineNs);
  if (meeting_.linked() && !failure_ && joinWatch_.toBeTold()) meeting_.registers(joinWatch_.tell(network_.nowNs()));
}

bool Member::onMeetingProven(LinkId link) {
  if (!meeting_.onProven(link)) return false;
  meeting_.registers(joinWatch_.tell(network_.nowNs()));
  return true;
}

void Member::onMeetingMessage(std::string_view message) {
  const Meeting::News news = meeting_.onMessage(message);
  for (const auto& [rank, controlAddress] : news.peers) neighbours_.setControlAddress(rank, controlAddress);
  if (news.failure) fail(*news.failure);
}

/// Up: everyone's information is here and all our links stand.
void Member::linkStands() {
  const std::vector<std::string>* const blobs = exchanges_.gathered(Exchanges::kJoining);
  if (up_ || failure_ || blobs == nullptr || !neighbours_.allStand()) return;
  std::vector<std::string> infos;
  for (const std::string& blob : *blobs) {
    const int rank = static_cast<int>(infos.size());
    Reader in(blob);
    controlAddresses_[infos.size()] = in.text(kMaxControlAddressBytes);
    infos.emplace_back(in.text(kMaxMessageBytes));
    if (!in.done())
      return fail({rank, remoteError(ErrorCode::Malformed, "rank ", rank, " told malformed information of itself")});
  }
  infos_ = std::move(infos);
  exchanges_.joined();
  up_ = true;
  survivors_.up();
  joinWatch_.end();
  streams_.up();
  meeting_.leave(goodbyeMessage({}));
}

void Member::checkJoin() {
  switch (joinWatch_.look(network_.nowNs())) {
    case JoinWatch::Look::None: return;
    case JoinWatch::Look::Unlinked: return joinTooLate(false);
    case JoinWatch::Look::Mute:
      return inquire(InquiryReason::Deadline, 0, exchanges_.waitingOnToJoin(), joinWatch_.marginNs() * 8 / 10);
    case JoinWatch::Look::GiveUp: break;
  }
  joinTooLate(true);
  fail({-1, timeoutError(ErrorCode::RanksMissing, "rank ", request_.rank, " gave up joining at its deadline, after ",
                         lasted(), whereMet(request_), "; no information has come from ",
                         nameRanks(exchanges_.missingToJoin()),
                         "; check that they run, or raise TUTTI_TIMEOUT_MS on all ranks")});
}

/// How long this rank has been joining.
std::string Member::lasted() const { return formatSpan(joinWatch_.lastsNs(network_.nowNs())); }

/// Name those that are not linked with us: first those that we dial, because those who should dial us may lack our
/// control address and say so now; at last all.  The rendezvous has told us before, if some have not come at all.
void Member::joinTooLate(bool last) {
  if (meeting_.unanswered() || neighbours_.lacksAddress())
    return fail({-1, timeoutError(ErrorCode::RendezvousSilent, meeting_.noAnswer(cat("within ", lasted())))});
  const auto [absent, how] = neighbours_.unlinked(last);
  if (absent.empty()) return;
  // Several are no one's fault in particular: perhaps it is our own network.
  fail({absent.size() == 1 ? absent[0] : -1,
        timeoutError(ErrorCode::RanksUnreachable, nameRanks(absent), " did not connect with rank ", request_.rank,
                     " within ", lasted(), " while ranks were joining", whereMet(request_), " (", how,
                     "); check that every rank runs, that no firewall is between them, and TUTTI_SOCKET_IFNAME")});
}

}  // namespace tutti

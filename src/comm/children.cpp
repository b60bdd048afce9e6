#include "src/comm/children.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/control/session/unique_id.hpp"
#include "src/membership/shrink.hpp"

namespace tutti {
namespace {

Result<std::shared_ptr<Session>> sessionFor(Comm& parent, bool share) {
  const std::shared_ptr<Session>& session = parent.control().session();
  return share ? session : Session::create(staysOnHost(session->controlAddress()) ? Reach::Host : Reach::Network);
}

/// members: ranks of the parent by their rank in the child, one of which is this rank.
JoinRequest childRequest(Comm& parent, const std::string& label, const Session& session,
                         const std::vector<int>& members) {
  JoinRequest request;
  const Secret& secret = parent.control().secret();
  request.commId = deriveCommId(secret, label);
  request.secret = deriveSecret(secret, label);
  request.self = session.controlAddress();
  request.nRanks = static_cast<int>(members.size());
  for (const int rank : members) {
    if (rank == parent.rank()) request.rank = static_cast<int>(request.members.size());
    request.members.push_back(parent.control().controlAddresses()[static_cast<size_t>(rank)]);
  }
  return request;
}

/// While it lives, the caller is in such a call.
class Attending {
 public:
  Attending(Comm& comm, Attendance call) : waits_(comm.watchdog().waits()) { waits_.attend(call); }
  ~Attending() { waits_.attend(Attendance::None); }
  Attending(const Attending&) = delete;
  Attending& operator=(const Attending&) = delete;

 private:
  RankWaits& waits_;
};

/// The decision that counts this rank's call, if it is one call of all ranks.
/// waits: the caller does, meanwhile.
Result<Decision> agreeOn(Comm& parent, const MembershipCall& call, bool waits) {
  const bool grows = call.kind == MembershipCall::Kind::Grow;
  const Attending attending(parent, !waits ? Attendance::None : grows ? Attendance::Grow : Attendance::Split);
  for (;;) {
    const Result<Decision> decision = parent.control().agree({.call = call}, Control::Among::All, parent.deadline());
    if (!decision.ok()) return parent.watchdog().cause(decision.status());
    // Else it counts a vote that was cast before, by a call that its deadline has ended.
    if (!(decision->calls[static_cast<size_t>(parent.rank())] == call)) continue;
    if (const Status same = unanimous(*decision); !same.ok()) return parent.watchdog().cause(same);
    return decision;
  }
}

/// New ranks of a grow that has failed wait where old ranks have not come, and have no parent that tells them.
void tellNewRanks(Session& session, const JoinRequest& request, const Status& why) {
  constexpr int kTellMs = 100;  // the rendezvous may be over
  (void)session.tell(request, {request.rank, why}, Deadline::inMs(kTellMs));
}

// New ranks know the unique id only, so that the child has its names.
JoinRequest growRequest(const Comm& parent, int nRanks, const MeetingPlace& place) {
  JoinRequest request;
  request.commId = place.commId;
  request.secret = place.secret;
  request.secretOfUser = place.secretOfUser;
  request.rendezvous = place.controlAddress;
  request.rank = parent.rank();
  request.nRanks = nRanks;
  return request;
}

/// Why a join has failed may be that the parent has, of which this rank has yet to hear.
void awaitNewsOf(const AbortState& parent) {
  constexpr int kNewsMs = 100;
  for (const Deadline news = Deadline::inMs(kNewsMs); parent.joinsEnd().ok() && !news.passed();)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

Result<ChildPlan> planSplit(Comm& parent, int color, int key, bool share, bool waits) {
  ChildPlan child;
  MembershipCall call{.kind = MembershipCall::Kind::Split, .color = color, .key = key};
  if (color >= 0) {
    TUTTI_ASSIGN(child.session, sessionFor(parent, share));
    if (!share) call.text = child.session->controlAddress();
  }
  TUTTI_ASSIGN(const Decision decision, agreeOn(parent, call, waits));
  if (color < 0) return child;
  const std::vector<int> members = splitMembers(decision, color);
  child.request =
      childRequest(parent, childLabel(cat("split/", color), decision.epoch, members), *child.session, members);
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string& own = decision.calls[static_cast<size_t>(members[i])].text;
    if (!own.empty()) child.request.members[i] = own;
  }
  return child;
}

Status growFailed(Comm& parent, int nRanks, const tuttiUniqueId* id, const Status& why) {
  // Ranks that have only called wrongly may call again with this id.
  if (id == nullptr || why.code() == tuttiInvalidUsage) return why;
  const Result<MeetingPlace> place = decodeUniqueId(*id);
  if (place.ok()) tellNewRanks(*parent.control().session(), growRequest(parent, nRanks, *place), why);
  return why;
}

Result<ChildPlan> planGrow(Comm& parent, int nRanks, const tuttiUniqueId* id, bool waits) {
  MembershipCall call{.kind = MembershipCall::Kind::Grow, .nRanks = nRanks};
  if (id != nullptr) call.text = sealUniqueId(parent.control().secret(), *id);
  const Result<Decision> decision = agreeOn(parent, call, waits);
  if (!decision.ok()) return growFailed(parent, nRanks, id, decision.status());
  TUTTI_ASSIGN(const int root, growRoot(*decision));
  const std::string& sealed = decision->calls[static_cast<size_t>(root)].text;
  TUTTI_ASSIGN(const MeetingPlace place, openSealedUniqueId(parent.control().secret(), sealed));
  ChildPlan child;
  child.request = growRequest(parent, nRanks, place);
  const Reach reach = staysOnHost(place.controlAddress) ? Reach::Host : Reach::Network;
  TUTTI_ASSIGN(child.session, Session::create(reach));
  child.request.self = child.session->controlAddress();
  return child;
}

Result<std::unique_ptr<Comm>> joinPlanned(AbortState* parent, ChildPlan child, const CommSettings& settings,
                                          AbortState* abortState) {
  parent->enterJoin(abortState);
  Result<std::unique_ptr<Comm>> joined = Comm::join(child.session, child.request, settings, abortState);
  const bool stopped = parent->ended() || abortState->stopWord()->load() != 0;
  if (joined.status().code() == tuttiRemoteError && !stopped) awaitNewsOf(*parent);
  parent->leaveJoin(abortState);
  const Status why = parent->joinsEnd();
  if (why.ok()) return joined;
  if (!child.request.rendezvous.empty()) tellNewRanks(*child.session, child.request, why);
  return why;
}

Result<std::unique_ptr<Comm>> joinShrunk(Comm& parent, const std::vector<int>& excluded, bool aborts,
                                         const CommSettings& settings, AbortState* abortState) {
  Control& control = parent.control();
  // The survivors know the control addresses of the parent's Session only, so that they share it.
  const std::shared_ptr<Session>& session = control.session();
  Shrink shrink(parent.nRanks(), excluded, aborts);
  std::unique_ptr<Comm> child;
  for (bool first = true; shrink.next() != Shrink::Next::End;) {
    if (shrink.next() == Shrink::Next::Vote) {
      TUTTI_ASSIGN(const Decision decision,
                   control.agree(shrink.vote(), Control::Among::Survivors, parent.deadline(), abortState->stopWord()));
      shrink.onDecision(decision);
      continue;
    }
    child.reset();  // before the abortState, which it refers to
    if (!std::exchange(first, false) && !abortState->renew()) return abortState->failure();
    // Who dies before the child has a link to it would keep the join waiting.
    control.setOnGone([abortState, members = shrink.members()](int rank) {
      if (!std::binary_search(members.begin(), members.end(), rank)) return;
      abortState->end(
          remoteError(ErrorCode::RankGone, "rank ", rank, " of the parent has died while survivors were joining"));
    });
    Result<std::unique_ptr<Comm>> joined =
        Comm::join(session, childRequest(parent, shrink.label(), *session, shrink.members()), settings, abortState);
    control.setOnGone({});
    shrink.onJoined(joined.status());
    if (joined.ok()) child = std::move(*joined);
  }
  if (!shrink.outcome().ok()) return shrink.outcome();
  return child;
}

}  // namespace tutti

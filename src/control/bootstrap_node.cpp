#include "src/control/bootstrap_node.hpp"

#include <algorithm>
#include <deque>

#include "src/base/assert.hpp"
#include "src/base/log.hpp"
#include "src/base/text.hpp"
#include "src/control/member.hpp"
#include "src/control/notice.hpp"

namespace tutti {

namespace {
constexpr size_t kMaxDeparted = 256;
constexpr size_t kMaxRests = 16;  // of them, with what their neighbours may lack
}  // namespace

/// The receiver of a proven link's messages.
struct Route {
  MemberId member = 0;  // 0: the rendezvous `commId`
  CommId commId{};
};

class BootstrapNode::Impl {
 public:
  Impl(Network& network, std::function<void()> changed, bool encrypts)
      : network_(network),
        changed_(std::move(changed)),
        authentication_(
            network_, encrypts,
            {.secretFor = [this](const Hello& hello) { return secretFor(hello); },
             .proven = [this](LinkId link, const Hello& hello, MemberId owner,
                              bool alike) { owner == 0 ? accepted(link, hello) : dialed(link, hello, owner, alike); },
             .dialFailed =
                 [this](LinkId link, MemberId owner, const Status& why) {
                   if (Member* member = find(owner)) return member->onDialFailed(link, why);
                   const auto notice = notices_.find(owner);
                   if (notice != notices_.end()) notice->second.onDialFailed(link, why);
                 },
             .otherSecret =
                 [this](const Hello& hello) {
                   if (Rendezvous* place = placeOf(hello)) place->onOtherSecret(hello);
                 },
             .begins =
                 [this](const Hello& hello, const Mac& tag) {
                   Rendezvous* const place = placeOf(hello);
                   return place != nullptr && place->onHello(tag);
                 },
             .vanished =
                 [this](const Hello& hello) {
                   if (Rendezvous* place = placeOf(hello)) place->onVanished(hello);
                 }}),
        circles_({.wait = [this] { return wait(); },
                  .lacks = [this](MemberId id, const Hop& hop) { return at(id).lacks(hop); },
                  .rankOf = [this](MemberId id) { return at(id).request().rank; },
                  .failed = [this](MemberId id) { return at(id).failure().has_value(); },
                  .send = [this](MemberId id, const Chain& chain) { at(id).sendChain(chain); },
                  .fail = [this](MemberId id, const Failure& failure) { at(id).fail(failure); }}) {
    network_.randomBytes(std::as_writable_bytes(std::span(&process_, 1)));
  }

  Member* find(MemberId id) {
    const auto it = members_.find(id);
    return it == members_.end() ? nullptr : it->second.get();
  }
  Member& at(MemberId id) {
    Member* member = find(id);
    TUTTI_ASSERT(member != nullptr);
    return *member;
  }

  const Secret* secretFor(const Hello& hello) const;
  void accepted(LinkId link, const Hello& hello);
  void dialed(LinkId link, const Hello& hello, MemberId owner, bool alike);
  Rendezvous* placeOf(const Hello& hello);
  std::optional<std::pair<MemberId, Hop>> wait() const;
  void turnAway(LinkId link, const Hello& hello, const Departed& departed);
  MemberId memberOf(const Hello& hello) const {
    const auto it = byName_.find({hello.commId, hello.acceptor});
    return it == byName_.end() ? 0 : it->second;
  }
  const Departed* departedOf(const Hello& hello) const {
    for (const Departed& d : departed_)
      if (d.commId == hello.commId && d.rank == hello.acceptor) return &d;
    return nullptr;
  }
  void endRendezvous();
  void leave(MemberId id);

  struct Place {
    Secret secret{};
    Rendezvous rendezvous;
  };

  SealedLinks network_;
  std::function<void()> changed_;
  LinkAuthentication authentication_;
  Circles circles_;
  uint64_t process_ = 0;
  MemberId nextMember_ = 1;
  std::map<MemberId, std::unique_ptr<Member>> members_;
  std::map<MemberId, Notice> notices_;
  std::map<std::pair<CommId, int>, MemberId> byName_;  // by communicator and rank
  std::map<CommId, Place> places_;
  std::map<LinkId, Route> routes_;
  std::deque<Departed> departed_;  // the newest last
};

const Secret* BootstrapNode::Impl::secretFor(const Hello& hello) const {
  if (hello.purpose == Purpose::Meet) {
    const auto place = places_.find(hello.commId);
    return place == places_.end() ? nullptr : &place->second.secret;
  }
  if (const MemberId id = memberOf(hello); id != 0) return &members_.at(id)->request().secret;
  const Departed* departed = departedOf(hello);
  return departed == nullptr ? nullptr : &departed->secret;
}

void BootstrapNode::Impl::accepted(LinkId link, const Hello& hello) {
  if (hello.purpose == Purpose::Meet) {
    const auto place = places_.find(hello.commId);
    if (place == places_.end()) return network_.close(link);
    routes_[link] = {0, hello.commId};
    return place->second.rendezvous.onProven(link, hello);
  }
  if (const MemberId id = memberOf(hello); id != 0) {
    if (!at(id).onProven(link, hello, false)) return network_.close(link);
    if (hello.purpose == Purpose::Overlay || hello.purpose == Purpose::Agreement) routes_[link] = {id, hello.commId};
    return;
  }
  const Departed* departed = departedOf(hello);
  if (departed != nullptr && hello.purpose != Purpose::Stream && hello.purpose != Purpose::Summon)
    return turnAway(link, hello, *departed);
  network_.close(link);
}

Rendezvous* BootstrapNode::Impl::placeOf(const Hello& hello) {
  const auto place = places_.find(hello.commId);
  return hello.purpose == Purpose::Meet && place != places_.end() ? &place->second.rendezvous : nullptr;
}

/// What the program's only thread waits in, if that is a call of one of our members.
std::optional<std::pair<MemberId, Hop>> BootstrapNode::Impl::wait() const {
  for (const auto& [id, member] : members_) {
    if (std::optional<Hop> hop = member->wait()) {
      hop->process = process_;
      return {{id, std::move(*hop)}};
    }
  }
  return {};
}

void BootstrapNode::Impl::dialed(LinkId link, const Hello& hello, MemberId owner, bool alike) {
  if (const auto notice = notices_.find(owner); notice != notices_.end()) return notice->second.onProven(link);
  Member* member = find(owner);
  if (member != nullptr && !alike) member->onUnlike();
  if (member == nullptr || !member->onProven(link, hello, true)) return network_.close(link);
  if (hello.purpose != Purpose::Stream && hello.purpose != Purpose::Summon) routes_[link] = {owner, hello.commId};
}

/// One who comes late, or comes back, hears what it may have missed, and why nobody is here any more.
void BootstrapNode::Impl::turnAway(LinkId link, const Hello& hello, const Departed& departed) {
  const auto rest = departed.rest.find(hello.dialer);
  if (hello.purpose != Purpose::Agreement && rest != departed.rest.end()) rest->second.sendRest(link);
  if (departed.failure) network_.send(link, failureMessage(*departed.failure));
  network_.send(link, goodbyeMessage(departed.lastWords));
  network_.close(link);
}

void BootstrapNode::Impl::endRendezvous() {
  for (auto it = places_.begin(); it != places_.end();) {
    if (!it->second.rendezvous.done()) {
      ++it;
      continue;
    }
    std::erase_if(routes_, [&](const auto& route) {
      if (route.second.member != 0 || route.second.commId != it->first) return false;
      network_.close(route.first);
      return true;
    });
    it = places_.erase(it);
  }
}

void BootstrapNode::Impl::leave(MemberId id) {
  Member& member = at(id);
  departed_.push_back(member.leave());
  const Departed& departed = departed_.back();
  // This process may end now, and the rendezvous with it: let it tell the others first.
  const auto place = places_.find(departed.commId);
  if (place != places_.end() && departed.failure) place->second.rendezvous.fail(*departed.failure);
  if (departed_.size() > kMaxDeparted) departed_.pop_front();
  if (departed_.size() > kMaxRests) departed_[departed_.size() - kMaxRests - 1].rest.clear();
  std::erase_if(routes_, [&](const auto& route) { return route.second.member == id; });
  std::erase_if(byName_, [&](const auto& entry) { return entry.second == id; });
  members_.erase(id);
}

BootstrapNode::BootstrapNode(Network& network, std::function<void()> changed, bool encrypts)
    : impl_(std::make_unique<Impl>(network, std::move(changed), encrypts)) {}
BootstrapNode::~BootstrapNode() = default;

void BootstrapNode::serveRendezvous(const CommId& commId, const Secret& secret, const std::string& where) {
  impl_->places_.try_emplace(commId, Impl::Place{secret, Rendezvous(impl_->network_, where)});
  impl_->authentication_.unpark();
  impl_->changed_();
}

void BootstrapNode::rankEnded(const CommId& commId, int rank, const std::string& how) {
  const auto place = impl_->places_.find(commId);
  if (place == impl_->places_.end()) return;
  place->second.rendezvous.onEnded(rank, how);
  impl_->endRendezvous();
  impl_->changed_();
}

bool BootstrapNode::rendezvousDone(const CommId& commId) const { return !impl_->places_.contains(commId); }

bool BootstrapNode::meetingsWait() const {
  return std::any_of(impl_->places_.begin(), impl_->places_.end(),
                     [](const auto& entry) { return entry.second.rendezvous.waits(); });
}

MemberId BootstrapNode::join(const JoinRequest& request) {
  const MemberId id = impl_->nextMember_++;
  auto& member = impl_->members_[id];
  member = std::make_unique<Member>(impl_->network_, impl_->authentication_, impl_->circles_, id, request);
  impl_->byName_[{request.commId, request.rank}] = id;
  member->start();
  impl_->authentication_.unpark();
  impl_->changed_();
  return id;
}

bool BootstrapNode::up(MemberId member) const { return impl_->at(member).up(); }
const std::vector<std::string>& BootstrapNode::infos(MemberId member) const { return impl_->at(member).infos(); }
const std::vector<ControlAddress>& BootstrapNode::controlAddresses(MemberId member) const {
  return impl_->at(member).controlAddresses();
}

uint64_t BootstrapNode::allGather(MemberId member, std::string blob) {
  const uint64_t n = impl_->at(member).allGather(std::move(blob));
  impl_->changed_();
  return n;
}

const std::vector<std::string>* BootstrapNode::gathered(MemberId member, uint64_t n) const {
  return impl_->at(member).gathered(n);
}
void BootstrapNode::forget(MemberId member, uint64_t n) { impl_->at(member).forget(n); }
const std::optional<Failure>& BootstrapNode::failure(MemberId member) const { return impl_->at(member).failure(); }
const std::optional<Failure>& BootstrapNode::endOnPurpose(MemberId member) const {
  return impl_->at(member).endOnPurpose();
}

void BootstrapNode::reportFailure(MemberId member, Failure failure) {
  impl_->at(member).fail(std::move(failure));
  impl_->changed_();
}

void BootstrapNode::setState(MemberId member, std::function<RankState()> state) {
  impl_->at(member).setState(std::move(state));
}

void BootstrapNode::setNames(MemberId member, std::string where, std::vector<HostOfRank> hosts) {
  impl_->at(member).setNames(std::move(where), std::move(hosts));
}

int64_t BootstrapNode::silentSinceNs(MemberId member, int rank) const { return impl_->at(member).silentSinceNs(rank); }

void BootstrapNode::putOff(MemberId member, int64_t deadlineNs) { impl_->at(member).putOff(deadlineNs); }

void BootstrapNode::putOffMeetings(int64_t lateNs) {
  for (auto& [id, place] : impl_->places_) place.rendezvous.putOff(lateNs);
}

void BootstrapNode::inquire(MemberId member, InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs) {
  impl_->at(member).inquire(reason, sequence, suspect, graceNs);
  impl_->changed_();
}

void BootstrapNode::putOffVerdict(MemberId member, int64_t lateNs) { impl_->at(member).putOffVerdict(lateNs); }

void BootstrapNode::withdrawInquiry(MemberId member) {
  impl_->at(member).withdrawInquiry();
  impl_->changed_();
}

bool BootstrapNode::inquiryPending(MemberId member) const { return impl_->at(member).inquiryPending(); }
const std::vector<std::optional<RankReport>>& BootstrapNode::lastAnswers(MemberId member) const {
  return impl_->at(member).lastAnswers();
}
void BootstrapNode::vote(MemberId member, const Vote& vote) {
  impl_->at(member).vote(vote);
  impl_->changed_();
}

const Agreement& BootstrapNode::agreement(MemberId member) const { return impl_->at(member).agreement(); }

void BootstrapNode::dialStream(MemberId member, int peer, StreamIndex index) {
  impl_->at(member).dialStream(peer, index);
}
void BootstrapNode::summonStream(MemberId member, int peer, StreamIndex index) {
  impl_->at(member).summonStream(peer, index);
}

std::string BootstrapNode::streamKey(const CommId& commId, int peer, StreamIndex index) {
  return cat(streamKeyPrefix(commId), peer, "/", index);
}

std::string BootstrapNode::streamKeyPrefix(const CommId& commId) { return toHex(commId.data(), commId.size()) + "/"; }

bool BootstrapNode::endIsDeath(MemberId member, int rank) const { return impl_->at(member).endIsDeath(rank); }

MemberId BootstrapNode::tell(const JoinRequest& request, const Failure& why) {
  const MemberId id = impl_->nextMember_++;
  const auto added = impl_->notices_.try_emplace(id, impl_->network_, impl_->authentication_, id, request, why);
  added.first->second.start();
  impl_->changed_();
  return id;
}

bool BootstrapNode::told(MemberId notice) const { return impl_->notices_.at(notice).told(); }
Status BootstrapNode::trouble(MemberId notice) const { return impl_->notices_.at(notice).trouble(); }

void BootstrapNode::forgetNotice(MemberId notice) {
  impl_->notices_.at(notice).cancel();
  impl_->notices_.erase(notice);
  impl_->changed_();
}

void BootstrapNode::leave(MemberId member) {
  impl_->leave(member);
  impl_->changed_();
}

// ---- Events.

void BootstrapNode::onAccepted(LinkId link) {
  if (!impl_->routes_.contains(link)) impl_->authentication_.onAccepted(link);
}

bool BootstrapNode::dropStranger() { return impl_->authentication_.dropStranger(); }

void BootstrapNode::onConnected(LinkId link) { impl_->authentication_.onConnected(link); }

void BootstrapNode::onMessage(LinkId link, std::string_view sealed) {
  const auto it = impl_->routes_.find(link);
  if (it == impl_->routes_.end()) {
    impl_->authentication_.onMessage(link, sealed);
    return impl_->changed_();
  }
  const Result<std::string> opened = impl_->network_.open(link, sealed);
  if (!opened.ok()) {
    if (Member* member = impl_->find(it->second.member)) member->onDamage(link, opened.status());
    impl_->network_.close(link);
    return onClosed(link, opened.status());
  }
  const std::string& message = *opened;
  if (const Route route = it->second; route.member != 0) {
    if (Member* member = impl_->find(route.member)) member->onMessage(link, message);
  } else if (const auto place = impl_->places_.find(route.commId); place != impl_->places_.end()) {
    place->second.rendezvous.onMessage(link, message);
    impl_->endRendezvous();
  }
  impl_->changed_();
}

void BootstrapNode::onClosed(LinkId link, const Status& why) {
  impl_->network_.forget(link);
  const auto it = impl_->routes_.find(link);
  if (it == impl_->routes_.end()) {
    impl_->authentication_.onClosed(link, why);
  } else {
    const Route route = it->second;
    impl_->routes_.erase(it);
    if (Member* member = impl_->find(route.member)) {
      member->onClosed(link, why);
    } else if (const auto place = impl_->places_.find(route.commId);
               route.member == 0 && place != impl_->places_.end()) {
      place->second.rendezvous.onClosed(link);
      impl_->endRendezvous();
    }
  }
  impl_->changed_();
}

size_t BootstrapNode::messageLimit(LinkId link) const {
  return impl_->routes_.contains(link) ? kMaxMessageBytes + kSealBytes : kMaxStrangerBytes;
}

int64_t BootstrapNode::nextTimerNs() const {
  int64_t next = impl_->authentication_.nextTimerNs();
  for (const auto& [id, member] : impl_->members_) next = std::min(next, member->nextTimerNs());
  for (const auto& [id, notice] : impl_->notices_) next = std::min(next, notice.nextTimerNs());
  for (const auto& [id, place] : impl_->places_) next = std::min(next, place.rendezvous.nextTimerNs());
  return next;
}

void BootstrapNode::onTimer() {
  const int64_t now = impl_->network_.nowNs();
  if (impl_->authentication_.nextTimerNs() <= now) impl_->authentication_.onTimer();
  for (const auto& [id, member] : impl_->members_)
    if (member->nextTimerNs() <= now) member->onTimer();
  for (auto& [id, notice] : impl_->notices_) notice.onTimer();
  for (auto& [id, place] : impl_->places_)
    if (place.rendezvous.nextTimerNs() <= now) place.rendezvous.onTimer();
  impl_->endRendezvous();
  impl_->changed_();
}

}  // namespace tutti

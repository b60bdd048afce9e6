#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/caught.hpp"
#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/meeting.hpp"
#include "src/control/session/session_impl.hpp"

namespace tutti {
namespace {

constexpr int64_t kCallerLooksNs = 10 * kMs;  // between two looks: an abort word cannot wake anybody
constexpr int64_t kMeanwhileNs = 5 * kMs;     // between two calls of what goes on beside a farewell
constexpr int64_t kPutOffNs = 100 * kMs;      // between two words of what a join's wait has left
constexpr int64_t kGoodbyeNs = 20 * kMs;      // between the end of a process and the belief that it had not left
constexpr int64_t kBlameNs = 200 * kMs;       // for the BootstrapNode to find out who is to blame for a wait

}  // namespace

// ---- Waiting

Control::Impl::Woken Control::Impl::wait(Visit* visit, WaitTime* time, int64_t untilNs,
                                         const std::function<bool()>& ready, bool heedAbort,
                                         const std::function<void()>& meanwhile) {
  for (;;) {
    if (meanwhile && !ready()) visit->apart(meanwhile);
    if (ready()) return Woken::Ready;
    if (io.bootstrap->failure(member) || io.outOfMemory) return Woken::Failed;
    if (heedAbort && abort != nullptr && abort->load(std::memory_order_relaxed) != 0) return Woken::Aborted;
    const int64_t now = nowNs();
    if (const int64_t lateNs = time->look(now); lateNs > 0) io.bootstrap->putOffVerdict(member, lateNs);
    if (time->over() || now >= untilNs) return Woken::TooLate;
    const int64_t pauseNs = meanwhile ? kMeanwhileNs : kCallerLooksNs;
    visit->wait(now + time->pauseNs(std::min(pauseNs, untilNs - now)));
  }
}

Control::Impl::Woken Control::Impl::waitAndAsk(Visit* visit, WaitTime* time, const std::function<bool()>& ready,
                                               bool heedAbort, const std::function<void()>& meanwhile) {
  // Many ranks come late, and ask less soon.
  for (int64_t lookNs = std::max<int64_t>(20, request.nRanks) * kMs;; lookNs = std::min(2 * lookNs, 1000 * kMs)) {
    const Woken woken = wait(visit, time, nowNs() + lookNs, ready, heedAbort, meanwhile);
    if (woken != Woken::TooLate || time->over()) return woken;
    if (!io.bootstrap->inquiryPending(member)) io.bootstrap->inquire(member, InquiryReason::Stalled, 0, -1, kBlameNs);
  }
}

Status Control::Impl::waitFor(Visit* visit, WaitTime* time, const std::string& what, const std::function<bool()>& ready,
                              bool heedAbort, const std::function<void()>& meanwhile) {
  switch (waitAndAsk(visit, time, ready, heedAbort, meanwhile)) {
    case Woken::Ready: return {};
    case Woken::Failed: return failure();
    case Woken::Aborted: return aborted();
    case Woken::TooLate: break;
  }
  return timeoutError(ErrorCode::RankSilent, "rank ", request.rank, " of ", request.nRanks,
                      " waited until its deadline for ", what);
}

Status Control::Impl::blame(Visit* visit, int suspect, const Status& tooLate) {
  if (tooLate.code() != tuttiTimeout || io.bootstrap->failure(member)) return tooLate;
  io.bootstrap->inquire(member, InquiryReason::Deadline, 0, suspect, kBlameNs);
  WaitTime time(Deadline::at(nowNs() + kBlameNs + kVerdictNs), nowNs());
  const Woken woken = wait(visit, &time, kNoTimer, [] { return false; });
  if (woken != Woken::Failed) return tooLate;
  const Status verdict = failure();
  return {verdict.code(), cat(verdict.text(), " (", tooLate.message(), ")")};
}

Status Control::Impl::failure() const {
  const std::optional<Failure>& f = io.bootstrap->failure(member);
  if (f) return f->status;
  return io.outOfMemory ? noMemory() : Status();
}

Status Control::Impl::aborted() const {
  return remoteError(ErrorCode::Aborted, "rank ", request.rank, " of ", request.nRanks,
                     " was told to abort while it waited");
}

// ---- Coming up and going

Status Control::Impl::comeUp(Deadline deadline, const std::function<Status()>& whyAborted) {
  Visit visit(io);
  if (io.outOfMemory) return noMemory();
  const int64_t beganNs = nowNs();
  io.fds->admit(request.commId, request.secret);
  member = io.bootstrap->join(request);
  const auto up = [this] { return io.bootstrap->up(member); };
  int64_t& deadlineNs = io.joins[member] = deadline.ns();
  WaitTime time(deadline, nowNs());
  Woken woken = Woken::TooLate;
  while (!time.over() && woken == Woken::TooLate) {
    woken = wait(&visit, &time, nowNs() + kPutOffNs, up);
    deadlineNs = std::max(deadlineNs, time.end().ns());
    if (woken == Woken::TooLate) io.bootstrap->putOff(member, deadlineNs);
  }
  if (woken == Woken::TooLate) {
    WaitTime verdict(Deadline::at(nowNs() + kVerdictNs), nowNs());
    woken = wait(&visit, &verdict, kNoTimer, up);
  }
  io.joins.erase(member);
  Status status;
  switch (woken) {
    case Woken::Ready: status = unwrapInfos(); break;
    case Woken::Failed: status = failure(); break;
    case Woken::Aborted: status = aborted(); break;
    case Woken::TooLate: status = someMissing(request, nowNs() - beganNs); break;
  }
  if (status.ok()) {
    io.controls.insert(this);
    return {};
  }
  // Who waits for this rank hears what ended its join, and not only that it has given up.
  const Status why = woken == Woken::Aborted && whyAborted ? whyAborted() : Status();
  if (!why.ok()) io.bootstrap->reportFailure(member, {-1, why});
  io.fds->dismiss(request.commId);
  io.bootstrap->leave(member);
  member = 0;
  return status;
}

Status Control::Impl::unwrapInfos() {
  for (const std::string& info : io.bootstrap->infos(member)) {
    Result<UnwrappedInfo> unwrapped = unwrapInfo(info);
    if (!unwrapped.ok())
      return remoteError(ErrorCode::Malformed, "rank ", infos.size(), ": ", unwrapped.status().text());
    infos.push_back(std::move(unwrapped->blob));
    presences.push_back(std::move(unwrapped->presence));
  }
  controlAddresses = io.bootstrap->controlAddresses(member);
  return {};
}

Control::Control() = default;

Control::~Control() {
  if (impl_->io.process != ::getpid()) {
    (void)impl_.release();  // NOLINT: a forked child, see ~Session
    return;
  }
  if (impl_->member == 0) return;  // join failed
  const Visit visit(impl_->io);
  impl_->io.controls.erase(impl_.get());
  impl_->processes.reset();
  const Status left = caught([this]() -> Status {
    impl_->io.fds->dismiss(impl_->request.commId);
    impl_->io.network->dropStreams(BootstrapNode::streamKeyPrefix(impl_->request.commId));
    impl_->io.bootstrap->leave(impl_->member);
    return {};
  });
  if (!left.ok()) impl_->io.outOfMemory = true;
}

int Control::rank() const { return impl_->request.rank; }
int Control::nRanks() const { return impl_->request.nRanks; }
const std::vector<std::string>& Control::infos() const { return impl_->infos; }
const std::vector<ControlAddress>& Control::controlAddresses() const { return impl_->controlAddresses; }
const Secret& Control::secret() const { return impl_->request.secret; }
const std::shared_ptr<Session>& Control::session() const { return impl_->session; }

// ---- Together

Result<std::vector<std::string>> Control::allGather(std::string blob, Deadline deadline) {
  return impl_->gather(std::move(blob), deadline, true);
}

Result<std::vector<std::string>> Control::farewell(std::string blob, Deadline deadline,
                                                   const std::function<void()>& meanwhile) {
  return impl_->gather(std::move(blob), deadline, false, meanwhile);
}

Result<std::vector<std::string>> Control::Impl::gather(std::string blob, Deadline deadline, bool heedAbort,
                                                       const std::function<void()>& meanwhile) {
  Visit visit(io);
  BootstrapNode& bootstrap = *io.bootstrap;
  if (bootstrap.failure(member) || io.outOfMemory) return failure();
  const uint64_t n = bootstrap.allGather(member, std::move(blob));
  const auto ready = [&] { return bootstrap.gathered(member, n) != nullptr; };
  WaitTime time(deadline, nowNs());
  const Status waited = waitFor(&visit, &time, "an exchange among all ranks", ready, heedAbort, meanwhile);
  if (!waited.ok()) return blame(&visit, -1, waited);
  std::vector<std::string> blobs = *bootstrap.gathered(member, n);
  bootstrap.forget(member, n);
  return blobs;
}

Result<Decision> Control::agree(const Vote& vote, Among among, Deadline deadline, const std::atomic<uint32_t>* stop) {
  const std::lock_guard turn(impl_->agreeing);
  Visit visit(impl_->io);
  BootstrapNode& bootstrap = *impl_->io.bootstrap;
  const Agreement& agreement = bootstrap.agreement(impl_->member);
  if (impl_->io.outOfMemory) return noMemory();
  if (among == Among::All && bootstrap.failure(impl_->member)) return impl_->failure();
  const auto ended = [&] { return agreement.decided().epoch != impl_->agreedEpoch || agreement.excludedBy() >= 0; };
  if (!ended()) bootstrap.vote(impl_->member, vote);
  WaitTime time(deadline, nowNs());
  if (among == Among::All) {
    const Status waited = impl_->waitFor(&visit, &time, "the agreement of all ranks", ended);
    if (!waited.ok()) return impl_->blame(&visit, -1, waited);
  } else {
    Overdue overdue;
    overdue.begin(nowNs());
    while (!ended()) TUTTI_TRY(impl_->awaitDecision(&visit, &time, stop, &overdue));
  }
  if (agreement.decided().epoch == impl_->agreedEpoch) {
    return remoteError(ErrorCode::Excluded, "rank ", impl_->request.rank, " is excluded: rank ", agreement.excludedBy(),
                       " goes on without it, because it was told to, or has lost the connection");
  }
  impl_->agreedEpoch = agreement.decided().epoch;
  return agreement.decided();
}

void Control::vote(const Vote& vote) {
  const std::lock_guard turn(impl_->agreeing);
  const Visit visit(impl_->io);
  if (!impl_->io.outOfMemory) impl_->io.bootstrap->vote(impl_->member, vote);
}

/// when: "until its deadline".
std::string Control::Impl::undecided(const std::string& when) const {
  return cat("rank ", request.rank, " of ", request.nRanks, " waited ", when,
             " for the agreement of survivors, and for ", nameRanks(io.bootstrap->agreement(member).waitingOn()),
             "; all that live and are not excluded must call");
}

Status Control::Impl::awaitDecision(Visit* visit, WaitTime* time, const std::atomic<uint32_t>* stop, Overdue* overdue) {
  if (io.outOfMemory) return noMemory();
  if (stop != nullptr && stop->load(std::memory_order_relaxed) != 0) return aborted();
  const int64_t now = nowNs();
  (void)time->look(now);
  if (time->over()) return timeoutError(ErrorCode::NoAgreement, undecided("until its deadline"));
  if (const int64_t seconds = overdue->dueSeconds(now); seconds > 0)
    TUTTI_WARN("comm", undecided(cat(seconds, " s so far")));
  visit->wait(now + time->pauseNs(kCallerLooksNs));
  return {};
}

void Control::setOnGone(std::function<void(int)> onGone) {
  const Visit visit(impl_->io);
  impl_->onGone = std::move(onGone);
  impl_->goneTold.clear();
  impl_->io.news = true;  // so that those who went before are told
}

void Control::Impl::tellGone() {
  if (!onGone) return;
  for (int rank = 0; rank < request.nRanks; ++rank) {
    if (io.bootstrap->agreement(member).isGone(rank) && goneTold.insert(rank).second) onGone(rank);
  }
}

Status Control::barrier(Deadline deadline) { return asStatus(allGather({}, deadline)); }

void Control::setState(std::function<RankState()> state) {
  const Visit visit(impl_->io);
  impl_->io.bootstrap->setState(impl_->member, std::move(state));
}

void Control::setNames(std::string where, std::vector<HostOfRank> hosts) {
  const Visit visit(impl_->io);
  impl_->io.bootstrap->setNames(impl_->member, std::move(where), std::move(hosts));
}

std::vector<int64_t> Control::silentMs() const {
  const Visit visit(impl_->io);
  std::vector<int64_t> silent;
  for (int rank = 0; rank < nRanks(); ++rank) {
    const int64_t sinceNs = impl_->io.bootstrap->silentSinceNs(impl_->member, rank);
    silent.push_back(sinceNs == kNoTimer ? 0 : std::max<int64_t>((nowNs() - sinceNs) / kMs, 1));
  }
  return silent;
}

void Control::reportFailure(Failure failure) {
  const Visit visit(impl_->io);
  impl_->io.bootstrap->reportFailure(impl_->member, std::move(failure));
}

Status Control::failure() const {
  const Visit visit(impl_->io);
  return impl_->failure();
}

void Control::Impl::tellFailure() {
  if (!onFailure) return;
  const std::optional<Failure>& first = io.bootstrap->failure(member);
  const std::optional<Failure>& end = io.bootstrap->endOnPurpose(member);
  if (first && !std::exchange(failureTold, true)) onFailure(*first);
  if (end && !std::exchange(endTold, true) && !first->onPurpose) onFailure(*end);
}

// ---- Processes

void Control::watchProcesses(const std::vector<int>& pids) {
  const Visit visit(impl_->io);
  if (!impl_->processes) impl_->processes = std::make_unique<ProcessWatch>(*impl_->io.reactor);
  const size_t n = std::min(pids.size(), static_cast<size_t>(impl_->request.nRanks));
  for (size_t i = 0; i < n; ++i) {
    const int rank = static_cast<int>(i), pid = pids[i];
    if (pid <= 0 || pid == ::getpid()) continue;
    Impl* self = impl_.get();
    switch (impl_->processes->add(pid, [self, rank, pid] { self->processEnded(rank, pid); })) {
      case ProcessWatch::Outcome::Watching: break;
      case ProcessWatch::Outcome::AlreadyGone: impl_->processEnded(rank, pid); break;
      case ProcessWatch::Outcome::Impossible:
        TUTTI_DEBUG("bootstrap", "cannot watch process ", pid, " of rank ", rank, "; its connections will tell");
        break;
    }
  }
}

void Control::Impl::processEnded(int rank, int pid) { ended.push_back({nowNs() + kGoodbyeNs, rank, pid}); }

int64_t Control::Impl::nextTimerNs() const {
  return std::min(nextTickNs, ended.empty() ? kNoTimer : ended.front().reportNs);
}

void Control::Impl::onTimer() {
  if (nextTickNs <= nowNs()) tick();
  while (!ended.empty() && ended.front().reportNs <= nowNs()) {
    const Ended process = ended.front();
    ended.erase(ended.begin());
    if (!io.bootstrap->endIsDeath(member, process.rank)) continue;
    io.bootstrap->reportFailure(
        member, {process.rank, remoteError(ErrorCode::RankGone, "rank ", process.rank, " (process ", process.pid,
                                           " on this host) has died")});
  }
}

// ---- Looking around

void Control::setTicker(int64_t intervalNs, std::function<Look()> ticker) {
  const Visit visit(impl_->io);
  impl_->ticker = std::move(ticker);
  impl_->tickNs = intervalNs;
  impl_->nextTickNs = kNoTimer;
}

void Control::startTicker() {
  const Visit visit(impl_->io);
  if (impl_->ticker && impl_->nextTickNs == kNoTimer) impl_->nextTickNs = nowNs() + impl_->tickNs;
}

void Control::Impl::tick() {
  if (io.bootstrap->failure(member)) {
    nextTickNs = kNoTimer;
    return;
  }
  const Look look = ticker();
  nextTickNs = look.again ? nowNs() + tickNs : kNoTimer;
  if (look.stray)
    io.bootstrap->inquire(member, InquiryReason::Mismatch, look.stray->sequence, look.stray->rank, kBlameNs);
}

}  // namespace tutti

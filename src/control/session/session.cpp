#include "src/control/session/session.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "src/base/caught.hpp"
#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/gcm.hpp"
#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/base/threads.hpp"
#include "src/control/session/interfaces.hpp"
#include "src/control/session/session_impl.hpp"
#include "src/control/session/unique_id.hpp"

namespace tutti {
namespace {

constexpr int64_t kLastWordsNs = 250 * kMs;  // for peers to take them when a Session ends
constexpr int64_t kJoinLooksNs = 50 * kMs;   // between two looks while ranks wait for others to come
constexpr int64_t kTellLooksNs = 10 * kMs;   // between two looks whether a place has been told

/// Many ranks in one process need more descriptors than the usual soft limit of 1024.
void raiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

// ---- Opening and closing

Session::Session() : impl_(std::make_unique<Impl>()) {}

Result<std::shared_ptr<Session>> Session::create(Reach reach) {
  TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, listenAddresses(reach));
  TUTTI_ASSIGN(std::shared_ptr<Session> session, create(addresses));
  session->impl_->nPaths = spreadPaths(addresses, configText("TUTTI_SOCKET_IFNAME"));
  return session;
}

Result<std::shared_ptr<Session>> Session::create(const std::vector<SocketAddress>& addresses) {
  raiseDescriptorLimit();
  std::shared_ptr<Session> session(new Session);
  TUTTI_TRY(session->impl_->open(addresses, patienceMs()));
  TUTTI_TRY(session->impl_->startThread());
  return session;
}

Status Session::Impl::open(const std::vector<SocketAddress>& addresses, int64_t timeoutMs) {
  process = ::getpid();
  TUTTI_TRY(seedRandom());
  TUTTI_ASSIGN(reactor, Reactor::create());
  const auto notify = [this] {
    news = true;
    changed.notify_all();
  };
  TUTTI_ASSIGN(const int64_t goneMs, configInteger("TUTTI_HOST_GONE_MS"));
  TUTTI_DEBUG("bootstrap", "a host that answers nothing for ", goneMs, " ms is gone");
  network = std::make_unique<SocketNetwork>(*reactor, timeoutMs > 0 ? std::min(timeoutMs, goneMs) : goneMs, notify);
  TUTTI_ASSIGN(const int64_t encrypts, configInteger("TUTTI_ENCRYPT"));
  if (const Status found = Gcm::available(); encrypts == 1 && !found.ok())
    return invalidUsage(ErrorCode::NotEncrypted, "TUTTI_ENCRYPT=1: ", found.text());
  bootstrap = std::make_unique<BootstrapNode>(*network, notify, encrypts == 1);
  network->setMachine(bootstrap.get());
  std::vector<SocketAddress> bound;
  Status problem;
  for (const SocketAddress& address : addresses) {
    Result<SocketAddress> listening = network->listen(address);
    if (listening.ok()) bound.push_back(*listening);
    if (!listening.ok() && address.port() != 0) return listening.status();
    if (!listening.ok() && problem.ok()) problem = listening.status();
  }
  if (bound.empty() && !addresses.empty()) return problem;
  controlAddress = makeControlAddress(bound, kControlAddressMostBytes);
  TUTTI_ASSIGN(fds, FdServer::create(*reactor));
  presence = {descriptorDomain(), fds->name()};
  return {};
}

Status Session::Impl::startThread() {
  // Signals belong to the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started = tutti::startThread("connections between ranks", [this] {
    nameOwnThread("tutti-io");
    run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  TUTTI_ASSIGN(thread, std::move(started));
  return {};
}

Session::~Session() {
  if (impl_->process != 0 && impl_->process != ::getpid()) {
    // A forked child: it has neither the thread nor, any more, the descriptors, and others may have their numbers.
    (void)impl_.release();  // NOLINT: leaked on purpose
    return;
  }
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->network->stopListening();
    impl_->placeSecret.reset();
    impl_->endNs = nowNs() + kLastWordsNs;
  }
  impl_->reactor->wake();
  impl_->thread.join();
}

// ---- The thread

void Session::Impl::run() {
  std::unique_lock lock(mutex);
  while (!mayEnd()) {
    try {
      turn(&lock);
    } catch (const std::exception&) {
      if (!lock.owns_lock()) lock.lock();
      giveUp();
    }
  }
}

void Session::Impl::turn(std::unique_lock<std::mutex>* lock) {
  sleepsUntil = nextTimerNs();
  // Only who is to wake early knows by how much it was late.
  if (!joins.empty() || bootstrap->meetingsWait()) sleepsUntil = std::min(sleepsUntil, nowNs() + kJoinLooksNs);
  lock->unlock();
  const std::vector<Reactor::Event>& events = reactor->wait(sleepsUntil);
  lock->lock();
  if (const int64_t lateNs = nowNs() - sleepsUntil; lateNs > 0) putOff(lateNs);
  sleepsUntil = 0;
  reactor->dispatch(events);
  network->deliver();
  onTimers();
}

/// The thread had no core, or the process was stopped: joins have not waited meanwhile, nor have those who meet here.
void Session::Impl::putOff(int64_t lateNs) {
  bootstrap->putOffMeetings(lateNs);
  for (auto& [member, deadlineNs] : joins) {
    if (deadlineNs != kNoTimer) bootstrap->putOff(member, deadlineNs += lateNs);
  }
}

// Memory ran out in the midst of a step, which nobody can repeat.  The communicators fail here, and the others hear of
// it if that much can still be said; if not, they see the connections close.
void Session::Impl::giveUp() {
  sleepsUntil = 0;
  outOfMemory = true;
  for (const Control::Impl* control : controls) {
    (void)caught([&]() -> Status {
      const int rank = control->request.rank;
      bootstrap->reportFailure(control->member,
                               {rank, remoteError(ErrorCode::NoMemory, "rank ", rank, " has no memory left")});
      return {};
    });
  }
  network->setMachine(&deaf);
  changed.notify_all();
  pauseBetweenLooks();  // it may be so for long
}

bool Session::Impl::mayEnd() const { return endNs != kNoTimer && (!network->flushing() || nowNs() >= endNs); }

void Session::Impl::onTimers() {
  network->onTimer();
  network->deliver();
  fds->onTimer();
  if (placeSecret != nullptr) placeSecret->onTimer();
  for (Control::Impl* control : controls) control->onTimer();
  if (!outOfMemory && bootstrap->nextTimerNs() <= nowNs()) bootstrap->onTimer();
  network->deliver();
  news = false;
  for (Control::Impl* control : controls) {
    control->tellFailure();
    control->tellGone();
    control->tellArrival();
  }
}

int64_t Session::Impl::nextTimerNs() const {
  int64_t next = std::min({network->nextTimerNs(), fds->nextTimerNs(), endNs});
  if (!outOfMemory) next = std::min(next, bootstrap->nextTimerNs());
  if (placeSecret != nullptr) next = std::min(next, placeSecret->nextTimerNs());
  for (const Control::Impl* control : controls) next = std::min(next, control->nextTimerNs());
  return next;
}

void Visit::wait(int64_t untilNs) {
  wakeThread();
  const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(untilNs));
  io_.changed.wait_until(lock_, until);
}

// ---- Calls

const ControlAddress& Session::controlAddress() const { return impl_->controlAddress; }

void Session::serveRendezvous(const CommId& commId, const Secret& secret, const std::string& where) {
  const Visit visit(*impl_);
  impl_->bootstrap->serveRendezvous(commId, secret, where);
}

void Session::rankEnded(const CommId& commId, int rank, const std::string& how) {
  const Visit visit(*impl_);
  impl_->bootstrap->rankEnded(commId, rank, how);
}

Status Session::servePlaceSecret(const CommId& commId, const Secret& secret) {
  const Visit visit(*impl_);
  TUTTI_ASSIGN(impl_->placeSecret, PlaceSecretServer::create(*impl_->reactor, commId, secret));
  return {};
}

bool Session::waitForRendezvous(const CommId& commId, Deadline deadline) {
  Visit visit(*impl_);
  while (!impl_->bootstrap->rendezvousDone(commId)) {
    if (deadline.passed() || impl_->meetingsEnded || impl_->outOfMemory) return false;
    visit.wait(std::min(deadline.ns(), nowNs() + 60'000 * kMs));
  }
  return true;
}

void Session::endRendezvous() {
  const Visit visit(*impl_);
  impl_->meetingsEnded = true;
  impl_->changed.notify_all();
}

Status Session::tell(const JoinRequest& given, const Failure& why, Deadline deadline) {
  JoinRequest request = given;
  if (request.secretOfUser) {
    TUTTI_ASSIGN(request.secret, fetchPlaceSecret(request.commId, request.rendezvous, deadline, nullptr));
  }
  Visit visit(*impl_);
  BootstrapNode& bootstrap = *impl_->bootstrap;
  const MemberId notice = bootstrap.tell(request, why);
  WaitTime time(deadline, nowNs());
  for (int64_t now = nowNs(); !bootstrap.told(notice); now = nowNs()) {
    (void)time.look(now);
    if (time.over()) break;
    visit.wait(now + time.pauseNs(kTellLooksNs));
  }
  const Status trouble = bootstrap.trouble(notice);
  const bool told = bootstrap.told(notice);
  bootstrap.forgetNotice(notice);
  if (told) return {};
  if (trouble.code() == tuttiInvalidUsage) return trouble;
  return timeoutError(ErrorCode::RendezvousSilent, "the rendezvous at ", request.rendezvous,
                      " cannot be told: ", trouble.ok() ? "it did not answer in time" : trouble.message());
}

Result<std::unique_ptr<Control>> Session::join(JoinRequest request, Deadline deadline,
                                               const std::atomic<uint32_t>* abort,
                                               std::function<void(const Failure&)> onFailure,
                                               const std::function<Status()>& whyAborted) {
  if (request.nRanks < 1)
    return invalidArgument(ErrorCode::RankOutOfRange, "a communicator of ", request.nRanks, " ranks");
  if (request.rank < 0 || request.rank >= request.nRanks) {
    return invalidArgument(ErrorCode::RankOutOfRange, "rank ", request.rank, " is outside 0..", request.nRanks - 1);
  }
  if (request.secretOfUser) {
    Result<Secret> secret = fetchPlaceSecret(request.commId, request.rendezvous, deadline, abort);
    if (!secret.ok()) return Status(secret.status().code(), cat("rank ", request.rank, " ", secret.status().text()));
    request.secret = *secret;
  }
  std::unique_ptr<Control> control(new Control);
  control->impl_ = std::make_unique<Control::Impl>(shared_from_this());
  Control::Impl& c = *control->impl_;
  c.request = std::move(request);
  if (c.request.nRanks == 1) closeRendezvousPlace(c.request.commId);
  c.request.self = impl_->controlAddress;
  c.request.info = wrapInfo(impl_->presence, c.request.info);
  c.request.deadlineNs = deadline.ns();
  c.abort = abort;
  Status up = c.comeUp(deadline, whyAborted);
  if (up.code() == tuttiInvalidUsage && c.request.secretOfUser) {
    // The secret may have been that of an earlier job, whose place was closing.
    const Result<Secret> now = fetchPlaceSecret(c.request.commId, c.request.rendezvous, deadline, abort);
    if (now.ok() && !(*now == c.request.secret)) {
      c.request.secret = *now;
      up = c.comeUp(deadline, whyAborted);
    }
  }
  TUTTI_TRY(up);
  const Visit visit(*impl_);
  c.onFailure = std::move(onFailure);
  impl_->news = true;  // so that a failure since then is told
  return control;
}

}  // namespace tutti

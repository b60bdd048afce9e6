// The polled calls of a communicator's control plane: descriptors, streams, all-gathers.
#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/clock.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/session/session_impl.hpp"

namespace tutti {
namespace {

constexpr int64_t kSummonNs = 2 * kMs;  // for a peer to open its end of a stream by itself
constexpr int64_t kNewsNs = 500 * kMs;  // for the news of why a peer's socket is gone
constexpr int64_t kLookNs = 20'000;     // between two looks at what is polled
constexpr int64_t kPollNs = 1 * kMs;    // between two calls of poll() by a rank that has a core, at most
// For a verdict that always comes: the Session's thread may have to wait long for a core among many ranks.
constexpr int64_t kLateVerdictNs = 30'000 * kMs;

/// look(now), and look.end() where there is one, with the lock; seldom enough that those who spin do not keep the
/// Session's thread from it.
template <class T, class Look>
class Polled final : public Pending<T> {
 public:
  Polled(Control::Impl& control, Look look) : control_(control), look_(std::move(look)) {
    const Visit visit(control_.io);
    ++control_.polled;
  }
  ~Polled() override {
    const Visit visit(control_.io);
    if constexpr (requires { look_->end(); }) look_->end();
    look_.reset();
    --control_.polled;
  }
  Result<T> poll() override {
    const int64_t now = nowNs();
    if (now < nextLookNs_) return T();
    nextLookNs_ = now + kLookNs;
    const Visit visit(control_.io);
    TUTTI_TRY(control_.over());
    return (*look_)(now);
  }

 private:
  Control::Impl& control_;
  std::optional<Look> look_;
  int64_t nextLookNs_ = 0;
};

template <class T, class Look>
std::unique_ptr<Pending<T>> polled(Control::Impl& control, Look look) {
  return std::make_unique<Polled<T, Look>>(control, std::move(look));
}

PendingFd failing(Control::Impl& control, Status why) {
  return polled<Fd>(control, [why = std::move(why)](int64_t) -> Result<Fd> { return why; });
}

}  // namespace

Status Control::serve(const std::string& key, int fd) {
  const Visit visit(impl_->io);
  return impl_->io.fds->serve(impl_->request.commId, key, fd);
}

void Control::unserve(const std::string& key) {
  const Visit visit(impl_->io);
  impl_->io.fds->unserve(impl_->request.commId, key);
}

void Control::setOnArrival(std::function<void()> onArrival) {
  const Visit visit(impl_->io);
  impl_->onArrival = std::move(onArrival);
}

void Control::Impl::tellArrival() {
  if (polled > 0 && onArrival) onArrival();
}

Status Control::Impl::over() const {
  TUTTI_TRY(failure());
  return abort != nullptr && abort->load(std::memory_order_relaxed) != 0 ? aborted() : Status();
}

PendingFd Control::fetch(int peer, const std::string& key) {
  const JoinRequest& me = impl_->request;
  if (peer < 0 || peer >= me.nRanks)
    return failing(*impl_, invalidArgument(ErrorCode::RankOutOfRange, "peer ", peer, " is outside 0..", me.nRanks - 1));
  const Presence& there = impl_->presences[static_cast<size_t>(peer)];
  if (there.domain.empty() || there.domain != impl_->presences[static_cast<size_t>(me.rank)].domain) {
    return failing(*impl_,
                   systemError(ErrorCode::NamespacesDiffer, "rank ", peer, " cannot hand descriptors to rank ", me.rank,
                               ": they are not in the same network namespace of one host, or TUTTI_HOSTID "
                               "tells them apart"));
  }
  const auto arrived = [&io = impl_->io] {
    io.news = true;
    io.changed.notify_all();
  };
  auto fetching =
      std::make_unique<FdFetch>(*impl_->io.reactor, FdRequest{there.unixName, me.commId, me.secret, key}, arrived);
  int64_t newsUntilNs = 0;
  return polled<Fd>(*impl_, [=, rank = me.rank, fetching = std::move(fetching)](int64_t now) mutable -> Result<Fd> {
    Result<Fd> fetched = fetching->poll();
    if (fetched.ok() || fetched.status().code() != tuttiRemoteError) return fetched;
    // Why its socket is gone may be known soon, and better.
    if (newsUntilNs == 0) newsUntilNs = now + kNewsNs;
    if (now < newsUntilNs) return Fd();
    return remoteError(ErrorCode::PeerMemoryGone, "rank ", rank, " cannot fetch '", key, "' from rank ", peer, ": ",
                       fetched.status().text());
  });
}

PendingFd Control::open(int peer, StreamIndex index) {
  const JoinRequest& me = impl_->request;
  if (peer < 0 || peer >= me.nRanks || peer == me.rank || index < 0) {
    return failing(*impl_, invalidArgument(ErrorCode::RankOutOfRange, "rank ", me.rank, " of ", me.nRanks,
                                           " cannot open stream ", index, " to rank ", peer));
  }
  const bool dials = me.rank < peer;
  {
    const Visit visit(impl_->io);
    if (dials && impl_->over().ok()) impl_->io.bootstrap->dialStream(impl_->member, peer, index);
  }
  const int64_t summonNs = nowNs() + kSummonNs;
  bool asked = dials;
  return polled<Fd>(*impl_, [=, control = impl_.get()](int64_t now) mutable -> Result<Fd> {
    Fd stream = control->takeStream(peer, index);
    if (!stream.valid() && now >= summonNs && !std::exchange(asked, true)) {
      control->io.bootstrap->summonStream(control->member, peer, index);
    }
    return stream;
  });
}

Result<Fd> Control::opened(int peer, StreamIndex index) {
  const Visit visit(impl_->io);
  TUTTI_TRY(impl_->over());
  return impl_->takeStream(peer, index);
}

Fd Control::Impl::takeStream(int peer, StreamIndex index) {
  SocketNetwork::Stream stream = io.network->takeStream(BootstrapNode::streamKey(request.commId, peer, index));
  if (stream.fd.valid()) streamKeys[{peer, index}] = stream.keys;
  return std::move(stream.fd);
}

DirectionKeys Control::keysOf(int peer, StreamIndex index) {
  const Visit visit(impl_->io);
  const auto found = impl_->streamKeys.find({peer, index});
  if (found == impl_->streamKeys.end()) return {};
  const DirectionKeys keys = found->second;
  impl_->streamKeys.erase(found);
  return keys;
}

int Control::nPaths() const { return impl_->io.nPaths; }

std::unique_ptr<Pending<Blobs>> Control::beginAllGather(std::string blob) {
  uint64_t number = 0;
  {
    const Visit visit(impl_->io);
    if (impl_->failure().ok()) number = impl_->io.bootstrap->allGather(impl_->member, std::move(blob));
  }
  return polled<Blobs>(*impl_, [number, control = impl_.get()](int64_t) -> Result<Blobs> {
    const std::vector<std::string>* blobs = control->io.bootstrap->gathered(control->member, number);
    if (blobs == nullptr) return Blobs();
    Blobs result{*blobs};
    control->io.bootstrap->forget(control->member, number);
    return result;
  });
}

std::vector<std::optional<RankReport>> Control::lastAnswers() const {
  const Visit visit(impl_->io);
  return impl_->io.bootstrap->lastAnswers(impl_->member);
}

namespace {

/// The verdict of an inquiry, which is withdrawn when nobody waits for it any more.
struct VerdictLook {
  Control::Impl* control;
  bool mayFindNothing;
  WaitTime time;

  Result<bool> operator()(int64_t now) {
    BootstrapNode& bootstrap = *control->io.bootstrap;
    if (const int64_t lateNs = time.look(now); lateNs > 0) bootstrap.putOffVerdict(control->member, lateNs);
    (void)time.pauseNs(kPollNs);
    return time.over() || (mayFindNothing && !bootstrap.inquiryPending(control->member));
  }
  void end() { control->io.bootstrap->withdrawInquiry(control->member); }
};

}  // namespace

std::unique_ptr<Pending<bool>> Control::beginInquiry(InquiryReason reason, uint64_t sequence, int suspect,
                                                     int graceMs) {
  const int64_t graceNs = std::max(graceMs, 1) * kMs;
  {
    const Visit visit(impl_->io);
    impl_->io.bootstrap->inquire(impl_->member, reason, sequence, suspect, graceNs);
  }
  const bool looks = reason == InquiryReason::Stalled;
  WaitTime time(Deadline::at(nowNs() + graceNs + (looks ? kVerdictNs : kLateVerdictNs)), nowNs());
  (void)time.pauseNs(kPollNs);
  return polled<bool>(*impl_, VerdictLook{impl_.get(), looks, time});
}

}  // namespace tutti

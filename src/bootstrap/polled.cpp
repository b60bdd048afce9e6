// What of a communicator's control plane is polled: descriptors, streams, all-gathers.
#include <utility>

#include "src/base/clock.hpp"
#include "src/bootstrap/session_impl.hpp"

namespace tutti {
namespace {

constexpr int64_t kSummonNs = 2 * kMs;  // for a peer to open its end of a stream by itself
constexpr int64_t kNewsNs = 500 * kMs;  // for the news of why a peer's socket is gone
constexpr int64_t kLookNs = 20'000;     // between two looks at what is polled

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

namespace {

/// Looks seldom enough that those who spin do not keep the Session's thread from its lock.
template <class T>
class Polled : public Pending<T> {
 public:
  explicit Polled(Control::Impl& control) : control_(control) {
    const Visit visit(control_.io);
    ++control_.polled;
  }
  ~Polled() override {
    const Visit visit(control_.io);
    --control_.polled;
  }
  Result<T> poll() final {
    const int64_t now = nowNs();
    if (now < nextLookNs_) return T();
    nextLookNs_ = now + kLookNs;
    const Visit visit(control_.io);
    TUTTI_TRY(control_.over());
    return look(now);
  }

 protected:
  virtual Result<T> look(int64_t now) = 0;
  Control::Impl& control_;

 private:
  int64_t nextLookNs_ = 0;
};

class PolledFetch final : public Polled<Fd> {
 public:
  PolledFetch(Control::Impl& control, int peer, const std::string& key)
      : Polled(control), peer_(peer), key_(key), begun_(begin()) {}
  ~PolledFetch() override {
    const Visit visit(control_.io);
    fetch_.reset();
  }

 private:
  Status begin() {
    const JoinRequest& me = control_.request;
    if (peer_ < 0 || peer_ >= me.nRanks) return invalidArgument("peer ", peer_, " is outside 0..", me.nRanks - 1);
    const Presence& there = control_.presences[static_cast<size_t>(peer_)];
    if (there.domain.empty() || there.domain != control_.presences[static_cast<size_t>(me.rank)].domain) {
      return systemError("rank ", peer_, " cannot hand descriptors to rank ", me.rank,
                         ": they are not in the same network namespace of one host, or TUTTI_HOSTID tells them apart");
    }
    const auto arrived = [&io = control_.io] {
      io.news = true;
      io.changed.notify_all();
    };
    const Visit visit(control_.io);
    fetch_ =
        std::make_unique<FdFetch>(*control_.io.reactor, FdRequest{there.unixName, me.commId, me.secret, key_}, arrived);
    return {};
  }

  Result<Fd> look(int64_t now) override {
    TUTTI_TRY(begun_);
    Result<Fd> fetched = fetch_->poll();
    if (fetched.ok() || fetched.status().code() != tuttiRemoteError) return fetched;
    // Why its socket is gone may be known soon, and better.
    if (newsUntilNs_ == 0) newsUntilNs_ = now + kNewsNs;
    if (now < newsUntilNs_) return Fd();
    return remoteError("rank ", control_.request.rank, " cannot fetch '", key_, "' from rank ", peer_, ": ",
                       fetched.status().message());
  }

  const int peer_;
  const std::string key_;
  std::unique_ptr<FdFetch> fetch_;
  const Status begun_;
  int64_t newsUntilNs_ = 0;
};

class PolledStream final : public Polled<Fd> {
 public:
  PolledStream(Control::Impl& control, int peer, int index)
      : Polled(control), peer_(peer), index_(index), summonNs_(nowNs() + kSummonNs) {
    const JoinRequest& me = control_.request;
    const Visit visit(control_.io);
    valid_ = peer >= 0 && peer < me.nRanks && peer != me.rank && index >= 0;
    if (valid_ && me.rank < peer && control_.over().ok())
      control_.io.bootstrap->dialStream(control_.member, peer, index);
    summoned_ = me.rank < peer;
  }

 private:
  Result<Fd> look(int64_t now) override {
    const JoinRequest& me = control_.request;
    if (!valid_) {
      return invalidArgument("rank ", me.rank, " of ", me.nRanks, " cannot open stream ", index_, " to rank ", peer_);
    }
    Fd stream = control_.io.network->takeStream(BootstrapNode::streamKey(me.commId, peer_, index_));
    if (!stream.valid() && now >= summonNs_ && !std::exchange(summoned_, true)) {
      control_.io.bootstrap->summonStream(control_.member, peer_, index_);
    }
    return stream;
  }

  const int peer_;
  const int index_;
  const int64_t summonNs_;
  bool valid_ = false;
  bool summoned_ = false;  // or dialed
};

class PolledGather final : public Polled<Blobs> {
 public:
  PolledGather(Control::Impl& control, std::string blob) : Polled(control) {
    const Visit visit(control_.io);
    if (control_.failure().ok()) number_ = control_.io.bootstrap->allGather(control_.member, std::move(blob));
  }

 private:
  Result<Blobs> look(int64_t) override {
    const std::vector<std::string>* blobs = control_.io.bootstrap->gathered(control_.member, number_);
    if (blobs == nullptr) return Blobs();
    Blobs result{*blobs};
    control_.io.bootstrap->forget(control_.member, number_);
    return result;
  }
  uint64_t number_ = 0;
};

}  // namespace

PendingFd Control::fetch(int peer, const std::string& key) { return std::make_unique<PolledFetch>(*impl_, peer, key); }

PendingFd Control::open(int peer, int index) { return std::make_unique<PolledStream>(*impl_, peer, index); }

std::unique_ptr<Pending<Blobs>> Control::beginAllGather(std::string blob) {
  return std::make_unique<PolledGather>(*impl_, std::move(blob));
}

}  // namespace tutti

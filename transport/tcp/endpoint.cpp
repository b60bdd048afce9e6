#include "transport/tcp/endpoint.hpp"

#include "src/base/log.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti::tcp {
namespace {

constexpr size_t kMostRequests = kTcpRemote.mostRequests;  // of each direction

}  // namespace

TcpEndpoint::TcpEndpoint(int peer, int lane, std::vector<Fd> fds, size_t slotBytes, std::shared_ptr<FdSleeper> sleeper,
                         std::shared_ptr<EmptyLooks> looks, std::shared_ptr<Reopener> reopener, Tuning tuning,
                         const Sealing& sealing)
    : slotBytes_(slotBytes),
      looks_(std::move(looks)),
      reopener_(std::move(reopener)),
      sleeper_(std::move(sleeper)),
      sockets_(peer, lane, std::move(fds), reopener_, std::move(tuning), sealing),
      outgoing_(sockets_, slotBytes, *looks_),
      incoming_(sockets_, slotBytes) {
  for (int i = 0; i < sockets_.count(); ++i) watch(sockets_.fd(i), true);
  sockets_.onChange([this](int fd, bool open) {
    watch(fd, open);
    if (open) touch();
  });
  if (sleeper_ != nullptr) sleeper_->enter(this);
  if (reopener_ != nullptr) reopener_->add(this);
}

TcpEndpoint::~TcpEndpoint() {
  if (reopener_ != nullptr) reopener_->remove(this);
  sockets_.onChange(nullptr);
  for (int i = 0; i < sockets_.count(); ++i) watch(sockets_.fd(i), false);
  if (sleeper_ != nullptr) sleeper_->forget(this);
}

/// A socket is there, or about to be closed.
void TcpEndpoint::watch(int fd, bool open) {
  if (sleeper_ == nullptr || fd < 0) return;
  if (!open) return sleeper_->remove(fd);
  if (Status watched = sleeper_->add(fd, this); !watched.ok()) failure_ = std::move(watched);
}

bool TcpEndpoint::tick(int64_t nowNs) { return failure_.ok() && sockets_.tick(nowNs); }

void TcpEndpoint::touch() {
  incoming_.awake();
  becomeDue();
}

// What a call leaves unfinished, or lets in by taking what came before it, is progress()'s business from then on.
void TcpEndpoint::becomeDue() {
  if (!due_ && sleeper_ != nullptr) sleeper_->makeDue(this);
  due_ = true;
}

Result<bool> TcpEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  becomeDue();
  if (!failure_.ok()) return failure_;
  return remember(outgoing_.send(data, {bytes, call}));
}

Result<std::span<std::byte>> TcpEndpoint::reserve() {
  becomeDue();
  if (!failure_.ok()) return failure_;
  if (outgoing_.numPosted() > 0) TUTTI_TRY(goOn());
  return outgoing_.staging();
}

Result<bool> TcpEndpoint::commit(size_t bytes, const Fingerprint& call) {
  becomeDue();
  if (!failure_.ok()) return failure_;
  return remember(outgoing_.commit({bytes, call}));
}

Result<const std::byte*> TcpEndpoint::peek(const Expect& expect) {
  becomeDue();
  if (!failure_.ok()) return failure_;
  Result<const std::byte*> message = remember(incoming_.peek(expect, &seen_));
  if (message.ok() && *message == nullptr) looks_->fetch_add(1, std::memory_order_relaxed);
  return message;
}

Result<bool> TcpEndpoint::receive(std::byte* dst, const Expect& expect) {
  becomeDue();
  if (!failure_.ok()) return failure_;
  Result<bool> came = remember(incoming_.receive(dst, expect, &seen_));
  if (came.ok() && !*came) looks_->fetch_add(1, std::memory_order_relaxed);
  return came;
}

Result<Request> TcpEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  becomeDue();
  if (!failure_.ok()) return failure_;
  if (outgoing_.numPosted() >= kMostRequests) TUTTI_TRY(goOn());
  if (outgoing_.numPosted() >= kMostRequests) return Request{0};
  return remember(outgoing_.post(data, {bytes, call}));
}

Result<Request> TcpEndpoint::postReceive(std::byte* dst, const Expect& expect) {
  becomeDue();
  if (!failure_.ok()) return failure_;
  if (incoming_.numPosted() >= kMostRequests) TUTTI_TRY(goOn());
  if (incoming_.numPosted() >= kMostRequests) return Request{0};
  return kReceiveRequest | incoming_.post(dst, expect);
}

bool TcpEndpoint::isDone(Request request) const {
  if ((request & kReceiveRequest) != 0) return (request & ~kReceiveRequest) <= incoming_.done();
  return request <= outgoing_.done();
}

Result<bool> TcpEndpoint::test(Request request) {
  if (isDone(request)) return true;
  becomeDue();
  TUTTI_TRY(failure_);
  const Status status = goOn();
  if (isDone(request)) return true;
  TUTTI_TRY(status);
  if ((request & kReceiveRequest) != 0) looks_->fetch_add(1, std::memory_order_relaxed);
  return false;
}

// What has come is taken before the peer's end, which may show as an error of a write.
Status TcpEndpoint::goOn() {
  Result<bool> wrote = outgoing_.push();
  if (incoming_.numPosted() > 0) TUTTI_TRY(asStatus(remember(incoming_.serve(&seen_))));
  return asStatus(remember(std::move(wrote)));
}

void TcpEndpoint::cancel() {
  outgoing_.cancel();
  incoming_.cancel();
  if (failure_.ok()) failure_ = invalidUsage(ErrorCode::Finalized, "its requests on this endpoint have been cancelled");
}

Result<bool> TcpEndpoint::progress() {
  due_ = false;
  if (!failure_.ok()) return failure_;
  const bool polled = incoming_.polled();
  sockets_.serve();
  Result<bool> wrote = remember(outgoing_.push());
  if (!wrote.ok()) return wrote;
  incoming_.hurry();
  Result<bool> got = remember(incoming_.drain(&seen_));
  if (!got.ok()) return got;
  due_ = polled || *got || incoming_.numPosted() > 0 || outgoing_.busy();
  return *wrote || *got;
}

template <class T>
Result<T> TcpEndpoint::remember(Result<T> result) {
  if (!result.ok()) {
    failure_ = result.status();
    TUTTI_INFO("tcp", failure_.text());
  }
  return result;
}

}  // namespace tutti::tcp

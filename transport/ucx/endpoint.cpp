#include "transport/ucx/endpoint.hpp"

#include <utility>

#include "src/base/copy.hpp"
#include "src/base/log.hpp"
#include "transport/ucx/entry.hpp"

namespace tutti::ucx {
namespace {

constexpr size_t kMostPosted = kUcxRemote.mostRequests;  // receives

}  // namespace

UcxEndpoint::UcxEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Registry> registry)
    : ConnectionEndpoint(peer, std::move(connection)),
      registry_(std::move(registry)),
      mutex_(connection_->worker().mutex()) {
  const Lock lock(mutex_);
  connection_->worker().serve(this);
}

UcxEndpoint::~UcxEndpoint() {
  const Lock lock(mutex_);
  connection_->worker().leave(this);
  TUTTI_DEBUG("ucx", "to rank ", peer_, " went ", connection_->sent(), " messages, ", connection_->numLent(),
              " of them from registered memory");
}

Result<bool> UcxEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  const Lock lock(mutex_);
  return sendWhole(data, bytes, call);
}

Result<std::span<std::byte>> UcxEndpoint::reserve() {
  const Lock lock(mutex_);
  TUTTI_ASSIGN(const bool room, hasRoom(0));
  return room ? std::span(connection_->staging(), slotBytes()) : std::span<std::byte>();
}

Result<bool> UcxEndpoint::commit(size_t bytes, const Fingerprint& call) {
  const Lock lock(mutex_);
  return sendWhole(connection_->staging(), bytes, call);
}

bool UcxEndpoint::takes(const std::byte* data, size_t bytes) const {
  return bytes == 0 || registry_->find(data, bytes).has_value();
}

bool UcxEndpoint::hasLeft() const {
  const Lock lock(mutex_);
  return connection_->allSent();
}

Result<Request> UcxEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  const auto memory = bytes == 0 ? Keys() : registry_->find(data, bytes);
  if (!memory)
    return invalidUsage(ErrorCode::NotRegistered, "requests over ucx use registered memory; these ", bytes,
                        " bytes are not");
  const Lock lock(mutex_);
  TUTTI_ASSIGN(const bool room, hasRoom(bytes));
  if (!room) return Request{0};
  return connection_->lend(data, bytes, call, *memory);
}

Result<Request> UcxEndpoint::postReceive(std::byte* dst, const Expect& expect) {
  const auto memory = expect.bytes == 0 ? Keys() : registry_->find(dst, expect.bytes);
  if (!memory)
    return invalidUsage(ErrorCode::NotRegistered, "requests over ucx use registered memory; these ", expect.bytes,
                        " bytes are not");
  const Lock lock(mutex_);
  TUTTI_TRY(failure_);
  if (posted_.size() >= kMostPosted) TUTTI_TRY(serve());
  if (posted_.size() >= kMostPosted) return Request{0};
  posted_.push_back({dst, expect, *memory});
  return kReceiveRequest | (done_ + posted_.size());
}

bool UcxEndpoint::isDone(Request request) const {
  const bool receives = (request & kReceiveRequest) != 0;
  return receives ? (request & ~kReceiveRequest) <= done_ : connection_->areSent(request);
}

Result<bool> UcxEndpoint::test(Request request) {
  const Lock lock(mutex_);
  if (isDone(request)) return true;
  TUTTI_TRY(failure_);
  connection_->drive();
  const Status status = serve();
  if (isDone(request)) return true;
  TUTTI_TRY(status);
  const bool over = (request & kReceiveRequest) != 0 ? connection_->ended() : !connection_->trouble().ok();
  if (over) TUTTI_TRY(remember(connection_->trouble()));
  return false;
}

// What has come, into what has been posted for it.
Status UcxEndpoint::serve() {
  TUTTI_TRY(failure_);
  Status odd;
  while (begun_ < posted_.size() && taken_ + begun_ < connection_->arrived()) {
    const Posted& next = posted_.begin()[begun_];
    odd = check(taken_ + begun_, next.expect);
    if (!odd.ok()) break;
    if (isFetched(next, taken_ + begun_)) connection_->fetch(taken_ + begun_, next.dst, next.memory);
    ++begun_;
  }
  while (begun_ > 0) {
    const Posted& next = posted_.front();
    if (isFetched(next, taken_)) {
      const Result<bool> fetched = connection_->isFetched(taken_);
      TUTTI_TRY(remember(fetched.status()));
      if (!*fetched) break;
    } else if (next.expect.bytes > 0) {
      copyPiece(next.dst, connection_->payload(taken_), next.expect.bytes, next.expect.touchedBytes);
    }
    ++taken_;
    connection_->giveBack();
    posted_.pop_front();
    --begun_;
    ++done_;
  }
  return begun_ == 0 ? remember(std::move(odd)) : Status();  // it is said when those before it are done
}

Result<const std::byte*> UcxEndpoint::peekLocked(const Expect& expect) {
  static constexpr std::byte kNothing{};
  constexpr const std::byte* kNotYet = nullptr;
  TUTTI_TRY(failure_);
  if (taken_ == connection_->arrived() || !posted_.empty() || fetches_) connection_->drive();
  TUTTI_TRY(serve());
  if (!posted_.empty()) return kNotYet;
  if (taken_ == connection_->arrived()) {
    if (connection_->ended()) TUTTI_TRY(remember(connection_->trouble()));
    return kNotYet;
  }
  TUTTI_TRY(remember(check(taken_, expect)));
  if (connection_->isLent(taken_)) {
    if (!std::exchange(fetches_, true)) connection_->fetch(taken_, nullptr, {});
    const Result<bool> fetched = connection_->isFetched(taken_);
    TUTTI_TRY(remember(fetched.status()));
    if (!*fetched) return kNotYet;
  }
  held_ = true;
  return expect.bytes == 0 ? &kNothing : connection_->payload(taken_);
}

Result<const std::byte*> UcxEndpoint::peek(const Expect& expect) {
  const Lock lock(mutex_);
  return peekLocked(expect);
}

void UcxEndpoint::releaseLocked() {
  if (!std::exchange(held_, false)) return;
  fetches_ = false;
  ++taken_;
  connection_->giveBack();
}

void UcxEndpoint::release() {
  const Lock lock(mutex_);
  releaseLocked();
}

Result<bool> UcxEndpoint::receive(std::byte* dst, const Expect& expect) {
  const Lock lock(mutex_);
  TUTTI_ASSIGN(const std::byte* message, peekLocked(expect));
  if (message == nullptr) return false;
  if (expect.bytes > 0) copyPiece(dst, message, expect.bytes, expect.touchedBytes);
  releaseLocked();
  return true;
}

void UcxEndpoint::cancel() {
  const Lock lock(mutex_);
  connection_->end();
  posted_.clear();
  begun_ = 0;
  (void)remember(connection_->trouble());
}

std::optional<Fingerprint> UcxEndpoint::pending() const {
  const Lock lock(mutex_);
  if (taken_ >= connection_->arrived()) return std::nullopt;
  return connection_->header(taken_).call;
}

void UcxEndpoint::goOn(bool some) {
  if (!failure_.ok()) return;
  connection_->react(some);
  if (!posted_.empty()) (void)serve();
}

void UcxEndpoint::beforeSleep() {
  connection_->lookAtStream();
  goOn(true);
}

}  // namespace tutti::ucx

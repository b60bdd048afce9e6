#include "transport/ncclnet/endpoint.hpp"

#include <cstring>
#include <utility>

#include "src/base/copy.hpp"
#include "src/base/log.hpp"
#include "transport/ncclnet/entry.hpp"

namespace tutti::ncclnet {

NcclnetEndpoint::NcclnetEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Endpoints> all,
                                 std::shared_ptr<Registry> registry)
    : ConnectionEndpoint(peer, std::move(connection)), all_(std::move(all)), registry_(std::move(registry)) {
  all_->add(this);
}

NcclnetEndpoint::~NcclnetEndpoint() {
  all_->remove(this);
  TUTTI_DEBUG("ncclnet", "to rank ", peer_, " went ", connection_->sent(), " messages");
}

Result<bool> NcclnetEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!connection_->payloadsApart()) return sendWhole(data, bytes, call);
  TUTTI_ASSIGN(const bool room, hasRoom(bytes));
  if (!room) return false;
  (void)connection_->send(data, bytes, call);
  connection_->drive();
  return true;
}

std::shared_ptr<Region> NcclnetEndpoint::find(const std::byte* data, size_t bytes) const {
  if (registry_ == nullptr) return nullptr;
  const auto region = registry_->find(data, bytes);
  return region && connection_->takes(*region) ? *region : nullptr;
}

// A rank on a device posts what adapters know; its messages to ranks on the CPU pass through slots.
bool NcclnetEndpoint::takes(const std::byte* data, size_t bytes) const {
  return registry_ == nullptr || bytes == 0 || find(data, bytes) != nullptr;
}

Status NcclnetEndpoint::notRegistered(size_t bytes) {
  return invalidUsage(ErrorCode::NotRegistered,
                      "requests over ncclnet between ranks on devices use registered memory; these ", bytes,
                      " bytes are not");
}

Result<std::span<std::byte>> NcclnetEndpoint::reserve() {
  TUTTI_ASSIGN(const bool room, hasRoom(0));
  return room ? std::span(connection_->staging(), slotBytes()) : std::span<std::byte>();
}

Result<bool> NcclnetEndpoint::commit(size_t bytes, const Fingerprint& call) {
  return send(connection_->staging(), bytes, call);
}

Result<Request> NcclnetEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_ASSIGN(const bool room, hasRoom(bytes));
  if (!room) return Request{0};
  const bool apart = connection_->payloadsApart() && bytes > 0;
  const std::shared_ptr<Region> region = apart ? find(data, bytes) : nullptr;
  if (apart && region == nullptr) return notRegistered(bytes);
  const Request request = apart ? connection_->lend(data, bytes, call, *region) : connection_->send(data, bytes, call);
  connection_->drive();
  return request;
}

Result<Request> NcclnetEndpoint::postReceive(std::byte* dst, const Expect& expect) {
  TUTTI_TRY(failure_);
  if (posted_.size() >= kNcclnetRemote.mostRequests) TUTTI_TRY(serve());
  if (posted_.size() >= kNcclnetRemote.mostRequests) return Request{0};
  const bool apart = connection_->payloadsApart() && expect.bytes > 0;
  std::shared_ptr<Region> region = apart ? find(dst, expect.bytes) : nullptr;
  if (apart && region == nullptr) return notRegistered(expect.bytes);
  posted_.push_back({dst, expect, std::move(region)});
  return kReceiveRequest | (done_ + posted_.size());
}

bool NcclnetEndpoint::isDone(Request request) const {
  const bool receives = (request & kReceiveRequest) != 0;
  return receives ? (request & ~kReceiveRequest) <= done_ : request <= connection_->sent();
}

Result<bool> NcclnetEndpoint::test(Request request) {
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
Status NcclnetEndpoint::serve() {
  TUTTI_TRY(failure_);
  Status odd;
  while (begun_ < posted_.size() && taken_ + begun_ < connection_->arrived()) {
    const Posted& next = posted_[begun_];
    odd = check(taken_ + begun_, next.expect);
    if (!odd.ok()) break;
    if (connection_->isApart(taken_ + begun_)) connection_->fetch(taken_ + begun_, next.dst, next.region.get());
    ++begun_;
  }
  while (begun_ > 0) {
    const Posted& next = posted_.front();
    if (connection_->isApart(taken_)) {
      if (!connection_->isFetched(taken_)) break;
    } else if (next.expect.bytes > 0) {
      copyPiece(next.dst, connection_->payload(taken_), next.expect.bytes, next.expect.touchedBytes);
    }
    taken();
    posted_.pop_front();
    --begun_;
    ++done_;
  }
  return begun_ == 0 ? remember(std::move(odd)) : Status();  // it is said when those before it are done
}

void NcclnetEndpoint::taken() {
  const uint64_t messages = taken_.load(std::memory_order_relaxed) + 1;
  taken_.store(messages, std::memory_order_release);
  connection_->giveBack(messages);
}

Result<const std::byte*> NcclnetEndpoint::peek(const Expect& expect) {
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
  if (connection_->isApart(taken_)) {
    if (!std::exchange(fetches_, true)) {
      connection_->fetch(taken_, nullptr, nullptr);
      connection_->drive();
    }
    if (!connection_->isFetched(taken_)) {
      if (connection_->ended()) TUTTI_TRY(remember(connection_->trouble()));
      return kNotYet;
    }
  }
  held_ = true;
  return connection_->payload(taken_);
}

void NcclnetEndpoint::release() {
  if (!std::exchange(held_, false)) return;
  fetches_ = false;
  taken();
}

Result<bool> NcclnetEndpoint::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const std::byte* message, peek(expect));
  if (message == nullptr) return false;
  if (expect.bytes > 0) copyPiece(dst, message, expect.bytes, expect.touchedBytes);
  release();
  return true;
}

// Plugins use the slots' memory, and that of payloads, which they lose here.
void NcclnetEndpoint::cancel() {
  connection_->end();
  posted_.clear();
  begun_ = 0;
  (void)remember(connection_->trouble());
}

std::optional<Fingerprint> NcclnetEndpoint::pending() const {
  const uint64_t message = taken_.load(std::memory_order_acquire);
  if (message >= connection_->arrived()) return std::nullopt;
  const volatile Header& header = connection_->header(message);
  const Fingerprint call{header.call.head, header.call.count};
  return taken_.load(std::memory_order_acquire) == message ? std::optional(call) : std::nullopt;
}

bool NcclnetEndpoint::goOn() {
  const bool moved = connection_->drive();
  if (!posted_.empty()) (void)serve();
  return moved;
}

}  // namespace tutti::ncclnet

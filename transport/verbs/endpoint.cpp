#include "transport/verbs/endpoint.hpp"

#include <cstring>

#include "src/base/log.hpp"
#include "transport/mismatch.hpp"
#include "transport/verbs/entry.hpp"

namespace tutti::verbs {
namespace {

constexpr size_t kMostPosted = kVerbsRemote.mostRequests;  // receives
/// Two copies of so much cost less than the way there and back.
constexpr size_t kMostCopiedBytes = 4096;
constexpr uint32_t kMissesPerLook = 8;
constexpr uint64_t kSendsPerLook = 8;

}  // namespace

VerbsEndpoint::VerbsEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Registry> registry)
    : peer_(peer),
      connection_(std::move(connection)),
      registry_(std::move(registry)),
      sender_({connection_.get()}, connection_->slots()) {
  connection_->completions().serve(this);
}

VerbsEndpoint::~VerbsEndpoint() {
  connection_->completions().leave(this);
  TUTTI_DEBUG("verbs", "to rank ", peer_, " went ", sent_, " messages, ", numLent_,
              " of them straight from where they lay");
}

Status VerbsEndpoint::remember(Status status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  return status;
}

Result<bool> VerbsEndpoint::look() {
  TUTTI_TRY(failure_);
  return connection_->poll();
}

Result<std::optional<uint64_t>> VerbsEndpoint::claim(size_t bytes) {
  TUTTI_TRY(failure_);
  if (bytes > slotBytes())
    return internalError(ErrorCode::MessageTooLarge, "a message of ", bytes, " bytes for slots of ", slotBytes());
  const auto there = [this] { return connection_->hasRoom() && sender_.claim(); };
  if (sent_ % kSendsPerLook == 0 || !there()) connection_->poll();
  TUTTI_TRY(remember(connection_->trouble()));
  return there() ? std::optional(sent_) : std::nullopt;
}

Status VerbsEndpoint::sentOne(Status how) {
  TUTTI_TRY(remember(std::move(how)));
  sent_ = sender_.publish();
  return {};
}

Result<bool> VerbsEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_ASSIGN(const std::optional<uint64_t> message, claim(bytes));
  if (!message) return false;
  TUTTI_TRY(sentOne(connection_->send(*message, data, bytes, call)));
  return true;
}

Result<std::span<std::byte>> VerbsEndpoint::reserve() {
  TUTTI_ASSIGN(const std::optional<uint64_t> message, claim(0));
  if (!message) return std::span<std::byte>();
  return std::span(connection_->staging(*message), slotBytes());
}

Result<bool> VerbsEndpoint::commit(size_t bytes, const Fingerprint& call) {
  return send(connection_->staging(sent_), bytes, call);
}

bool VerbsEndpoint::takes(const std::byte* data, size_t bytes) const {
  return bytes == 0 || registry_->find(data, bytes).has_value();
}

Result<Request> VerbsEndpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_TRY(failure_);
  const auto keys = bytes == 0 ? Keys() : registry_->find(data, bytes);
  if (!keys)
    return invalidUsage(ErrorCode::NotRegistered, "requests over verbs use registered memory; these ", bytes,
                        " bytes are not");
  TUTTI_ASSIGN(const std::optional<uint64_t> message, claim(bytes));
  if (!message) return Request{0};
  if (bytes <= kMostCopiedBytes && !keys->onDevice) {
    TUTTI_TRY(sentOne(connection_->send(*message, data, bytes, call)));
  } else {
    TUTTI_TRY(sentOne(connection_->lend(*message, data, bytes, call, *keys)));
    lent_.push_back(sent_);
    ++numLent_;
  }
  return Request{sent_};
}

Result<Request> VerbsEndpoint::postReceive(std::byte* dst, const Expect& expect) {
  TUTTI_TRY(failure_);
  const auto keys = expect.bytes == 0 ? Keys() : registry_->find(dst, expect.bytes);
  if (!keys)
    return invalidUsage(ErrorCode::NotRegistered, "requests over verbs use registered memory; these ", expect.bytes,
                        " bytes are not");
  if (posted_.size() >= kMostPosted) TUTTI_TRY(serve());
  if (posted_.size() >= kMostPosted) return Request{0};
  posted_.push_back({dst, expect, *keys});
  return kReceiveRequest | (done_ + posted_.size());
}

// Done in order: a message that was copied waits for those before it that are lent.
bool VerbsEndpoint::isDone(Request request) {
  if ((request & kReceiveRequest) != 0) return (request & ~kReceiveRequest) <= done_;
  while (!lent_.empty() && sender_.isReleased(lent_.front())) lent_.pop_front();
  return lent_.empty() || request < lent_.front();
}

Result<bool> VerbsEndpoint::test(Request request) {
  if (isDone(request)) return true;
  TUTTI_TRY(asStatus(look()));
  const Status status = serve();
  if (isDone(request)) return true;
  TUTTI_TRY(status);
  TUTTI_TRY(remember(connection_->trouble()));
  return false;
}

// As far as the messages have come and the adapter takes orders.
Status VerbsEndpoint::serve() {
  TUTTI_TRY(failure_);
  Status odd;
  while (odd.ok() && begun_ < posted_.size()) {
    const uint64_t message = taken_.load(std::memory_order_relaxed) + begun_;
    if (!connection_->has(message)) break;
    Posted* const next = posted_.begin() + begun_;
    const bool reads = connection_->header(message).lent != 0 || next->keys.onDevice;
    if (reads && (!connection_->hasRoom() || !connection_->trouble().ok())) break;
    odd = begin(next, message);
    if (odd.ok()) ++begun_;
  }
  while (begun_ > 0 && (!posted_.front().isRead || connection_->isFetched(taken_.load(std::memory_order_relaxed)))) {
    taken(posted_.front().isRead);
    posted_.pop_front();
    --begun_;
    ++done_;
  }
  return begun_ == 0 ? remember(std::move(odd)) : Status();  // it is said when those before it are done
}

Status VerbsEndpoint::begin(Posted* next, uint64_t message) {
  TUTTI_TRY(check(message, next->expect));
  if (connection_->header(message).lent != 0) {
    TUTTI_TRY(connection_->fetch(message, next->expect.bytes, next->dst, next->keys));
    next->isRead = true;
  } else if (next->keys.onDevice) {
    TUTTI_TRY(connection_->fetchStaged(message, next->expect.bytes, next->dst, next->keys));
    next->isRead = true;
  } else if (next->expect.bytes > 0) {
    std::memcpy(next->dst, connection_->payload(message), next->expect.bytes);
  }
  return {};
}

Status VerbsEndpoint::check(uint64_t message, const Expect& expect) {
  const Header header = connection_->header(message);
  if (header.bytes > slotBytes())
    return remoteError(ErrorCode::Malformed, "rank ", peer_, " sent ", header.bytes, " bytes in a slot");
  const Status as = checkExpected(peer_, expect, header.bytes, header.call);
  if (!as.ok()) seen_ = header.call;
  return as;
}

void VerbsEndpoint::taken(bool lent) {
  const uint64_t messages = taken_.load(std::memory_order_relaxed) + 1;
  taken_.store(messages, std::memory_order_relaxed);
  connection_->giveBack(messages, lent);
}

Result<const std::byte*> VerbsEndpoint::peek(const Expect& expect) { return next(expect, nullptr); }

Result<const std::byte*> VerbsEndpoint::next(const Expect& expect, std::byte* dst) {
  constexpr const std::byte* kNotYet = nullptr;
  TUTTI_TRY(failure_);
  const uint64_t message = taken_.load(std::memory_order_relaxed);
  const bool here = posted_.empty() && connection_->has(message);
  if (here && connection_->header(message).lent == 0) return found(expect, dst);
  // What is found in its slot needs no look at what completes, which takes longer; that is for the rest, now and then.
  const bool inSlot = connection_->isFoundInSlot(expect.bytes) && !connection_->mayComeBare(expect.bytes);
  if (posted_.empty() && !here && inSlot && ++misses_ % kMissesPerLook != 0) {
    connection_->completions().lookedElsewhere();
    return kNotYet;
  }
  TUTTI_ASSIGN(const bool some, look());
  if (!some && posted_.empty() && !connection_->has(message) && connection_->trouble().ok()) return kNotYet;
  TUTTI_TRY(serve());
  if (!posted_.empty()) return kNotYet;
  if (connection_->has(taken_.load(std::memory_order_relaxed))) return found(expect, dst);
  TUTTI_TRY(remember(connection_->trouble()));
  return kNotYet;
}

Result<const std::byte*> VerbsEndpoint::found(const Expect& expect, std::byte* dst) {
  constexpr const std::byte* kNotYet = nullptr;
  const uint64_t message = taken_.load(std::memory_order_relaxed);
  TUTTI_TRY(remember(check(message, expect)));
  if (connection_->header(message).lent != 0) {
    const bool mayFetch = message < connection_->confirmed() && connection_->hasRoom();
    if (!fetching_ && mayFetch && connection_->trouble().ok()) {
      const auto keys = dst == nullptr ? std::nullopt : registry_->find(dst, expect.bytes);
      into_ = keys ? dst : nullptr;
      TUTTI_TRY(connection_->fetch(message, expect.bytes, into_, keys.value_or(Keys())));
      fetching_ = true;
    }
    if (!fetching_ || !connection_->isFetched(message)) {
      TUTTI_TRY(remember(connection_->trouble()));
      return kNotYet;
    }
  }
  held_ = true;
  return into_ != nullptr ? into_ : static_cast<const std::byte*>(connection_->payload(message));
}

void VerbsEndpoint::release() {
  // Given up while the adapter reads it to its place, which is the caller's again from here on.
  if (!held_ && into_ != nullptr) return cancel();
  if (!held_) return;
  held_ = false;
  taken(fetching_);
  fetching_ = false;
  into_ = nullptr;
}

Result<bool> VerbsEndpoint::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const std::byte* message, next(expect, dst));
  if (message == nullptr) return false;
  if (expect.bytes > 0 && message != dst) std::memcpy(dst, message, expect.bytes);
  release();
  return true;
}

void VerbsEndpoint::cancel() {
  connection_->end();
  (void)remember(connection_->trouble());
}

// From the slot's memory: what the adapter has told may only be taken from its queue by the thread of the endpoints.
std::optional<Fingerprint> VerbsEndpoint::pending() const {
  const uint64_t message = taken_.load(std::memory_order_relaxed);
  auto& header = const_cast<Header&>(connection_->header(message));
  const uint32_t number = std::atomic_ref(header.number).load(std::memory_order_acquire);
  if (number != static_cast<uint32_t>(message + 1)) return std::nullopt;
  const Fingerprint call{std::atomic_ref(header.call.head).load(std::memory_order_relaxed),
                         std::atomic_ref(header.call.count).load(std::memory_order_relaxed)};
  return taken_.load(std::memory_order_relaxed) == message ? std::optional(call) : std::nullopt;
}

void VerbsEndpoint::goOn(bool some) {
  if (!failure_.ok()) return;
  connection_->react(some);
  if (!posted_.empty()) (void)serve();
}

}  // namespace tutti::verbs

#include "transport/ucx/connection.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace tutti::ucx {
namespace {

constexpr uint32_t kLooksPerStream = 64;    // a look at the peer's stream is a system call
constexpr int64_t kLateNs = 1'000'000'000;  // for what a peer that has closed says it has sent
constexpr int64_t kCancelNs = 1'000'000'000;

}  // namespace

Connection::Connection(int peer, std::shared_ptr<Worker> worker, const Options& options, Fd stream)
    : peer_(peer),
      worker_(std::move(worker)),
      api_(worker_->api()),
      stream_(std::move(stream)),
      stride_((options.slotBytes + 63) / 64 * 64),
      outbound_(std::make_shared<Outbound>()),
      sends_(options.slots),
      inbound_(options.slots) {
  card_.slotBytes = options.slotBytes;
  card_.slots = options.slots;
  outbound_->headers.resize(options.slots + 1);
  outbound_->slots = std::make_unique_for_overwrite<std::byte[]>(options.slots * stride_);
}

Result<std::unique_ptr<Connection>> Connection::create(int peer, std::shared_ptr<Worker> worker, const Options& options,
                                                       Fd stream) {
  std::unique_ptr<Connection> made(new Connection(peer, std::move(worker), options, std::move(stream)));
  const std::lock_guard lock(made->worker_->mutex());
  made->card_.connection = made->worker_->add(made.get());
  made->card_.key = made->worker_->key(made->card_.connection);
  TUTTI_TRY(made->worker_->watch(made->stream()));
  return made;
}

// The greeting does not go the short way, so that UCX of both ends knows the other when it has gone.
Result<bool> Connection::connect(const Card& theirs, const std::string& address) {
  if (link_ == nullptr) {
    TUTTI_TRY(checkCard(card_, theirs, peer_));
    theirs_ = theirs;
    auto link = worker_->link(address);
    if (!link.ok())
      return systemError(ErrorCode::UcxRefused, "UCX has no way to rank ", peer_, ": ", link.status().message());
    link_ = *link;
    if (needsLending_ && !link_->lends) {
      return invalidUsage(ErrorCode::TransportAbsent, "UCX reaches rank ", peer_, " by ", link_->path,
                          " alone, which is not for memory of devices; UCX_TLS says what UCX may use");
    }
    TUTTI_DEBUG("ucx", "rank ", peer_, " by ", link_->path,
                link_->lends ? "" : ", which does not tell the end of a peer");
    tellReleased(true);
  }
  drive();
  TUTTI_TRY(trouble_);
  up_ = heard_ && telling_ == nullptr;
  link_->isUp = link_->isUp || up_;
  return up_;
}

Connection::~Connection() {
  const int64_t begin = nowNs();
  std::unique_lock lock(worker_->mutex());
  const int64_t end = begin + worker_->closeNs();
  lock.unlock();
  if (up_) driveUntil(end, &Connection::isSent);
  lock.lock();
  if (up_ && !gone_) say({Note::kEnds, written_, givenBack_});
  lock.unlock();
  if (up_ && trouble_.ok()) driveUntil(end, &Connection::isOver);
  lock.lock();
  worker_->closeNs() -= nowNs() - begin;
  if (usesMemory()) this->end();
  release();
  worker_->unwatch(stream_.get());
  worker_->remove(card_.connection);
}

void Connection::driveUntil(int64_t end, bool (Connection::*done)() const) {
  while (true) {
    const std::lock_guard lock(worker_->mutex());
    if ((this->*done)() || deaf_ || nowNs() >= end) return;
    if (!drive()) lookAtStream();
    sched_yield();
  }
}

// Requests that are not done use slots, which are kept for them.
void Connection::release() {
  bool underWay = telling_ != nullptr;
  for (ucs_status_ptr_t request : sends_) underWay = underWay || request != nullptr;
  if (underWay) worker_->keep(outbound_);
  for (ucs_status_ptr_t request : sends_) {
    if (request != nullptr) api_.requestFree(request);
  }
  if (telling_ != nullptr) api_.requestFree(telling_);
  for (Inbound& one : inbound_) {
    if (one.fetching != nullptr) worker_->keep(fetched_), api_.requestFree(one.fetching);
    letGo(&one);
  }
}

bool Connection::usesMemory() const {
  const bool fetches = std::ranges::any_of(inbound_, [](const Inbound& one) { return one.fetching != nullptr; });
  return fetches || sent_ < lentUpTo_;
}

// UCX lets go of memory when requests are told that they have ended.
void Connection::end() {
  fail(invalidUsage(ErrorCode::Finalized, "the requests of the connection to rank ", peer_, " have been cancelled"));
  deaf_ = true;
  shutdown(stream_.get(), SHUT_RDWR);
  if (!usesMemory() || link_ == nullptr) return;
  worker_->close(link_.get());
  const int64_t end = nowNs() + kCancelNs;
  while (nowNs() < end) {
    (void)worker_->poll();
    countSent();
    for (uint64_t message = givenBack_; message < givenBack_ + card_.slots; ++message) (void)isFetched(message);
    if (!usesMemory()) return;
  }
  TUTTI_WARN("ucx", who(), ": UCX still uses memory of requests that were cancelled");
}

bool Connection::drive() {
  const bool some = worker_->poll();
  react(some);
  return some;
}

void Connection::react(bool some) {
  if (link_ != nullptr && !link_->failure.empty() && !deaf_) failed(link_->failure);
  countSent();
  if (!some && ++looks_ % kLooksPerStream == 0) lookAtStream();
  if (arrived_ == theirMessages_ && !saidAll_) {
    saidAll_ = true;
    say({.what = Note::kHasAll, .taken = arrived_});
  }
  tellReleased(false);
}

bool Connection::came(const Header& header, void* payload, size_t bytes, bool lent) {
  heard_ = true;
  if (deaf_) return false;
  if (header.released > written_ || header.released < released_) {
    if (header.released > written_)
      fail(remoteError(ErrorCode::Malformed, who(), ": it has released more than it was sent"));
  } else {
    released_ = header.released;
  }
  if (header.number == 0) return false;
  const bool fits = canBe(header, bytes, {arrived_, givenBack_, card_.slots, card_.slotBytes});
  if (!fits || inbound(header.number - 1).header.number != 0) {
    deaf_ = true;
    fail(remoteError(ErrorCode::Malformed, who(), ": message ", header.number, " of ", bytes,
                     " bytes is not what may come after ", arrived_));
    return false;
  }
  const bool keeps = bytes > 0;
  inbound(header.number - 1) = {.header = header, .payload = payload, .lent = lent && keeps, .isKept = keeps};
  while (arrived_ < givenBack_ + card_.slots && inbound(arrived_).header.number == arrived_ + 1) ++arrived_;
  return keeps;
}

ucs_status_ptr_t Connection::post(Header* header, const std::byte* data, uint32_t flags, const Keys& memory) {
  header->released = told_ = givenBack_;
  header->connection = theirs_.connection;
  header->key = theirs_.key;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  if (header->number == 0 && !up_) params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  if (memory.handle != nullptr) params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  params.flags = flags;
  params.memory_type = memory.type;
  params.memh = memory.handle;
  const ucs_status_ptr_t request =
      api_.amSend(link_->endpoint, kMessageId, header, kHeaderBytes, data, header->bytes, &params);
  if (!UCS_PTR_IS_ERR(request)) return request;
  failed(api_.statusText(UCS_PTR_STATUS(request)));
  return nullptr;
}

uint64_t Connection::sendFrom(const std::byte* data, size_t bytes, const Fingerprint& call, uint32_t flags,
                              const Keys& memory) {
  const size_t slot = written_ % card_.slots;
  Header& header = outbound_->headers[slot];
  header = {.bytes = bytes, .call = call, .number = written_ + 1};
  sends_[slot] = post(&header, data, flags, memory);
  ++written_;
  countSent();
  return written_;
}

uint64_t Connection::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (bytes > 0 && data != staging()) std::memcpy(staging(), data, bytes);
  return sendFrom(staging(), bytes, call, UCP_AM_SEND_FLAG_EAGER, {});
}

uint64_t Connection::lend(const std::byte* data, size_t bytes, const Fingerprint& call, const Keys& memory) {
  if (!link_->lends) return send(data, bytes, call);
  ++numLent_;
  lentUpTo_ = written_ + 1;
  return sendFrom(data, bytes, call, 0, memory);
}

bool Connection::isDone(ucs_status_ptr_t* request, const char* what, bool* hasFailed) {
  if (*request == nullptr) return true;
  const ucs_status_t status = api_.requestStatus(*request);
  if (status == UCS_INPROGRESS) return false;
  api_.requestFree(*request);
  *request = nullptr;
  if (status == UCS_OK) return true;
  if (hasFailed != nullptr) *hasFailed = true;
  failed(cat(what, ": ", api_.statusText(status)));
  return true;
}

void Connection::countSent() {
  while (sent_ < written_ && isDone(&sends_[sent_ % card_.slots], "a message was not sent")) ++sent_;
  if (telling_ != nullptr) (void)isDone(&telling_, "a message was not sent");
}

void Connection::tellReleased(bool now) {
  const bool due = now || (givenBack_ > told_ && 2 * (givenBack_ - told_) >= card_.slots);
  if (!due || telling_ != nullptr || link_ == nullptr || deaf_) return;
  Header& header = outbound_->headers[card_.slots];
  header = {};
  telling_ = post(&header, nullptr, UCP_AM_SEND_FLAG_EAGER, {});
}

void Connection::fetch(uint64_t message, std::byte* into, const Keys& memory) {
  Inbound& one = inbound(message);
  if (into == nullptr && fetched_ == nullptr) fetched_ = std::make_unique_for_overwrite<std::byte[]>(stride_);
  std::byte* const place = into != nullptr ? into : fetched_.get();
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  if (memory.handle != nullptr) params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  params.memory_type = memory.type;
  params.memh = memory.handle;
  one.fetching = api_.amReceive(worker_->handle(), one.payload, place, one.header.bytes, &params);
  one.isKept = false;  // UCX's from here on, whatever becomes of it
  one.payload = place;
  if (!UCS_PTR_IS_ERR(one.fetching)) return;
  one.isLost = true;
  failed(cat("a message was not fetched: ", api_.statusText(UCS_PTR_STATUS(one.fetching))));
  one.fetching = nullptr;
}

Result<bool> Connection::isFetched(uint64_t message) {
  Inbound& one = inbound(message);
  if (one.isKept) return false;
  if (!isDone(&one.fetching, "a message was not fetched", &one.isLost)) return false;
  if (one.isLost) return trouble_;
  return true;
}

void Connection::letGo(Inbound* one) {
  if (one->isKept) api_.amRelease(worker_->handle(), one->payload);
  *one = {};
}

void Connection::giveBack() {
  Inbound& one = inbound(givenBack_);
  letGo(&one);
  ++givenBack_;
  tellReleased(false);
}

void Connection::say(const Note& note) {
  const ssize_t n = ::send(stream_.get(), &note, sizeof note, MSG_DONTWAIT | MSG_NOSIGNAL);
  gone_ = gone_ || n != sizeof note;
}

void Connection::hear(const Note& note) {
  if (!canBe(note, arrived_, written_)) {
    deaf_ = true;
    return fail(remoteError(ErrorCode::Malformed, who(), " says what cannot be of the messages between the two ends"));
  }
  if (note.what == Note::kHasAll) theyHave_ = note.taken;
  if (note.what != Note::kEnds) return;
  theirMessages_ = note.sent;
  released_ = std::max(released_, note.taken);
  fail(remoteError(ErrorCode::PeerClosed, who(), " has closed its end"));
}

// What had come before the peer's process ended counts.  An end that closes says so before its messages may have come.
void Connection::lookAtStream() {
  while (!gone_) {
    auto* const into = reinterpret_cast<std::byte*>(&note_);
    const ssize_t got = recv(stream_.get(), into + noteBytes_, sizeof note_ - noteBytes_, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    gone_ = got <= 0;
    if (gone_) break;
    noteBytes_ += static_cast<size_t>(got);
    if (noteBytes_ == sizeof note_) noteBytes_ = 0, hear(note_);
  }
  if (deaf_) return;
  if (goneAtNs_ == 0) goneAtNs_ = nowNs();
  while (worker_->poll()) {
  }
  fail(remoteError(ErrorCode::PeerClosed, who(), " has closed its end"));
  deaf_ = theirMessages_ == UINT64_MAX || nowNs() - goneAtNs_ > kLateNs;
}

std::string Connection::who() const {
  return cat("rank ", peer_, " over ucx (", link_ != nullptr ? link_->path : cat("UCX ", api_.version), ")");
}

// Where the peer has ended, that is the reason.
void Connection::failed(const std::string& what) {
  if (trouble_.ok()) lookAtStream();
  fail(remoteError(ErrorCode::ConnectionLost, who(), ": ", what));
  deaf_ = true;
}

void Connection::fail(Status why) {
  if (!trouble_.ok()) return;
  trouble_ = std::move(why);
  TUTTI_DEBUG("ucx", trouble_.message());
}

}  // namespace tutti::ucx

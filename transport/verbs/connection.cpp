#include "transport/verbs/connection.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace tutti::verbs {
namespace {

constexpr uint32_t kLooksPerStream = 64;  // a look at the peer's stream is a system call

}  // namespace

/// Pages of its own: they must not share one with memory that a child of fork() uses.
class Connection::Slots {
 public:
  static Result<std::unique_ptr<Slots>> make(const std::shared_ptr<Device>& device, size_t bytes) {
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return errnoError(errno, cat("no memory for ", bytes, " bytes of slots"));
    std::unique_ptr<Slots> made(new Slots);
    made->memory_ = {MemoryKind::Host, -1, static_cast<std::byte*>(pages), bytes};
    TUTTI_ASSIGN(made->registered_, Registered::make(device, made->memory_, true));
    return made;
  }
  ~Slots() {
    registered_.reset();
    munmap(memory_.base, memory_.bytes);
  }
  std::byte* base() const { return memory_.base; }
  const Registered& keys() const { return *registered_; }

 private:
  Memory memory_;
  std::unique_ptr<Registered> registered_;
};

Connection::Connection(int peer, std::shared_ptr<Device> device, std::shared_ptr<Completions> completions, Fd stream)
    : peer_(peer), device_(std::move(device)), completions_(std::move(completions)), stream_(std::move(stream)) {}

Result<std::unique_ptr<Connection>> Connection::create(int peer, std::shared_ptr<Device> device,
                                                       std::shared_ptr<Completions> completions, const Options& options,
                                                       Fd stream) {
  std::unique_ptr<Connection> made(new Connection(peer, std::move(device), std::move(completions), std::move(stream)));
  TUTTI_TRY(made->open(options));
  return made;
}

Status Connection::open(const Options& options) {
  TUTTI_TRY(completions_->watch(stream_.get()));
  card_.slots = static_cast<uint32_t>(options.slots);
  card_.slotBytes = options.slotBytes;
  TUTTI_ASSIGN(memory_, Slots::make(device_, 2 * slots() * stride()));
  card_.memory = reinterpret_cast<uint64_t>(memory_->base());
  card_.memoryKey = memory_->keys().remoteKey();
  TUTTI_ASSIGN(number_, completions_->add(this, QueuePair::mostOperations(receives())));
  TUTTI_ASSIGN(pair_, QueuePair::create(device_, *completions_, *number_, receives()));
  pair_->describe(&card_);
  return {};
}

Connection::~Connection() {
  if (released_ < sent_) flush();
  completions_->unwatch(stream_.get());
  if (number_) completions_->remove(*number_);
}

void Connection::flush() {
  const Deadline deadline = Deadline::inMs(1000);
  const auto waits = [&] { return trouble_.ok() && !deadline.passed(); };
  while (waits() && !hasRoom()) poll();
  if (!waits()) return;
  const Result<uint64_t> last = pair_->flush();
  while (last.ok() && waits() && !pair_->isDone(*last)) poll();
}

Status Connection::connect(const ConnectionCard& theirs, const Options& options) {
  TUTTI_TRY(checkCard(card_, theirs, peer_));
  theirs_ = theirs;
  return pair_->connect(card_, theirs, options);
}

size_t Connection::stride() const { return (kHeaderBytes + slotBytes() + 63) / 64 * 64; }
std::byte* Connection::slot(uint64_t message) const { return memory_->base() + message % slots() * stride(); }
std::byte* Connection::staged(uint64_t message) const { return slot(message) + slots() * stride(); }
QueuePair::Place Connection::place(uint64_t message) const {
  return {theirs_.memory + message % slots() * stride(), theirs_.memoryKey};
}

bool Connection::poll() {
  const bool some = completions_->poll();
  react(some);
  return some;
}

void Connection::react(bool some) {
  if (!some && ++looks_ % kLooksPerStream == 0) lookAtStream();
  if (tellNow_) tellReleased();
}

// This adapter had all that the peer sent before the peer closed the stream: that counts.
void Connection::lookAtStream() {
  if (!trouble_.ok()) return;
  char byte;
  const ssize_t got = recv(stream_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  while (completions_->poll()) {
  }
  fail(remoteError(who(), " has closed its end"));
}

std::string Connection::who() const { return cat("rank ", peer_, " over verbs (", device_->name(), ")"); }

void Connection::fail(Status why) {
  if (!trouble_.ok()) return;
  trouble_ = std::move(why);
  TUTTI_INFO("verbs", trouble_.message());
  shutdown(stream_.get(), SHUT_RDWR);
}

void Connection::end() {
  fail(invalidUsage("the requests of the connection to rank ", peer_, " have been cancelled"));
  pair_.reset();
}

void Connection::failed(const std::string& what) { fail(remoteError(who(), ": ", what)); }

void Connection::finished(uint32_t posted) {
  if (pair_ != nullptr) pair_->finished(posted);
}

void Connection::came(uint32_t immediate) {
  if (pair_ == nullptr) return;
  uint32_t low = immediate & kCounterBits;
  if ((immediate & kMessageCame) != 0) {
    if (low != (++arrived_ & kCounterBits)) return fail(remoteError(who(), ": a message is missing"));
    low = header(arrived_ - 1).released & kCounterBits;
  }
  const auto released = widen(low, released_, sent_ - released_);
  if (!released) return fail(remoteError(who(), ": it has released more than it was sent"));
  released_ = *released;
  if (const Status status = pair_->postReceive(); !status.ok()) fail(status);
}

Status Connection::send(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call) {
  return put(message, {.bytes = bytes, .call = call}, data, bytes);
}

Status Connection::lend(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call, uint32_t key) {
  const auto address = reinterpret_cast<uint64_t>(data);
  return put(message, {.bytes = bytes, .call = call, .address = address, .key = key}, nullptr, 0);
}

// Small ones go from where they lie, as the adapter takes them along with the order; others in one piece from memory
// that it knows, which is free again when the peer has released the message.
Status Connection::put(uint64_t message, Header header, const std::byte* data, size_t bytes) {
  header.released = static_cast<uint32_t>(givenBack_) & kCounterBits;
  header.number = static_cast<uint32_t>(message + 1);
  const uint32_t immediate = kMessageCame | (header.number & kCounterBits);
  const uint32_t key = memory_->keys().localKey();
  Status status;
  if (kHeaderBytes + bytes <= pair_->inlineBytes()) {
    const QueuePair::Piece pieces[] = {{&header, kHeaderBytes, 0}, {data, bytes, 0}};
    status = pair_->write(pieces, place(message), immediate);
  } else {
    std::byte* const from = staged(message);
    std::memcpy(from, &header, kHeaderBytes);
    if (bytes > 0 && data != staging(message)) std::memcpy(staging(message), data, bytes);
    const QueuePair::Piece whole{from, kHeaderBytes + bytes, key};
    status = pair_->write({&whole, 1}, place(message), immediate);
  }
  if (!status.ok()) {
    fail(status);
    return status;
  }
  sent_ = message + 1;
  told_ = givenBack_;
  tellNow_ = false;
  return {};
}

Result<uint64_t> Connection::fetch(uint64_t message, std::byte* into, uint32_t key) {
  const Header& from = header(message);
  const bool toSlot = into == nullptr;
  const QueuePair::Piece piece{toSlot ? payload(message) : into, from.bytes, toSlot ? memory_->keys().localKey() : key};
  return pair_->read(piece, {from.address, from.key});
}

// Half of the slots at a time, so that one message in several costs a write of nothing: the sender has room all along.
void Connection::giveBack(uint64_t messages, bool now) {
  givenBack_ = messages;
  tellNow_ = tellNow_ || now || givenBack_ - told_ >= std::max(slots() / 2, 1u);
  if (tellNow_) tellReleased();
}

void Connection::tellReleased() {
  if (!hasRoom() || !trouble_.ok()) return;  // poll() asks again
  tellNow_ = false;
  told_ = givenBack_;
  const Status status = pair_->write({}, place(0), static_cast<uint32_t>(givenBack_) & kCounterBits);
  if (!status.ok()) fail(status);
}

}  // namespace tutti::verbs

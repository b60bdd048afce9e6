#include "transport/verbs/connection.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace tutti::verbs {
namespace {

constexpr uint32_t kLooksPerStream = 1024;  // a look at the peer's stream is a system call
/// With fewer slots, one that is free and not told of could be the one that the sender may count on.
constexpr uint32_t kLeastSlotsToLookAt = 4;
/// A smaller piece costs more to post than it gains by going beside others.
constexpr size_t kLeastPieceBytes = 16 << 10;
constexpr size_t kPieceAlignment = 128;

}  // namespace

/// Pages of its own: they must not share one with memory that a child of fork() uses.
class Connection::Slots {
 public:
  static Result<std::unique_ptr<Slots>> make(const Rails& rails, size_t bytes) {
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return errnoError(errno, cat("no memory for ", bytes, " bytes of slots"));
    std::unique_ptr<Slots> made(new Slots);
    made->memory_ = {MemoryKind::Host, -1, static_cast<std::byte*>(pages), bytes};
    TUTTI_ASSIGN(made->registered_, Registered::make(rails, made->memory_, Registered::Use::Slots, 0));
    return made;
  }
  ~Slots() {
    registered_.reset();
    munmap(memory_.base, memory_.bytes);
  }
  std::byte* base() const { return memory_.base; }
  const Keys& keys() const { return registered_->keys(); }

 private:
  Memory memory_;
  std::unique_ptr<Registered> registered_;
};

Connection::Connection(int peer, std::shared_ptr<Completions> completions, Fd stream)
    : peer_(peer), completions_(std::move(completions)), stream_(std::move(stream)) {}

Result<std::unique_ptr<Connection>> Connection::create(int peer, const Rails& rails,
                                                       std::shared_ptr<Completions> completions, const Options& options,
                                                       Fd stream) {
  std::unique_ptr<Connection> made(new Connection(peer, std::move(completions), std::move(stream)));
  TUTTI_TRY(made->open(rails, options));
  return made;
}

Status Connection::open(const Rails& rails, const Options& options) {
  TUTTI_TRY(completions_->watch(stream_.get()));
  rails_ = static_cast<uint32_t>(rails.size());
  splits_ = options.splits;
  card_.packetNumber = static_cast<uint32_t>(nowNs()) & 0xffffff;  // differs from an earlier connection's
  card_.slots = static_cast<uint32_t>(options.slots);
  card_.queuePairs = options.queuePairs;
  card_.slotBytes = options.slotBytes;
  card_.rails = rails_;
  arrivals_.resize(slots());
  fetching_.resize(slots());
  TUTTI_ASSIGN(memory_, Slots::make(rails, 2 * slots() * stride()));
  card_.memory = reinterpret_cast<uint64_t>(memory_->base());
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    QueuePair::describe(*rails[rail], &card_.rail[rail]);
    card_.rail[rail].memoryKey = memory_->keys().remote[rail];
  }
  for (uint32_t k = 0; k < options.queuePairs * rails_; ++k) {
    const uint32_t rail = k % rails_;
    TUTTI_ASSIGN(auto pair, QueuePair::create(this, *completions_, rail, receives(), options));
    card_.rail[rail].queuePairs[k / rails_] = pair->number();
    pairs_.push_back(std::move(pair));
  }
  return {};
}

Connection::~Connection() {
  if (released_ < sent_) flush();
  completions_->unwatch(stream_.get());
}

void Connection::flush() {
  const Deadline deadline = Deadline::inMs(1000);
  const auto waits = [&] { return trouble_.ok() && !deadline.passed(); };
  while (waits() && !hasRoom()) poll();
  for (const auto& pair : pairs_) {
    if (!waits()) return;
    const Result<uint64_t> last = pair->flush();
    while (last.ok() && waits() && !pair->isDone(*last)) poll();
  }
}

Status Connection::connect(const ConnectionCard& theirs, const Options& options) {
  TUTTI_TRY(checkCard(card_, theirs, peer_));
  theirs_ = theirs;
  rails_ = commonRails(card_, theirs);
  std::erase_if(pairs_, [this](const auto& pair) { return pair->rail() >= rails_; });
  for (size_t k = 0; k < pairs_.size(); ++k) {
    QueuePair& own = *pairs_[k];
    TUTTI_TRY(own.connect(card_, theirs, theirs.rail[own.rail()].queuePairs[k / rails_], options));
  }
  return {};
}

size_t Connection::stride() const { return (kHeaderBytes + slotBytes() + 63) / 64 * 64; }
std::byte* Connection::slot(uint64_t message) const { return memory_->base() + message % slots() * stride(); }
std::byte* Connection::staged(uint64_t message) const { return slot(message) + slots() * stride(); }
QueuePair::Place Connection::place(uint64_t message, uint32_t rail) const {
  return {theirs_.memory + message % slots() * stride(), theirs_.rail[rail].memoryKey};
}

bool Connection::hasRoom() const {
  return !pairs_.empty() && std::ranges::all_of(pairs_, [](const auto& pair) { return pair->hasRoom(); });
}

// Any run of as many queue pairs as there are rails has one on each.
Connection::Spread Connection::spread(uint64_t message, size_t bytes) const {
  const auto all = static_cast<uint32_t>(pairs_.size());
  if (all == 1 || bytes < kLeastPieceBytes) return {0, 1};
  const size_t worth = bytes / kLeastPieceBytes;
  const uint32_t most = splits_ ? all : rails_;
  return {static_cast<uint32_t>(message % all), static_cast<uint32_t>(std::min<size_t>(worth, most))};
}

size_t Connection::beginOf(uint32_t piece, uint32_t pieces, size_t bytes) {
  return piece == pieces ? bytes : bytes / pieces / kPieceAlignment * kPieceAlignment * piece;
}

bool Connection::poll() {
  const bool some = completions_->poll();
  react(some);
  return some;
}

void Connection::react(bool some) {
  if (!some && ++looks_ % kLooksPerStream == 0) lookAtStream();
  if (told_ < tellUpTo_) tellReleased();
}

// This adapter had all that the peer sent before the peer closed the stream: that counts.
void Connection::lookAtStream() {
  if (!trouble_.ok()) return;
  char byte;
  const ssize_t got = recv(stream_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  while (completions_->poll()) {
  }
  fail(remoteError(who(*completions_->device(0)), " has closed its end"));
}

std::string Connection::who(const Device& rail) const { return cat("rank ", peer_, " over verbs (", rail.name(), ")"); }

void Connection::fail(Status why) {
  if (!trouble_.ok()) return;
  trouble_ = std::move(why);
  TUTTI_INFO("verbs", trouble_.message());
  shutdown(stream_.get(), SHUT_RDWR);
}

void Connection::end() {
  fail(invalidUsage("the requests of the connection to rank ", peer_, " have been cancelled"));
  pairs_.clear();
}

void Connection::failed(const Device& rail, const std::string& what) { fail(remoteError(who(rail), ": ", what)); }

void Connection::fetched(uint32_t mark) { --fetching_[mark]; }

void Connection::came(uint32_t immediate) {
  if ((immediate & kMessageCame) == 0) return released(immediate & kCounterBits);
  const auto number = widen(immediate & kCounterBits, confirmed_, slots());
  if (!number || *number == confirmed_) {
    return fail(remoteError("rank ", peer_, " over verbs: a message is missing, or has come twice"));
  }
  Arrival& arrival = arrivals_[(*number - 1) % slots()];
  ++arrival.pieces;
  arrival.header = arrival.header || (immediate & kFurtherPiece) == 0;
  while (confirm()) {
  }
}

bool Connection::confirm() {
  Arrival& next = arrivals_[confirmed_ % slots()];
  if (!next.header || next.pieces < header(confirmed_).pieces) return false;
  next = {};
  if (confirmed_ == arrived_) {
    released(header(arrived_).released);
    ++arrived_;
  }
  ++confirmed_;
  return true;
}

// The slot still has the message before, parts of both, or the next one.
bool Connection::isInSlot() {
  if (slots() < kLeastSlotsToLookAt) return false;
  auto& there = const_cast<Header&>(header(arrived_));
  const uint32_t number = std::atomic_ref(there.number).load(std::memory_order_acquire);
  if (number != static_cast<uint32_t>(arrived_ + 1) || there.pieces != 1) return false;
  const Header seen = there;
  const size_t bytes = payloadBytes(seen);
  if (bytes > kMostCheckedBytes || checkOf(seen, payload(arrived_), bytes) != seen.check) return false;
  released(seen.released);
  ++arrived_;
  return true;
}

// Words may come by several queue pairs, an older one after a newer one.
void Connection::released(uint32_t low) {
  const uint32_t ahead = (low - static_cast<uint32_t>(released_)) & kCounterBits;
  if (ahead > kCounterBits / 2) return;
  if (ahead > sent_ - released_) {
    return fail(remoteError("rank ", peer_, " over verbs has released more than it was sent"));
  }
  released_ += ahead;
}

Status Connection::send(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call) {
  return put(message, {.call = call, .bytes = static_cast<uint32_t>(bytes)}, data, bytes);
}

Status Connection::lend(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call,
                        const Keys& keys) {
  const Loan loan{reinterpret_cast<uint64_t>(data), keys.remote};
  return put(message, {.call = call, .bytes = static_cast<uint32_t>(bytes), .lent = 1},
             reinterpret_cast<const std::byte*>(&loan), sizeof loan);
}

// Small ones go from where they lie, as the adapter takes them along with the order; others from memory that it knows,
// which is free again when the peer has released the message.
Status Connection::put(uint64_t message, Header header, const std::byte* data, size_t bytes) {
  const Spread over = spread(message, kHeaderBytes + bytes);
  const uint64_t free = releasable();
  header.pieces = static_cast<uint16_t>(over.count);
  header.released = static_cast<uint32_t>(free) & kCounterBits;
  header.number = static_cast<uint32_t>(message + 1);
  if (bytes <= kMostCheckedBytes) header.check = checkOf(header, data, bytes);
  const uint32_t immediate = kMessageCame | (header.number & kCounterBits);
  Status status;
  if (kHeaderBytes + bytes <= pairs_[0]->inlineBytes()) {
    const QueuePair::Piece pieces[] = {{&header, kHeaderBytes, 0}, {data, bytes, 0}};
    status = pairs_[0]->write(pieces, place(message, 0), immediate);
  } else {
    std::memcpy(staged(message), &header, kHeaderBytes);
    if (bytes > 0 && data != staging(message)) std::memcpy(staging(message), data, bytes);
    status = putPieces(message, over, kHeaderBytes + bytes, immediate);
  }
  if (!status.ok()) {
    fail(status);
    return status;
  }
  sent_ = message + 1;
  told_ = free;
  return {};
}

Status Connection::putPieces(uint64_t message, const Spread& over, size_t bytes, uint32_t immediate) {
  for (uint32_t k = 0; k < over.count; ++k) {
    QueuePair& by = pair(over.first + k);
    const size_t begin = beginOf(k, over.count, bytes);
    const QueuePair::Piece piece{staged(message) + begin, beginOf(k + 1, over.count, bytes) - begin,
                                 memory_->keys().local[by.rail()]};
    QueuePair::Place to = place(message, by.rail());
    to.address += begin;
    TUTTI_TRY(by.write({&piece, 1}, to, immediate | (k > 0 ? kFurtherPiece : 0)));
  }
  return {};
}

// The loan lies where a message comes that is read into its slot.
Status Connection::fetch(uint64_t message, std::byte* into, const Keys& keys) {
  const size_t bytes = header(message).bytes;
  Loan from;
  std::memcpy(&from, payload(message), sizeof from);
  const Keys& ours = into == nullptr ? memory_->keys() : keys;
  if (into == nullptr) into = payload(message);
  const Spread over = spread(message, bytes);
  const auto mark = static_cast<uint32_t>(message % slots());
  for (uint32_t k = 0; k < over.count; ++k) {
    QueuePair& by = pair(over.first + k);
    const size_t begin = beginOf(k, over.count, bytes);
    const QueuePair::Piece piece{into + begin, beginOf(k + 1, over.count, bytes) - begin, ours.local[by.rail()]};
    ++fetching_[mark];
    TUTTI_TRY(by.read(piece, {from.address + begin, from.keys[by.rail()]}, mark));
  }
  return {};
}

// Half of the slots at a time, so that one message in several costs a write of nothing: the sender has room all along.
void Connection::giveBack(uint64_t messages, bool now) {
  givenBack_ = messages;
  if (now || givenBack_ - told_ >= std::max(slots() / 2, 1u)) tellUpTo_ = givenBack_;
  if (told_ >= tellUpTo_) return;
  if (confirmed_ < tellUpTo_) completions_->poll();
  tellReleased();
}

uint64_t Connection::releasable() const { return std::min(givenBack_, confirmed_); }

void Connection::tellReleased() {
  const uint64_t free = releasable();
  if (free <= told_ || !hasRoom() || !trouble_.ok()) return;  // poll() asks again
  told_ = free;
  const Status status = pairs_[0]->write({}, place(0, 0), static_cast<uint32_t>(free) & kCounterBits);
  if (!status.ok()) fail(status);
}

}  // namespace tutti::verbs

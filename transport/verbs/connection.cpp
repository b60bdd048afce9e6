#include "transport/verbs/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/base/private_pages.hpp"

namespace tutti::verbs {
namespace {

constexpr uint32_t kLooksPerStream = 1024;  // a look at the peer's stream is a system call
/// A smaller piece costs more to post than it gains by going beside others.
constexpr size_t kLeastPieceBytes = 16 << 10;
constexpr size_t kPieceAlignment = 128;

}  // namespace

/// PrivatePages of its own: they must not share one with memory that a child of fork() uses.
class Connection::Slots {
 public:
  static Result<std::unique_ptr<Slots>> make(const Rails& rails, size_t bytes) {
    std::unique_ptr<Slots> made(new Slots);
    TUTTI_ASSIGN(made->pages_, PrivatePages::take(bytes, "slots"));
    const Memory memory = {MemoryKind::Host, -1, made->pages_.data(), bytes};
    TUTTI_ASSIGN(made->registered_, Registered::make(rails, memory, Registered::Use::Slots, 0));
    return made;
  }
  std::byte* base() const { return pages_.data(); }
  const Keys& keys() const { return registered_->keys(); }

 private:
  PrivatePages pages_;  // outlive their registration
  std::unique_ptr<Registered> registered_;
};

Connection::Connection(int peer, std::shared_ptr<Completions> completions, Fd stream, uint32_t slots)
    : peer_(peer),
      completions_(std::move(completions)),
      stream_(std::move(stream)),
      arrivals_(slots),
      bareWords_(slots),
      sentBySlot_(slots),
      fetches_(slots) {
  card_.slots = slots;
}

Result<std::unique_ptr<Connection>> Connection::create(int peer, const Rails& rails,
                                                       std::shared_ptr<Completions> completions, const Options& options,
                                                       Fd stream) {
  std::unique_ptr<Connection> made(
      new Connection(peer, std::move(completions), std::move(stream), static_cast<uint32_t>(options.slots)));
  TUTTI_TRY(made->open(rails, options));
  return made;
}

Status Connection::open(const Rails& rails, const Options& options) {
  TUTTI_TRY(completions_->watch(stream_.get()));
  options_ = options;
  rails_ = static_cast<uint32_t>(rails.size());
  splits_ = options.splits;
  card_.packetNumber = static_cast<uint32_t>(nowNs()) & 0xffffff;  // differs from an earlier connection's
  card_.queuePairs = options.queuePairs;
  card_.slotBytes = options.slotBytes;
  card_.rails = rails_;
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
  ending_ = true;
  const Deadline deadline = Deadline::inMs(1000);
  const auto waits = [&] { return trouble_.ok() && !deadline.passed(); };
  while (waits() && !hasRoom()) poll();
  // A rail that fails meanwhile takes its queue pairs along: then all are asked anew.
  for (size_t k = 0; k < pairs_.size() && waits();) {
    const uint32_t number = pairs_[k]->number();
    const auto isThere = [&] { return k < pairs_.size() && pairs_[k]->number() == number; };
    const Result<uint64_t> last = pairs_[k]->flush();
    while (last.ok() && waits() && isThere() && !pairs_[k]->isDone(*last)) poll();
    k = isThere() ? k + 1 : 0;
    while (waits() && !hasRoom()) poll();
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
  mtuBytes_ = mtuBytes(card_, theirs);
  connected_ = true;
  for (uint32_t rail = 0; rail < rails_; ++rail) {
    if (completions_->isDown(rail)) failed(rail, "the port is down");
  }
  return trouble_;
}

size_t Connection::stride() const { return (kHeaderBytes + slotBytes() + 63) / 64 * 64; }
std::byte* Connection::slot(uint64_t message) const { return memory_->base() + message % slots() * stride(); }
std::byte* Connection::staged(uint64_t message) const { return slot(message) + slots() * stride(); }
QueuePair::Place Connection::place(uint64_t message, uint32_t rail) const {
  return {theirs_.memory + message % slots() * stride(), theirs_.rail[rail].memoryKey};
}

bool Connection::hasRoom() const {
  return !moving_ && !pairs_.empty() && std::ranges::all_of(pairs_, [](const auto& pair) { return pair->hasRoom(); });
}

Connection::Spread Connection::spread(uint64_t message, size_t bytes) const {
  const auto all = static_cast<uint32_t>(pairs_.size());
  if (all == 1 || bytes < kLeastPieceBytes) return {0, 1};
  const size_t worth = bytes / kLeastPieceBytes;
  const uint32_t most = splits_ ? all : railsUp();
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
  if (moving_) [[unlikely]]
    moveTraffic();
  if (lost_ != 0) [[unlikely]]
    lookForReturns();
  if (told_ < tellUpTo_) tellReleased();
}

// This adapter had all that the peer sent before the peer closed the stream: that counts.
void Connection::lookAtStream() {
  if (!trouble_.ok()) return;
  char some[sizeof(ReturnCard)];
  const ssize_t got = recv(stream_.get(), some, sizeof some, MSG_DONTWAIT);
  if (got > 0) return heard({some, static_cast<size_t>(got)});
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  while (completions_->poll()) {
  }
  fail(remoteError(ErrorCode::PeerClosed, who(pairs_.empty() ? 0 : pairs_[0]->rail()), " has closed its end"));
}

std::string Connection::who(uint32_t rail) const {
  return cat("rank ", peer_, " over verbs (", completions_->device(rail)->name(), ")");
}

void Connection::fail(Status why) {
  if (!trouble_.ok()) return;
  trouble_ = std::move(why);
  TUTTI_INFO("verbs", trouble_.message());
  shutdown(stream_.get(), SHUT_RDWR);
}

void Connection::end() {
  for (Returning& at : returning_) at.pairs.clear();
  fail(invalidUsage(ErrorCode::Finalized, "the requests of the connection to rank ", peer_, " have been cancelled"));
  pairs_.clear();
}

void Connection::fetched(uint32_t mark) { --fetches_[mark % slots()].underWay; }

void Connection::came(uint32_t word) {
  if ((word & kMessageCame) == 0) {
    if ((word & kRailLost) != 0) return peerLost(word);
    if ((word & kSleeps) != 0) {
      asleepAfter_ = nearest(word & kCounterBits, arrived_);
      return;
    }
    if (!isBare(word)) return released(word & kCounterBits);
  }
  const bool bare = isBare(word);
  const Arrivals::Told told = arrivals_.tell(word & kCounterBits, bare ? 0 : pieceOf(word));
  if (told == Arrivals::Told::Odd || (told == Arrivals::Told::Again && !hasLost_)) {
    return fail(
        remoteError(ErrorCode::Malformed, "rank ", peer_, " over verbs: a message is missing, or has come twice"));
  }
  if (bare && told == Arrivals::Told::New) bareWords_[(nearest(word & kCounterBits, confirmed()) - 1) % slots()] = word;
  while (confirm()) {
  }
}

bool Connection::confirm() {
  const uint64_t message = confirmed();
  if (!arrivals_.hasHeader()) return false;
  const uint32_t bare = std::exchange(bareWords_[message % slots()], 0);
  if (bare != 0 && message == arrived_) keepHeader(message, bareHeader(lastArrived_, bare));
  const Arrivals::Whole whole = arrivals_.countIfWhole(header(message).pieces);
  if (whole == Arrivals::Whole::Odd)
    fail(remoteError(ErrorCode::Malformed, "rank ", peer_, " over verbs: a message has pieces of others"));
  if (whole != Arrivals::Whole::Yes) return false;
  if (message == arrived_) note(header(message));
  return true;
}

/// The next message has come: what its header says beside.
void Connection::note(const Header& header) {
  lastArrived_ = header;
  ++arrived_;
  released(lastArrived_.released);
  awakeSince_ = lastArrived_.awake != 0 ? arrived_ : 0;
}

/// Of a bare message, into its slot, where all look for it: other threads from the number on, as pending() does.
void Connection::keepHeader(uint64_t message, const Header& header) {
  auto& there = const_cast<Header&>(this->header(message));
  std::atomic_ref(there.call.head).store(header.call.head, std::memory_order_relaxed);
  std::atomic_ref(there.call.count).store(header.call.count, std::memory_order_relaxed);
  there.check = header.check;
  there.bytes = header.bytes;
  there.released = header.released;
  there.pieces = header.pieces;
  there.lent = header.lent;
  there.silent = header.silent;
  there.awake = header.awake;
  std::atomic_ref(there.number).store(header.number, std::memory_order_release);
}

// The slot still has the message before, parts of both, or the next one.
bool Connection::isInSlot() {
  if (!isFoundInSlot(0)) return false;
  auto& there = const_cast<Header&>(header(arrived_));
  const uint32_t number = std::atomic_ref(there.number).load(std::memory_order_acquire);
  if (number != static_cast<uint32_t>(arrived_ + 1) || there.pieces != 1) return false;
  const Header seen = there;
  const size_t bytes = payloadBytes(seen);
  if (!isFoundInSlot(bytes) || bytes > slotBytes() || checkOf(seen, payload(arrived_), bytes) != seen.check)
    return false;
  note(seen);
  if (seen.silent != 0) came(pieceWord(arrived_, 0));
  return true;
}

/// With one rail, as what goes by several may have to be sent again.
bool Connection::maySendSilently(size_t bytes) const {
  return rails_ == 1 && isFoundInSlot(bytes) && awakeSince_ > asleepAfter_;
}

// Words may come by several queue pairs, an older one after a newer one.
void Connection::released(uint32_t low) {
  const uint32_t ahead = (low - static_cast<uint32_t>(released_)) & kCounterBits;
  if (ahead > kCounterBits / 2) return;
  if (ahead > sent_ - released_) {
    return fail(remoteError(ErrorCode::Malformed, "rank ", peer_, " over verbs has released more than it was sent"));
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
// which is free again when the peer has released the message.  With several rails small ones are kept there as well,
// and for a peer that may read them there.
Status Connection::put(uint64_t message, Header header, const std::byte* data, size_t bytes) {
  const uint64_t free = releasable();
  Sent& sent = sentBySlot_[message % slots()];
  sent = {kHeaderBytes + bytes, spread(message, kHeaderBytes + bytes)};
  header.pieces = static_cast<uint8_t>(sent.over.count);
  header.released = static_cast<uint32_t>(free) & kCounterBits;
  header.number = static_cast<uint32_t>(message + 1);
  header.silent = maySendSilently(bytes) ? 1 : 0;
  header.awake = completions_->staysAwake() ? 1 : 0;
  saidAwake_ = saidAwake_ || header.awake != 0;
  QueuePair& first = *pairs_[0];
  const bool isInline = sent.bytes <= first.inlineBytes();
  const bool mayGoBare = !isInline && sent.over.count == 1 && takesPacket(bytes, mtuBytes_);
  const std::optional<uint32_t> bare = mayGoBare ? bareWord(lastSent_, header) : std::nullopt;
  if (bare) header.silent = 0;
  lastSent_ = header;
  const bool isStaged = !isInline || rails_ > 1 || theirs_.readsStaged != 0;
  const bool copies = isStaged && bytes > 0 && data != staging(message);
  if (bytes <= kMostCheckedBytes && !bare) {
    header.check = copies ? checkOfCopied(header, data, bytes, staging(message)) : checkOf(header, data, bytes);
  } else if (copies) {
    std::memcpy(staging(message), data, bytes);
  }
  if (isStaged) std::memcpy(staged(message), &header, kHeaderBytes);
  sent_ = message + 1;
  told_ = free;
  if (isInline) {
    sent.rails = 1U << first.rail();
    const QueuePair::Piece pieces[] = {{&header, kHeaderBytes, 0}, {data, bytes, 0}};
    const auto word = header.silent != 0 ? std::nullopt : std::optional(pieceWord(sent_, 0));
    const Status status = first.write(pieces, place(message, first.rail()), word);
    if (!status.ok()) failed(first.rail(), status.message());
  } else if (bare) {
    putBare(message, *bare);
  } else {
    for (uint32_t piece = 0; piece < sent.over.count; ++piece) putPiece(message, piece);
  }
  return trouble_;
}

void Connection::tellOfSleep() {
  if (!saidAwake_ || !hasRoom() || !trouble_.ok()) return;
  saidAwake_ = false;
  QueuePair& by = *pairs_[0];
  const uint32_t word = kSleeps | (static_cast<uint32_t>(sent_) & kCounterBits);
  const Status status = by.write({}, place(0, by.rail()), word);
  if (!status.ok()) failed(by.rail(), status.message());
}

void Connection::putPiece(uint64_t message, uint32_t piece) {
  const Sent& sent = sentBySlot_[message % slots()];
  const auto [first, count] = sent.over;
  const bool silent = count == 1 && reinterpret_cast<const Header*>(staged(message))->silent != 0;
  putBytes(message, pair(first + piece), beginOf(piece, count, sent.bytes), beginOf(piece + 1, count, sent.bytes),
           silent ? std::nullopt : std::optional(pieceWord(message + 1, piece)));
}

// Its header is staged as well: it goes along if the message has to be sent again.
void Connection::putBare(uint64_t message, uint32_t word) {
  const Sent& sent = sentBySlot_[message % slots()];
  putBytes(message, pair(sent.over.first), kHeaderBytes, sent.bytes, word);
}

void Connection::putBytes(uint64_t message, QueuePair& by, size_t begin, size_t end, std::optional<uint32_t> word) {
  const QueuePair::Piece part{staged(message) + begin, end - begin, memory_->keys().local[by.rail()]};
  QueuePair::Place to = place(message, by.rail());
  to.address += begin;
  sentBySlot_[message % slots()].rails |= 1U << by.rail();
  const Status status = by.write({&part, 1}, to, word);
  if (!status.ok()) failed(by.rail(), status.message());
}

// The loan lies where a message comes that is read into its slot.
Status Connection::fetch(uint64_t message, size_t bytes, std::byte* into, const Keys& keys) {
  Loan from;
  std::memcpy(&from, payload(message), sizeof from);
  if (into == nullptr) return read(message, {payload(message), memory_->keys(), from, bytes});
  return read(message, {into, keys, from, bytes});
}

Status Connection::fetchStaged(uint64_t message, size_t bytes, std::byte* into, const Keys& keys) {
  Loan from{place(message, 0).address + slots() * stride() + kHeaderBytes};
  for (uint32_t rail = 0; rail < rails_; ++rail) from.keys[rail] = theirs_.rail[rail].memoryKey;
  return read(message, {into, keys, from, bytes});
}

Status Connection::read(uint64_t message, Fetch fetch) {
  const Spread over = fetch.over = spread(message, fetch.bytes);
  fetch.underWay = over.count;
  fetches_[message % slots()] = fetch;
  for (uint32_t piece = 0; piece < over.count; ++piece) readPiece(message, piece);
  return trouble_;
}

void Connection::readPiece(uint64_t message, uint32_t piece) {
  const Fetch& fetch = fetches_[message % slots()];
  QueuePair& by = pair(fetch.over.first + piece);
  const size_t begin = beginOf(piece, fetch.over.count, fetch.bytes);
  const QueuePair::Piece part{fetch.into + begin, beginOf(piece + 1, fetch.over.count, fetch.bytes) - begin,
                              fetch.keys.local[by.rail()]};
  const auto mark = static_cast<uint32_t>(message % slots() + piece * slots());
  const Status status = by.read(part, {fetch.from.address + begin, fetch.from.keys[by.rail()]}, mark);
  if (status.ok()) return;
  failed(by.rail(), status.message());
  again_.push_back({message, piece, true});
}

// Half of the slots at a time, so that one message in several costs a write of nothing: the sender has room all along.
void Connection::giveBack(uint64_t messages, bool now) {
  givenBack_ = messages;
  const uint32_t half = std::max(slots() / 2, 1U);
  if (givenBack_ - told_ > half) confirmMost();
  if (now || releasable() - told_ >= half) tellUpTo_ = givenBack_;
  if (told_ < tellUpTo_) tellReleased();
}

// Of messages that were found in their slots the last one alone may be yet to complete: the others' slots are free.
void Connection::confirmMost() {
  constexpr int kMostPolls = 1000;
  for (int i = 0; i < kMostPolls && confirmed() + 1 < givenBack_ && trouble_.ok(); ++i) completions_->poll();
}

uint64_t Connection::releasable() const { return std::min(givenBack_, confirmed()); }

void Connection::tellReleased() {
  const uint64_t free = releasable();
  if (free <= told_ || !hasRoom() || !trouble_.ok()) return;  // poll() asks again
  told_ = free;
  QueuePair& by = *pairs_[0];
  const Status status = by.write({}, place(0, by.rail()), static_cast<uint32_t>(free) & kCounterBits);
  if (!status.ok()) failed(by.rail(), status.message());
}

}  // namespace tutti::verbs

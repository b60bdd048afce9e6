#include "tests/support/mailbox.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "src/base/text.hpp"
#include "transport/mismatch.hpp"

namespace tutti::test {
namespace {

std::atomic<uint64_t> puts{0};
std::atomic<int64_t> untilDamage{-1};

std::vector<std::byte> copyOf(const std::byte* data, size_t bytes) {
  std::vector<std::byte> copy(data, data + bytes);
  if (bytes > 0 && untilDamage.load() >= 0 && untilDamage.fetch_sub(1) == 0) copy[bytes / 2] ^= std::byte{16};
  return copy;
}

struct Letter {
  Fingerprint call;
  std::vector<std::byte> copied;
  size_t bytes = 0;
  const std::byte* lent = nullptr;  // of a posted send, in its sender's memory
  bool posted = false;
};

/// A posted receive.
struct Landing {
  std::byte* dst;
  Expect expect;
};

/// What is on its way to one side.
struct Inbox {
  std::deque<Letter> letters;
  std::deque<Landing> landings;
  uint64_t taken = 0;   // posted letters that have been
  uint64_t landed = 0;  // landings that have been
  bool here = false;    // the side has begun to connect
  bool closed = false;  // and has ended
  bool gaveUp = false;  // the sender: what it lent is not to be read
  int rank = 0;         // whose it is
  Status wrong;         // of the first landing
  Fingerprint seen;
};

/// Both directions between two ranks, for one lane.
struct Mailbox {
  static constexpr size_t kMostLetters = 4;
  std::mutex mutex;
  std::array<Inbox, 2> to;  // by side of the receiver; the rest with the mutex

  bool bothHaveCome(size_t side, int rank) {
    const std::lock_guard lock(mutex);
    to[side].here = true;
    to[side].rank = rank;
    return to[1 - side].here;
  }
  /// Puts letters into what has been posted for them, by whoever comes second.
  void match(size_t side) {
    Inbox& in = to[side];
    while (!in.letters.empty() && !in.landings.empty() && in.wrong.ok()) {
      const Letter& letter = in.letters.front();
      const Landing& landing = in.landings.front();
      in.seen = letter.call;
      in.wrong = checkExpected(to[1 - side].rank, landing.expect, letter.bytes, letter.call);
      if (in.wrong.ok()) in.wrong = readable(side);
      if (!in.wrong.ok()) return;
      if (letter.bytes > 0) std::memcpy(landing.dst, place(letter), letter.bytes);
      if (letter.posted) ++puts;
      pop(side);
      in.landings.pop_front();
      ++in.landed;
    }
  }
  static const std::byte* place(const Letter& letter) { return letter.posted ? letter.lent : letter.copied.data(); }
  /// Whether the first letter may be read.
  Status readable(size_t side) const {
    if (!to[side].letters.front().posted || !to[side].gaveUp) return {};
    return remoteError("rank ", to[1 - side].rank, " has given up what it posted");
  }
  void pop(size_t side) {
    if (to[side].letters.front().posted) ++to[side].taken;
    to[side].letters.pop_front();
  }
};

/// Memory that has been registered with one transport.
class Registry {
 public:
  uint64_t add(const tutti::Memory& memory) {
    const std::lock_guard lock(mutex_);
    all_[++last_] = memory;
    return last_;
  }
  void remove(uint64_t id) {
    const std::lock_guard lock(mutex_);
    all_.erase(id);
  }
  bool holds(const void* data, size_t bytes) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(all_, [&](const auto& entry) { return entry.second.holds(data, bytes); });
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, tutti::Memory> all_;
  uint64_t last_ = 0;
};

class MailboxRegistration final : public MemoryRegistration {
 public:
  MailboxRegistration(std::shared_ptr<Registry> registry, const tutti::Memory& memory)
      : registry_(std::move(registry)), id_(registry_->add(memory)) {}
  ~MailboxRegistration() override { registry_->remove(id_); }

 private:
  const std::shared_ptr<Registry> registry_;
  const uint64_t id_;
};

/// The box that both ends open, whoever comes first.
std::shared_ptr<Mailbox> openBox(uint64_t low, uint64_t high, int lane) {
  static std::mutex mutex;
  static std::map<std::tuple<uint64_t, uint64_t, int>, std::weak_ptr<Mailbox>> all;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Mailbox>& known = all[{low, high, lane}];
  std::shared_ptr<Mailbox> box = known.lock();
  if (box == nullptr) known = box = std::make_shared<Mailbox>();
  return box;
}

class MailboxEndpoint final : public Endpoint {
 public:
  MailboxEndpoint(int peer, size_t side, size_t slotBytes, std::shared_ptr<Mailbox> box,
                  std::shared_ptr<Registry> registry)
      : peer_(peer), side_(side), box_(std::move(box)), registry_(std::move(registry)), staging_(slotBytes) {}
  ~MailboxEndpoint() override {
    cancel();
    const std::lock_guard lock(box_->mutex);
    in().closed = true;
  }

  size_t slotBytes() const override { return staging_.size(); }

  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    const std::lock_guard lock(box_->mutex);
    TUTTI_ASSIGN(const bool room, hasRoom(false));
    if (room) post({.call = call, .copied = copyOf(data, bytes), .bytes = bytes});
    return room;
  }
  Result<std::span<std::byte>> reserve() override {
    const std::lock_guard lock(box_->mutex);
    TUTTI_ASSIGN(const bool room, hasRoom(false));
    return room ? std::span<std::byte>(staging_) : std::span<std::byte>();
  }
  Result<bool> commit(size_t bytes, const Fingerprint& call) override { return send(staging_.data(), bytes, call); }

  Result<const std::byte*> peek(const Expect& expect) override {
    const std::lock_guard lock(box_->mutex);
    TUTTI_TRY(failed());
    if (!in().landings.empty()) return static_cast<const std::byte*>(nullptr);
    if (in().letters.empty()) {
      if (out().closed) failure_ = gone();
      TUTTI_TRY(failure_);
      return static_cast<const std::byte*>(nullptr);
    }
    const Letter& letter = in().letters.front();  // stays where it is while others come
    seen_ = letter.call;
    failure_ = checkExpected(peer_, expect, letter.bytes, letter.call);
    if (failure_.ok()) failure_ = box_->readable(side_);
    TUTTI_TRY(failure_);
    peeked_ = true;
    static const std::byte nothing{};
    return letter.bytes == 0 ? &nothing : Mailbox::place(letter);
  }
  /// Shows a third of the message more with each call.  A third may end within an element.
  Result<std::span<const std::byte>> peekPart(const Expect& expect) override {
    TUTTI_ASSIGN(const std::byte* whole, peek(expect));
    if (whole == nullptr) return std::span<const std::byte>();
    third_ = third_ % 3 + 1;
    return std::span(whole, third_ == 3 ? expect.bytes : expect.bytes / 3 * third_);
  }
  void release() override {
    if (!peeked_) return;
    peeked_ = false;
    const std::lock_guard lock(box_->mutex);
    box_->pop(side_);
  }
  Result<bool> receive(std::byte* dst, const Expect& expect) override {
    TUTTI_ASSIGN(const std::byte* message, peek(expect));
    if (message == nullptr) return false;
    if (expect.bytes > 0) std::memcpy(dst, message, expect.bytes);
    release();
    return true;
  }

  bool takes(const std::byte* data, size_t bytes) const override { return bytes == 0 || registry_->holds(data, bytes); }
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    TUTTI_TRY(checkTaken(data, bytes));
    const std::lock_guard lock(box_->mutex);
    TUTTI_ASSIGN(const bool room, hasRoom(true));
    if (!room) return Request{0};
    post({.call = call, .copied = {}, .bytes = bytes, .lent = data, .posted = true});
    return ++posted_;
  }
  Result<Request> postReceive(std::byte* dst, const Expect& expect) override {
    TUTTI_TRY(checkTaken(dst, expect.bytes));
    const std::lock_guard lock(box_->mutex);
    TUTTI_TRY(failed());
    if (in().landings.size() >= kMailbox.mostRequests) return Request{0};
    in().landings.push_back({dst, expect});
    const Request request = kReceiveRequest | (in().landed + in().landings.size());
    box_->match(side_);
    return request;
  }
  Result<bool> test(Request request) override {
    const std::lock_guard lock(box_->mutex);
    const bool receives = (request & kReceiveRequest) != 0;
    if (receives ? (request & ~kReceiveRequest) <= in().landed : request <= out().taken) return true;
    TUTTI_TRY(failed());
    if (out().closed && (!receives || in().letters.empty())) failure_ = gone();
    TUTTI_TRY(failure_);
    return false;
  }
  void cancel() override {
    const std::lock_guard lock(box_->mutex);
    in().landings.clear();
    out().gaveUp = true;
    if (failure_.ok()) failure_ = invalidUsage("requests of this mailbox have been cancelled");
  }
  std::optional<Fingerprint> pending() const override {
    const std::lock_guard lock(box_->mutex);
    if (in().letters.empty()) return std::nullopt;
    return in().letters.front().call;
  }

 private:
  Inbox& in() const { return box_->to[side_]; }
  Inbox& out() const { return box_->to[1 - side_]; }
  Status gone() const { return remoteError("rank ", peer_, " has closed its mailbox"); }
  Status checkTaken(const std::byte* data, size_t bytes) const {
    if (takes(data, bytes)) return {};
    return invalidUsage("requests of a mailbox use registered memory; these ", bytes, " bytes are not");
  }
  Status failed() {
    if (failure_.ok() && !in().wrong.ok()) {
      failure_ = in().wrong;
      seen_ = in().seen;
    }
    return failure_;
  }
  Result<bool> hasRoom(bool posted) {
    TUTTI_TRY(failed());
    if (out().closed) failure_ = gone();
    TUTTI_TRY(failure_);
    const auto like = std::ranges::count(out().letters, posted, &Letter::posted);
    return static_cast<size_t>(like) < (posted ? kMailbox.mostRequests : Mailbox::kMostLetters);
  }
  void post(Letter letter) {
    out().letters.push_back(std::move(letter));
    box_->match(1 - side_);
  }

  const int peer_;
  const size_t side_;
  const std::shared_ptr<Mailbox> box_;
  const std::shared_ptr<Registry> registry_;
  std::vector<std::byte> staging_;
  uint64_t posted_ = 0;
  bool peeked_ = false;
  size_t third_ = 0;  // given of the message by peekPart()
  Status failure_;
};

class MailboxTransport final : public Transport {
 public:
  MailboxTransport(int rank, size_t slotBytes) : rank_(rank), slotBytes_(slotBytes) {}

  std::string_view name() const override { return "mailbox"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override {
    if (self.rank == peer.rank) return invalidUsage("a rank is not its own peer");
    if (self.processId != peer.processId) return invalidUsage("they are in different processes");
    return kMailbox;
  }
  Address address() const override { return Address(reinterpret_cast<const char*>(&number_), sizeof number_); }
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override {
    uint64_t other = 0;
    const bool known = peerAddress.size() == sizeof other;
    if (known) std::memcpy(&other, peerAddress.data(), sizeof other);
    std::shared_ptr<Mailbox> box;
    if (known) box = openBox(std::min(number_, other), std::max(number_, other), lane);
    const size_t side = number_ < other ? 0 : 1;
    if (known) (void)box->bothHaveCome(side, rank_);
    return endpointBy([=, this]() -> Result<std::unique_ptr<Endpoint>> {
      if (!known) return remoteError("rank ", peer, " gave no address of a mailbox");
      if (!box->bothHaveCome(side, rank_)) return std::unique_ptr<Endpoint>();
      return std::unique_ptr<Endpoint>(std::make_unique<MailboxEndpoint>(peer, side, slotBytes_, box, registry_));
    });
  }
  Result<std::unique_ptr<MemoryRegistration>> registerMemory(const tutti::Memory& memory) override {
    if (!kMailbox.memory.has(memory.kind)) return invalidUsage("mailboxes take memory of the host");
    return std::unique_ptr<MemoryRegistration>(std::make_unique<MailboxRegistration>(registry_, memory));
  }

 private:
  static uint64_t next() {
    static std::atomic<uint64_t> numbers{0};
    return ++numbers;
  }
  const int rank_;
  const size_t slotBytes_;
  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  const uint64_t number_ = next();  // of this process
};

ProtocolCosts builtInCosts() {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {0.5, 5}, .mostBytes = 128 * 1024};
  return costs;
}

constexpr LinkDescription kMailboxLinks[] = {{kMailbox, builtInCosts}};

}  // namespace

uint64_t mailboxPuts() { return puts; }
void damageMailbox(int64_t message) { untilDamage = message; }

constinit const TransportEntry kMailboxEntry = {
    .name = "mailbox",
    .links = kMailboxLinks,
    .create = [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<MailboxTransport>(context.self.rank, context.sliceBytes));
    },
};

}  // namespace tutti::test

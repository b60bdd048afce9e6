#include "tests/support/mailbox.hpp"

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

struct Letter {
  Fingerprint call;
  std::vector<std::byte> bytes;
};

/// Both directions between two ranks, for one lane.
struct Mailbox {
  static constexpr size_t kMostLetters = 4;
  std::mutex mutex;
  std::array<std::deque<Letter>, 2> to;  // by side of the receiver
  std::array<bool, 2> closed = {};       // by side
  std::array<bool, 2> here = {};         // by side: it has begun to connect

  void come(size_t side) {
    const std::lock_guard lock(mutex);
    here[side] = true;
  }
  bool bothHaveCome() {
    const std::lock_guard lock(mutex);
    return here[0] && here[1];
  }
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

class MailboxChannel final : public Channel {
 public:
  MailboxChannel(int peer, size_t side, size_t slotBytes, std::shared_ptr<Mailbox> box)
      : peer_(peer), side_(side), box_(std::move(box)), staging_(slotBytes) {}
  ~MailboxChannel() override {
    const std::lock_guard lock(box_->mutex);
    box_->closed[side_] = true;
  }

  size_t slotBytes() const override { return staging_.size(); }

  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    const std::lock_guard lock(box_->mutex);
    TUTTI_ASSIGN(const bool room, hasRoom());
    if (room) box_->to[1 - side_].push_back({call, {data, data + bytes}});
    return room;
  }
  Result<std::span<std::byte>> reserve() override {
    const std::lock_guard lock(box_->mutex);
    TUTTI_ASSIGN(const bool room, hasRoom());
    return room ? std::span<std::byte>(staging_) : std::span<std::byte>();
  }
  Result<bool> commit(size_t bytes, const Fingerprint& call) override { return send(staging_.data(), bytes, call); }

  Result<const std::byte*> peek(const Expect& expect) override {
    const std::lock_guard lock(box_->mutex);
    TUTTI_TRY(failure_);
    if (box_->to[side_].empty()) {
      if (box_->closed[1 - side_]) failure_ = gone();
      TUTTI_TRY(failure_);
      return static_cast<const std::byte*>(nullptr);
    }
    const Letter& letter = box_->to[side_].front();  // stays where it is while others come
    seen_ = letter.call;
    failure_ = checkExpected(peer_, expect, letter.bytes.size(), letter.call);
    TUTTI_TRY(failure_);
    peeked_ = true;
    static const std::byte nothing{};
    return letter.bytes.empty() ? &nothing : letter.bytes.data();
  }
  void release() override {
    if (!peeked_) return;
    peeked_ = false;
    const std::lock_guard lock(box_->mutex);
    box_->to[side_].pop_front();
  }
  Result<bool> receive(std::byte* dst, const Expect& expect) override {
    TUTTI_ASSIGN(const std::byte* message, peek(expect));
    if (message == nullptr) return false;
    if (expect.bytes > 0) std::memcpy(dst, message, expect.bytes);
    release();
    return true;
  }
  std::optional<Fingerprint> pending() const override {
    const std::lock_guard lock(box_->mutex);
    if (box_->to[side_].empty()) return std::nullopt;
    return box_->to[side_].front().call;
  }

 private:
  Status gone() const { return remoteError("rank ", peer_, " has closed its mailbox"); }
  Result<bool> hasRoom() {
    if (failure_.ok() && box_->closed[1 - side_]) failure_ = gone();
    TUTTI_TRY(failure_);
    return box_->to[1 - side_].size() < Mailbox::kMostLetters;
  }

  const int peer_;
  const size_t side_;
  const std::shared_ptr<Mailbox> box_;
  std::vector<std::byte> staging_;
  bool peeked_ = false;
  Status failure_;
};

class MailboxTransport final : public Transport {
 public:
  explicit MailboxTransport(size_t slotBytes) : slotBytes_(slotBytes) {}

  std::string_view name() const override { return "mailbox"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override {
    if (self.rank == peer.rank) return invalidUsage("a rank is not its own peer");
    if (self.processId != peer.processId) return invalidUsage("they are in different processes");
    return kMailbox;
  }
  Address address() const override { return Address(reinterpret_cast<const char*>(&number_), sizeof number_); }
  PendingChannel beginConnect(int peer, const Address& peerAddress, int lane) override {
    uint64_t other = 0;
    const bool known = peerAddress.size() == sizeof other;
    if (known) std::memcpy(&other, peerAddress.data(), sizeof other);
    std::shared_ptr<Mailbox> box;
    if (known) box = openBox(std::min(number_, other), std::max(number_, other), lane);
    const size_t side = number_ < other ? 0 : 1;
    if (known) box->come(side);
    return channelBy([=, this]() -> Result<std::unique_ptr<Channel>> {
      if (!known) return remoteError("rank ", peer, " gave no address of a mailbox");
      if (!box->bothHaveCome()) return std::unique_ptr<Channel>();
      return std::unique_ptr<Channel>(std::make_unique<MailboxChannel>(peer, side, slotBytes_, box));
    });
  }

 private:
  static uint64_t next() {
    static std::atomic<uint64_t> numbers{0};
    return ++numbers;
  }
  const size_t slotBytes_;
  const uint64_t number_ = next();  // of this process
};

ProtocolCosts builtInCosts() {
  ProtocolCosts costs;
  costs[Protocol::Slots] = {.available = true, .cost = {0.5, 5}, .mostBytes = 128 * 1024};
  return costs;
}

constexpr LinkDescription kMailboxLinks[] = {{kMailbox, builtInCosts}};

}  // namespace

constinit const TransportEntry kMailboxEntry = {
    .name = "mailbox",
    .links = kMailboxLinks,
    .create = [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<MailboxTransport>(context.sliceBytes));
    },
};

}  // namespace tutti::test

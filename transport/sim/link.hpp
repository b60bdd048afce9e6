// Both ends of one simulated channel, and the stores that travel between them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/credits.hpp"
#include "transport/sim/fabric.hpp"

namespace tutti::sim {

struct Slot {
  size_t bytes = 0;
  Fingerprint call;
  const std::byte* direct = nullptr;  // set: the payload is here, in the sender's memory
  std::vector<std::byte> payload;
};

/// The memory of one end, written by events that the other end has posted.
struct End {
  int rank = 0;
  int node = 0;
  std::vector<Slot> slots;
  uint64_t posted = 0;
  uint64_t released = 0;
  Status broken;           // the link is gone
  Status closed;           // the peer has closed; what it sent before counts
  bool withdrawn = false;  // the peer has taken back what it offered
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(SimWorld& simWorld, const SimOptions& opts, int laneNumber) : world(simWorld), options(opts), lane(laneNumber) {}

  /// Run `store` on the memory of the end opposite to `side`, later.
  void post(int side, std::function<void(End&)> store);
  void postSlot(int side, uint32_t slot, Slot content);
  void close(int side);
  /// Both ends fail, each after a delay of its own.
  void breakDown(const char* why);
  void fail(int side, const Status& status, int64_t afterNs);
  int64_t someDelay() { return world.randomBetween(1'000, 1'000'000); }

  SimWorld& world;
  const SimOptions options;
  const int lane;
  End ends[2];
  bool down = false;
};

/// The Words of transport/credits.hpp: stores go to the other end, loads look at this one.
class Words {
 public:
  Words(Link* link, int side) : link_(link), side_(side) {}
  uint64_t posted() const { return link_->ends[side_].posted; }
  uint64_t released() const { return link_->ends[side_].released; }
  void setPosted(uint64_t value) {
    link_->post(side_, [value](End& end) { end.posted = value; });
  }
  void setReleased(uint64_t value) {
    link_->post(side_, [value](End& end) { end.released = value; });
  }

 private:
  Link* link_;
  int side_;
};

class SimChannel : public Channel {
 public:
  SimChannel(std::shared_ptr<Link> link, int side);
  ~SimChannel() override;

  size_t slotBytes() const override { return link_->options.slotBytes; }
  size_t maxDirectBytes() const override { return link_->options.maxDirectBytes; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<Ticket> offer(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  bool canOffer(const std::byte* data, size_t bytes) const override;
  Result<bool> taken(Ticket ticket) override;
  void withdraw() override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  std::optional<Fingerprint> pending() const override;

  /// "" or the rule of the counters that does not hold.
  std::string check() const;

 private:
  End& self() const { return link_->ends[side_]; }
  End& peer() const { return link_->ends[1 - side_]; }
  Status failed();
  Status failedToSend();
  Ticket publish(Slot content);

  std::shared_ptr<Link> link_;
  const int side_;
  SlotSender<Words> sender_;
  SlotReceiver<Words> receiver_;
  std::vector<std::byte> staging_;
  bool peeked_ = false;
  Status failure_;
};

}  // namespace tutti::sim

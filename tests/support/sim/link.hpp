// Both ends of one simulated endpoint, and the stores that travel between them.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/sim/fabric.hpp"
#include "transport/credits.hpp"

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

/// What all links of a fabric share: the world, and every rank's port.
struct Wires {
  Wires(SimWorld& simWorld, const SimOptions& opts, size_t nRanks)
      : world(simWorld), options(opts), sendFreeNs(nRanks, 0), receiveFreeNs(nRanks, 0) {}

  int64_t portNs(size_t bytes) const { return std::llround(options.nsPerByte * static_cast<double>(bytes)); }
  void changed(int rank) const {
    if (onArrival) onArrival(rank);
  }

  SimWorld& world;
  const SimOptions options;
  std::vector<int64_t> sendFreeNs, receiveFreeNs;  // by rank: when its port is free
  std::function<void(int)> onArrival;
};

/// Stores to the other end keep their order within a flow; credits need not wait for payload going the same way.
enum class Flow : uint8_t { Data, Credit };

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<Wires> sharedWires, int laneNumber)
      : wires(std::move(sharedWires)), world(wires->world), options(wires->options), lane(laneNumber) {}

  /// Run `store` on the memory of the end opposite to `side`, later.  bytes: what it takes of the ports' time.
  void post(int side, Flow flow, size_t bytes, std::function<void(End&)> store);
  void postSlot(int side, uint32_t slot, Slot content);
  void close(int side);
  /// Both ends fail, each after a delay of its own.
  void breakDown(const char* why);
  void fail(int side, const Status& status, int64_t afterNs);
  int64_t someDelay() { return world.randomBetween(1'000, 1'000'000); }

  const std::shared_ptr<Wires> wires;
  SimWorld& world;
  const SimOptions& options;
  const int lane;
  End ends[2];
  bool down = false;

 private:
  struct Times {
    int64_t headNs = 0;   // when the newest store's first byte is at the other end
    int64_t wholeNs = 0;  // and when the newest of those whose first byte has come is whole
    int coming = 0;       // those whose first byte has come and that are not whole
  };
  Times& times(int side, Flow flow) { return times_[side][static_cast<size_t>(flow)]; }
  void headArrived(int side, Flow flow, size_t bytes, std::function<void(End&)> store);
  void deliver(int side, Flow flow, const std::function<void(End&)>& store);

  Times times_[2][2];  // by side of the sender, flow
};

/// The Words of transport/credits.hpp: stores go to the other end, loads look at this one.
class Words {
 public:
  Words(Link* link, int side) : link_(link), side_(side) {}
  uint64_t posted() const { return link_->ends[side_].posted; }
  uint64_t released() const { return link_->ends[side_].released; }
  void setPosted(uint64_t value) {
    link_->post(side_, Flow::Data, 0, [value](End& end) { end.posted = value; });
  }
  void setReleased(uint64_t value) {
    link_->post(side_, Flow::Credit, 0, [value](End& end) { end.released = value; });
  }

 private:
  Link* link_;
  int side_;
};

/// The receiver's side of transport/credits.hpp, by posted() and setReleased().
class SlotReceiver {
 public:
  SlotReceiver(Words words, uint32_t nSlots) : words_(words), nSlots_(nSlots) {}

  /// The slot of the next message, or nothing while it has not come.  The same one until release().
  std::optional<uint32_t> arrived() {
    if (posted_ == released_) posted_ = words_.posted();
    if (posted_ == released_) return std::nullopt;
    return static_cast<uint32_t>(released_ % nSlots_);
  }
  /// The slot of arrived() is read; the sender may write it again.
  void release() { words_.setReleased(++released_); }
  bool check() const { return released_ <= posted_ && posted_ - released_ <= nSlots_; }

 private:
  Words words_;
  uint32_t nSlots_;
  uint64_t posted_ = 0;  // as last seen
  uint64_t released_ = 0;
};

class SimEndpoint : public Endpoint {
 public:
  SimEndpoint(std::shared_ptr<Link> link, int side);
  ~SimEndpoint() override;

  size_t slotBytes() const override { return link_->options.slotBytes; }
  size_t maxDirectBytes() const override { return link_->options.maxDirectBytes; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  bool canOffer(const std::byte* data, size_t bytes) const override;
  Result<bool> test(Request request) override;
  void cancel() override;
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
  Request publish(Slot content);

  std::shared_ptr<Link> link_;
  const int side_;
  SlotSender<Words> sender_;
  SlotReceiver receiver_;
  std::vector<std::byte> staging_;  // of slotBytes, once reserve() was called
  bool peeked_ = false;
  Status failure_;
};

}  // namespace tutti::sim

// The two-way endpoint between two ranks of one host, for one lane: an inbox in each rank's segment.
//
// Sending: look for room (the receiver's `consumed`, looked at only when our copy of it says "full"), write the bytes,
// then the control line with its sequence number last.  Receiving: wait for the sequence number that comes next, check
// what the line says against what is expected, use the bytes, store `consumed`.  So a small message costs one cache
// line that travels.  Credits ride in the lines of the other direction; where there are none, they cost one line in
// Layout::creditBatch() small messages.
//
// What is read from shared memory is read once, into a local, and bounds-checked there: a peer gone wild must not make
// us touch memory outside of what both have agreed on.
//
// A large message is announced before its bytes are there and then filled step by step, so that the receiver copies out
// while the sender copies in: half the time of one after the other.  A message larger than a slot goes in pieces, each
// a slot, in the same way. The sender's and the receiver's choice are independent: the receiver learns the kind from
// the control line.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "transport/shm/direct.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/outbox.hpp"
#include "transport/shm/segment.hpp"
#include "transport/transport.hpp"

namespace tutti::shm {

/// What an endpoint needs to know; all borrowed things outlive it.
struct EndpointEnds {
  int rank = 0;
  int peer = 0;
  int lane = 0;
  std::shared_ptr<Segment> mine;
  std::shared_ptr<Segment> theirs;
  std::shared_ptr<ShmOutbox> outbox;  // ours, of this lane
  AllocationExchange* allocations = nullptr;
  bool sameProcess = false;
  bool canPull = false;       // we may read the peer's memory with process_vm_readv
  bool mayOfferPull = false;  // TUTTI_CMA allows it
  pid_t peerPid = 0;
};

/// Direct messages between processes: what a receiver may have to stage in memory of its own when it peeks.
inline constexpr size_t kMaxDirectBetweenProcesses = size_t{1} << 20;
inline constexpr size_t kMaxDirectInProcess = size_t{1} << 40;

/// Grown on demand, never shrunk.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;
  ~StagingBuffer() { std::free(data_); }
  /// Memory of at least `bytes`, or nullptr.  Contents are lost when it grows.
  std::byte* atLeast(size_t bytes);

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The sender's view of a part of the ring for small messages: what lies there leaves in the order in which it came.
class SendRing {
 public:
  SendRing(size_t begin, size_t bytes) : begin_(begin), bytes_(bytes) {}
  /// Whether `bytes` in one piece are free, when all before `free` (an end() of earlier) is.
  bool fits(size_t bytes, uint64_t free) const { return placeOf(bytes) + bytes - free <= bytes_; }
  /// Takes `bytes`; gives their place in the whole ring.
  size_t take(size_t bytes) {
    const uint64_t place = placeOf(bytes);
    end_ = place + bytes;
    return begin_ + place % bytes_;
  }
  /// The end of what has been taken; it only grows, and its place in memory is that modulo the ring's size.
  uint64_t end() const { return end_; }
  /// The place where the next bytes will probably be, in the whole ring.
  size_t next() const { return begin_ + end_ % bytes_; }

 private:
  uint64_t placeOf(size_t bytes) const {
    const uint64_t offset = end_ % bytes_;
    return offset + bytes > bytes_ ? end_ + bytes_ - offset : end_;
  }
  size_t begin_;
  size_t bytes_;
  uint64_t end_ = 0;
};

class ShmEndpoint final : public Endpoint {
 public:
  explicit ShmEndpoint(EndpointEnds ends);
  ~ShmEndpoint() override;

  size_t slotBytes() const override { return slotBytes_; }
  size_t maxDirectBytes() const override {
    return ends_.sameProcess ? kMaxDirectInProcess : kMaxDirectBetweenProcesses;
  }
  size_t inlineBytes() const override { return kInlineBytes; }

  /// Takes up to maxDirectBytes(); more than slotBytes() goes in pieces.
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;

  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  /// Process-local memory can be offered to threads of this process, tuttiMemAlloc memory to every process, other
  /// memory where the peer has found that process_vm_readv works.  A message that cannot be offered can be sent.
  bool canOffer(const std::byte* data, size_t bytes) const override;
  /// tuttiMemAlloc memory, between processes.
  bool offersMapped(const std::byte* data, size_t bytes) const override;
  Outbox* outbox() override { return ends_.outbox.get(); }
  /// Announce `bytes` at `place` of our outbox.  0: no room yet.  The memory is the reader's until test() of it says
  /// true.
  Result<Request> share(uint64_t place, size_t bytes, const Fingerprint& call);
  Result<bool> test(Request request) override;
  void timeSends(int64_t beganNs) override { sendBeganNs_ = beganNs; }
  std::optional<int64_t> timedNs() const override;
  /// Waits while a thread of this process is between peek() and release() of one of our offers, or copies it.  So a
  /// rank that gives up releases all it has peeked at (release()) before it withdraws anything; otherwise two of them
  /// could wait for each other.
  void cancel() override;

  Result<const std::byte*> peek(const Expect& expect) override;
  Result<std::span<const std::byte>> peekPart(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  std::optional<Fingerprint> pending() const override;

 private:
  // What the control line of the next message says, checked.
  struct Head {
    Kind kind{};
    size_t bytes = 0;
    DirectPayload place{};
  };
  Status fail(Status why);

  bool hasLine();
  bool hasSlot();
  bool pickSlot();
  bool answered();
  std::array<uint64_t, 2>& ringEnds(uint64_t message) { return ringEnds_[message & (2 * lines_ - 1)]; }
  bool hasPlace(size_t bytes);
  bool goesInRing(size_t bytes);
  bool isAwaited() const;
  void seeConsumed();
  bool freed(uint64_t message) const;
  ControlLine& nextLine() { return out_.line(sent_); }
  void sayPlace(DirectPayload place) {
    place.beganNs = sendBeganNs_;
    std::memcpy(nextLine().payload, &place, sizeof place);
  }
  void post(Kind kind, size_t bytes, const Fingerprint& call);
  void fetchNextLine(Kind kind, size_t bytes);
  Result<bool> sendPieces(const std::byte* data, size_t bytes, const Fingerprint& call);
  void stream(Kind kind, const std::byte* data, size_t bytes, size_t messageBytes, const Fingerprint& call);
  Status describePlace(const std::byte* data, size_t bytes, Kind* kind, DirectPayload* place);

  bool arrived();
  const ControlLine& line() const { return in_.line(received_); }
  void noteCredit(uint32_t consumed);
  Status look(const Expect& expect, Head* head);
  Status checkBounds(const Head& head) const;
  Status refuse(const Expect& expect, const Fingerprint& call, size_t bytes);
  Result<const std::byte*> open(const Head& head);
  Result<const std::byte*> handOut(const Head& head);
  Status openMapped(const Head& head, const std::byte** data);
  bool claim();
  void unclaim();
  size_t filledOfSlot(size_t bytes) const;
  Result<bool> gather(std::byte* dst, const Head& head, size_t touchedBytes);
  void consume(Kind kind);
  void beginTiming(int64_t beganNs);
  void endTiming();
  void prefetchWhenBehind();

  const EndpointEnds ends_;
  const size_t slotBytes_;
  const uint32_t slots_;
  const uint32_t lines_;
  const uint32_t creditBatch_;  // of what we receive
  const bool sharedCores_;
  const size_t mostHotBytes_;
  const Inbox in_;   // in our segment: what the peer sends
  const Inbox out_;  // in the peer's segment: what we send
  Doorbell& peerBell_;

  // The sender's side.
  uint64_t sent_ = 0;                 // messages posted
  uint64_t seenConsumed_ = 0;         // of those, done with, as last seen
  uint32_t sendSlot_ = 0;             // of the next message that takes one
  bool reserved_ = false;             // somebody writes into it
  std::vector<uint64_t> lastInSlot_;  // per slot: number of the last message that took it
  std::array<SendRing, 2> rings_ = {SendRing(0, kHotBytes), SendRing(kHotBytes, kRingBytes - kHotBytes)};
  std::array<std::array<uint64_t, 2>, 2 * kCrowdedLines> ringEnds_{};  // by number of a message: after it
  size_t ring_ = 0;                                                    // of the next small message
  uint64_t receivedBefore_ = 0, sentBefore_ = 0;                       // what sent_ was when received_ had changed
  size_t sentOfPieces_ = 0;                                            // bytes of a message in pieces that are gone
  uint64_t filled_ = 0;                                                // what InboxHead::filled says
  int64_t sendBeganNs_ = 0;                                            // of messages that are timed, else 0
  uint64_t lastTimed_ = 0;                                             // number of the last one

  // The receiver's side.
  uint64_t received_ = 0;              // messages consumed
  uint32_t unwaited_ = 0;              // messages in a row that were there when we first looked
  bool waited_ = false;                // the next one was not
  uint32_t looks_ = 0;                 // for it, in vain
  std::atomic<uint64_t> asked_{0};     // messages that somebody asked for; read by pending() on any thread
  const std::byte* peeked_ = nullptr;  // what peek() has handed out
  bool peekedIsOurs_ = false;          // peeked_ is a copy; its messages are consumed already
  Kind peekedKind_{};
  bool claimed_ = false;       // we hold our claim on the peer's memory
  size_t peekedStream_ = 0;    // the size of peeked_, if it is a Stream
  uint64_t streamed_ = 0;      // bytes of all Stream and Piece messages consumed
  size_t gathered_ = 0;        // bytes of a message in pieces or steps that have been copied out
  bool timed_ = false;         // the sender asks what this message takes
  int64_t timedBeganNs_ = 0;   // when its send was called, and ...
  int64_t timedFromNs_ = 0;    // ... since when both ends are in it
  StagingBuffer staging_;      // for peek() of what cannot be read in place
  AllocationId lastMapped_{};  // the allocation of lastMapping_: most messages come from the same one
  std::shared_ptr<const Mapping> lastMapping_;

  Status failure_;
};

}  // namespace tutti::shm

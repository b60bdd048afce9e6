// An endpoint whose messages are copied by CUDA streams, between devices that can write each other's memory.
//
// Every method enqueues on the rank's stream what a host endpoint would do, and returns; data addresses are of device
// memory.  A message is a copy into a slot of the receiver's inbox.  Streams know of each other by words (inbox.hpp):
//   sender    wait busy[i] == 0; busy[i] = 1; copy to the peer's slot i; the peer's full[i] = 1
//   receiver  wait full[i] == 1; full[i] = 0; read slot i; the peer's busy[i] = 0
// A wait and the write after it are one operation, also with those of the next message; a write to the peer is enqueued
// before its host is told.  Values are constants, and each word alternates, so that captured calls can be replayed any
// number of times; NCCL's copy-engine collectives between devices (src/ce_coll.cc) capture such operations, too.
// Writes have the barrier that the driver gives them by default, and waits do without CU_STREAM_WAIT_VALUE_FLUSH, as
// those: it is for writes that do not come from GPUs.
//
// Why it cannot deadlock.  A stream waits only for words in its own device's memory, and only for a write that has been
// enqueued before: with each message the sender's host tells the receiver's host "enqueued" (over `tokens`), and with
// each release the receiver's tells the sender's (over `credits`); a wait is enqueued after that.  So the order in
// which the hosts of all ranks enqueue is one order in which everything can run, even by a device that runs all streams
// one operation at a time.  No kernel waits for anything.
//
// A message in memory that its sender has registered is not copied to the slot: the receiver reads it where it lies,
// and the sender waits for busy[i] == 0 before it writes there again (offer, taken).  Tokens say where a message is.
// Ranks of one process on one device can read all of each other's memory, and do so where the copy is worth it.
//
// Tokens carry the call's fingerprint, so ranks that disagree find out as on any endpoint.
#pragma once

#include <deque>

#include "src/device/cuda/stream.hpp"
#include "transport/cuda/inbox.hpp"
#include "transport/cuda/memory_exchange.hpp"
#include "transport/transport.hpp"

namespace tutti::cuda {

/// What the messages of `credits`, and the first of `tokens`, say of themselves: they belong to no call.
Fingerprint controlFingerprint();

/// The host endpoints that a stream endpoint stands on.  Borrowed; nothing else uses them.
struct HostPair {
  Endpoint* tokens = nullptr;
  Endpoint* credits = nullptr;
};

/// By which messages are read where they lie.
struct Lending {
  MemoryExchange* exchange = nullptr;  // borrowed; has what is registered
  int peer = 0;
  uint64_t peersProcess = 0;
  bool here = false;  // the peer is a rank of this process on this device, and told so, too
};

class StreamEndpoint : public Endpoint {
 public:
  /// ops: borrowed; says which stream the current call enqueues on.  processId: of this process.  The peer need not
  /// have come yet.  words, slots: as for makeInbox.  Errors: as makeInbox.
  static Result<std::unique_ptr<StreamEndpoint>> create(StreamOps& ops, const HostPair& hosts, const Lending& lending,
                                                        const InboxLayout& layout, const InboxRoom& words,
                                                        const InboxRoom& slots, uint64_t processId);

  size_t slotBytes() const override { return layout_.slotBytes; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  bool canOffer(const std::byte* data, size_t bytes) const override { return offersMapped(data, bytes); }
  bool offersMapped(const std::byte* data, size_t bytes) const override;
  size_t leastWholeBytes() const override { return lending_.here ? kLeastLentHere : SIZE_MAX; }
  /// Tickets are taken in order: who has taken one has taken those before it.
  Result<bool> test(Request request) override;
  /// Receivers have mappings of their own, and nothing to give back.
  void cancel() override {
    Endpoint::cancel();
    lent_.clear();
  }
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  std::optional<Fingerprint> pending() const override;

  /// All that messages have carried to the peer, bytes.
  uint64_t sentBytes() const { return sentBytes_; }
  /// The peer's memory is closed: nothing of this end's is under way, and no call comes any more.
  void closePeer();
  /// After a failure: let go of every wait that streams of this rank are in, by a write on `rescue`.  May have to be
  /// repeated until the streams have drained, because each wait is followed by others.
  Status letGo(Stream rescue) const;

 private:
  /// To read and write so much once more takes as long as an operation of a stream (0.5 us at 4 TB/s), and a sender of
  /// less need not wait for its receiver.
  static constexpr size_t kLeastLentHere = size_t{1} << 20;

  StreamEndpoint(StreamOps& ops, const HostPair& hosts, const Lending& lending, const InboxLayout& layout)
      : ops_(ops), hosts_(hosts), lending_(lending), layout_(layout) {}
  std::optional<LentPlace> placeToLend(const std::byte* data, size_t bytes) const;
  Result<const std::byte*> lentAddress(size_t bytes) const;
  Status tell();
  Result<bool> remembered(Result<bool> ofHost);
  Result<bool> meet();
  Result<bool> released(uint64_t messages);
  Result<bool> takeSlot();
  Result<bool> arrive(const Expect& expect);
  Status sendCredits();
  Result<bool> tellSent(size_t bytes, const Fingerprint& call);
  Status releaseSlot();
  const std::byte* arrivedAt() const;
  uint32_t sendSlot() const { return static_cast<uint32_t>(sent_ % layout_.slots); }
  uint32_t receiveSlot() const { return static_cast<uint32_t>(received_ % layout_.slots); }
  Address ownWord(size_t offset) const { return inbox_->words.address() + offset; }
  Address peersWord(size_t offset) const { return peer_->words() + offset; }

  StreamOps& ops_;
  HostPair hosts_;
  Lending lending_;
  InboxLayout layout_;
  std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<PeerInbox> peer_;  // null until its card has come
  InboxCard card_;                   // what this end tells
  bool told_ = false;
  uint64_t sent_ = 0;
  uint64_t sentBytes_ = 0;
  uint64_t credits_ = 0;  // messages of ours whose release has been enqueued
  uint64_t received_ = 0;
  uint64_t owed_ = 0;                    // credits that could not be sent yet
  bool reserved_ = false;                // the slot of message sent_ is ours
  bool written_ = false;                 // message sent_ is enqueued, but the peer's host does not know yet
  bool arrived_ = false;                 // message received_ is there and its wait enqueued
  LentPlace place_;                      // of message sent_
  LentPlace token_;                      // of message received_
  const std::byte* lentHere_ = nullptr;  // where it lies, if not in its slot
  std::deque<uint64_t> lent_;            // messages that the peer may still read, by their numbers
  Status error_;                         // the first of a host endpoint, or of release(), which cannot say so
};

}  // namespace tutti::cuda

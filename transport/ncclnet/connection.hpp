// Both ends' slots for messages over two comms of a plugin, one for each direction.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/private_pages.hpp"
#include "transport/ncclnet/payloads.hpp"
#include "transport/ncclnet/wire.hpp"
#include "transport/transport.hpp"

namespace tutti::ncclnet {

/// A message is one isend of header and payload, which an irecv of a whole slot waits for.  The peer's plugin holds
/// back what has no irecv yet, so that no credits travel.  One thread, but for header() and arrived().
///
/// Between two ranks on devices payloads go apart from their headers (payloads.hpp): from where they lie, or from
/// slots, to where the receiver wants them, or into slots, when it does.
///
/// Trouble (a call of the plugin's, the peer's end) is kept here, for the endpoint to say when it needs what does not
/// come any more: what came before counts.
class Connection {
 public:
  /// Whether the rank is on a device whose memory the plugin takes, and whether what comes there has to be flushed.
  enum class OnDevice : uint8_t { No, Ordered, Flushed };
  /// Listens.  stream: to the peer, through which its end shows.  Errors: SystemError, RemoteError.
  static Result<std::unique_ptr<Connection>> create(int peer, std::shared_ptr<Plugin> plugin, const Options& options,
                                                    Fd stream, OnDevice onDevice = OnDevice::No);
  /// Waits, as long as the plugin's closeNs() allow, until what was sent has left and each end's irecvs are done.
  ~Connection();

  const Card& card() const { return card_; }
  int stream() const { return stream_.get(); }
  /// Goes on connecting and accepting; true when both are done.  theirs: the same in every call; the plugin keeps its
  /// state there.  Errors: InvalidUsage: the two ends are not set alike; RemoteError; SystemError.
  Result<bool> connect(Card* theirs);
  /// After connect(): whether both ends are on devices.  Then the same for payloads: where this end listens, and
  /// connecting.  Errors: the same.
  bool payloadsApart() const { return card_.onDevice != 0 && theirsOnDevice_; }
  Result<PayloadCard> listenForPayloads();
  Result<bool> connectPayloads(PayloadCard* theirs);

  size_t slotBytes() const { return card_.slotBytes; }
  /// Calls the plugin for all that is under way, and looks now and then whether the peer is still there.  True if
  /// something has moved.
  bool drive();
  /// ok while nothing has failed.
  const Status& trouble() const { return trouble_; }
  /// Whether no message comes any more, and no payload.
  bool ended() const {
    const bool allHere = arrived_ >= theirEnd_.messages && (payloads_ == nullptr || payloads_->allReceived());
    return !trouble_.ok() && (deaf_ || allHere);
  }
  /// Give up everything; the peer finds out.
  void end();

  // ---- Sending, messages from 0 on.

  bool hasRoom() const { return written_ - sent_ < slots_; }
  /// Memory for the payload of the next message.
  std::byte* staging() { return staged(written_) + kHeaderBytes; }
  /// Send what is in staging(), or `data`; how many messages there are with it.  The caller has seen that there is
  /// room.
  uint64_t send(const std::byte* data, size_t bytes, const Fingerprint& call);
  /// Whether lend() and fetch() may be given such memory.
  bool takes(const std::shared_ptr<Region>& region) { return payloads_ != nullptr && payloads_->takes(region); }
  /// Send from memory of the region, which is the connection's until the message is sent.
  uint64_t lend(const std::byte* data, size_t bytes, const Fingerprint& call, const Region& region);
  /// Whether nothing of it waits for drive() to leave, or it never will.
  bool allSent() const { return sent_ == written_ || !trouble_.ok(); }
  /// Messages that the plugin is done with.  Those before may need drive() to leave.
  uint64_t sent() const { return sent_; }

  // ---- Receiving.

  uint64_t arrived() const { return arrived_.load(std::memory_order_acquire); }
  const Header& header(uint64_t message) const { return *reinterpret_cast<const Header*>(slot(message)); }
  const std::byte* payload(uint64_t message) const { return slot(message) + kHeaderBytes; }
  /// Whether the payload has to be fetched: messages in their order, each once.
  bool isApart(uint64_t message) const { return header(message).apart != 0; }
  /// Into memory of the region, or (both null) the message's slot.
  void fetch(uint64_t message, std::byte* into, const Region* region);
  bool isFetched(uint64_t message) const { return payloads_->received() >= fetches_[message % slots_]; }
  /// The first `messages` are done with.
  void giveBack(uint64_t messages) {
    givenBack_ = messages;
    fetched_ = std::max(fetched_, messages);
  }

 private:
  Connection(int peer, std::shared_ptr<Plugin> plugin, const Options& options, Fd stream, OnDevice onDevice);
  Status registerSlots();
  std::byte* slot(uint64_t message) const { return memory_.data() + message % slots_ * stride_; }
  std::byte* staged(uint64_t message) const { return slot(message) + slots_ * stride_; }
  bool driveSends();
  bool driveReceives();
  bool drivePayloads();
  void fetchTheRest();
  bool take(size_t bytes);
  void write(const Header& header);
  void sayEnd();
  bool isTold() const { return told_ == sizeof theirEnd_; }
  bool isOver() const;
  void close();
  void lookAtStream();
  void failed(const char* call, Code code);
  void fail(Status why);
  std::string who() const { return comms_.who(); }

  const int peer_;
  const std::shared_ptr<Plugin> plugin_;
  Net& net_;
  const Fd stream_;
  const size_t slots_, stride_;
  Card card_;
  Comms comms_;
  const OnDevice onDevice_;
  bool theirsOnDevice_ = false;
  std::shared_ptr<Payloads> payloads_;  // null: they go with their headers
  PrivatePages memory_;                 // the receiving slots, and as many to send from
  void* sendMemory_ = nullptr;          // its two halves, as the plugin knows them
  void* receiveMemory_ = nullptr;
  bool up_ = false;
  std::vector<void*> sends_, receives_;            // requests, by message % slots_; null: done
  std::vector<uint64_t> payloadOf_, fetches_;      // numbers of payloads that go apart, the same; 0: none does
  uint64_t written_ = 0, started_ = 0, sent_ = 0;  // messages, in the order of what happens to them
  uint64_t fetched_ = 0;                           // messages whose payload, if any comes apart, has been asked for
  uint64_t posted_ = 0, givenBack_ = 0, mostPosted_ = UINT64_MAX;
  std::atomic<uint64_t> arrived_{0};
  uint64_t farewells_ = 0;  // that have come
  Status trouble_;
  bool mute_ = false, deaf_ = false;  // the comm that sends, and that which receives, is of no more use
  bool saidEnd_ = false;
  End theirEnd_;     // of a peer that has closed its end
  size_t told_ = 0;  // bytes of it
  bool gone_ = false;
  uint32_t looks_ = 0;
};

}  // namespace tutti::ncclnet

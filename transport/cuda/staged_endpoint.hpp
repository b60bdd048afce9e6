// An endpoint for device memory over any host endpoint: bytes pass through pinned host memory, unless the host endpoint
// takes memory of devices itself.
//
// Where adapters read and write registered memory of devices (LinkProfile::registers), a message is sent from a slot of
// device memory, so that its sender may go on before the receiver has taken it, and arrives where it is to be if that
// is registered, else in such a slot, too.  What is posted goes from where it lies.  What has arrived is flushed before
// the stream hears of it.
//
// For a thread that serves a device and may poll: copies are enqueued on the stream of `ops`, and a message goes to the
// host endpoint when its copy has ended.  What arrives is copied to the device and is there for whatever is enqueued
// later.  On the wire nothing differs from a rank on the host, so either end may be one.
//
// While a message is under way, streams of the program wait for it, and whatever waits for the device then waits for
// ever.  An allocation of pinned memory may do that.  So an endpoint that finds none in the reserve makes do with
// ordinary memory, for which the driver copies twice, and gets pinned memory at a later call.
#pragma once

#include <mutex>
#include <vector>

#include "src/device/cuda/pinned.hpp"
#include "src/device/cuda/stream.hpp"
#include "transport/cuda/adapter_access.hpp"
#include "transport/cuda/adapter_slots.hpp"
#include "transport/transport.hpp"

namespace tutti::cuda {

/// Pinned memory for those who may not wait for it.  Any thread.
class PinnedReserve {
 public:
  /// Of `bytes`; empty if there is none.
  PinnedMemory take(size_t bytes);
  /// fill() is to get one more of `bytes`.
  void want(size_t bytes);
  bool wants();
  /// Allocates what is wanted: while nothing waits for who needs it.  Does what it can.
  void fill(const std::shared_ptr<const CudaDevice>& device);

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<PinnedMemory> free_;
  std::vector<size_t> wanted_;  // bytes
};

class StagedEndpoint : public Endpoint {
 public:
  /// How bytes get to the host endpoint.
  enum class Staging : uint8_t {
    Pinned,
    None,     // its transport takes memory of devices (LinkProfile::memory)
    Adapter,  // and has it registered; what no slot is there for is pinned
  };
  /// For what goes from and to the device's memory.
  struct Adapter {
    AdapterSlots* slots = nullptr;  // of Staging::Adapter; borrowed
    bool flushes = false;           // LinkProfile::flushes
  };
  /// ops, host and reserve are borrowed; nothing else uses host.  Memory is taken at first use.
  StagedEndpoint(StreamOps& ops, Endpoint* host, PinnedReserve* reserve, Staging staging, Adapter adapter)
      : ops_(ops), host_(host), reserve_(reserve), staging_(staging), adapter_(adapter), flush_(*ops.device()) {}
  /// The stream must have ended what was enqueued here.
  ~StagedEndpoint() override = default;

  size_t slotBytes() const override { return host_->slotBytes(); }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override { peeked_ = false; }
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  std::optional<Fingerprint> pending() const override { return host_->pending(); }
  bool hasLeft() const override { return host_->hasLeft(); }

  /// Adapters: whether they know the memory, which they then read where it lies.
  bool takes(const std::byte* data, size_t bytes) const override {
    return staging_ != Staging::Adapter || host_->takes(data, bytes);
  }
  /// 0 also while the stream has yet to come to it.
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<bool> test(Request request) override;
  /// Without staging the host endpoint may be in the middle of a message.
  void cancel() override {
    Endpoint::cancel();
    host_->cancel();
    incoming_ = 0;
  }
  /// While the host endpoint is there, and no call comes any more: adapters write this rank's memory no longer.
  void leave() {
    if (incoming_ != 0) cancel();
  }
  /// What messages have carried, bytes: from the host's memory to the peer, from the device's, and into the host's.
  uint64_t sentBytes() const { return sentBytes_; }
  uint64_t sentByAdapter() const { return sentByAdapter_; }
  uint64_t receivedStaged() const { return receivedStaged_; }

 private:
  /// A slot in host memory, and the event after which it may be used again or read.  Without staging the event alone.
  struct Bounce {
    PinnedMemory pinned;
    std::unique_ptr<std::byte[]> ordinary;  // until there is pinned memory
    EventHandle event;
    bool busy = false;
    std::byte* data() const { return pinned.data() != nullptr ? pinned.data() : ordinary.get(); }
  };
  /// A message that an adapter sends from device memory.
  struct Lent {
    AdapterSlot slot;
    Bounce copied;
    Request request = 0;  // under way
  };
  /// By what a message goes or comes, from its first call to its last.
  enum class Way : uint8_t { Undecided, Host, Slot, Straight };
  Status prepare(Bounce* bounce);
  Status prepareEvent(Bounce* bounce);
  Status begin(const std::byte* data, size_t bytes);
  Result<bool> sendStaged(const std::byte* data, size_t bytes, const Fingerprint& call);
  Result<Way> beginLent(const std::byte* data, size_t bytes);
  Result<bool> sendLent(const std::byte* data, size_t bytes, const Fingerprint& call);
  Result<bool> receiveStaged(std::byte* dst, const Expect& expect);
  Result<Way> beginReceive(const std::byte* dst, size_t bytes);
  Result<bool> receiveByAdapter(std::byte* dst, const Expect& expect);
  Status flush() const { return adapter_.flushes ? flush_() : Status(); }
  Result<bool> receiveStraight(std::byte* dst, const Expect& expect);
  Status mark(Bounce* bounce);
  Result<bool> settled(Bounce* bounce);
  Result<std::byte*> stage(DeviceMemory* memory);
  Result<bool> remembered(Result<bool> ofHost);

  StreamOps& ops_;
  Endpoint* host_;
  PinnedReserve* reserve_;
  Staging staging_;
  Adapter adapter_;
  WriteFlush flush_;
  Bounce out_, in_, posted_;
  Lent lent_[2];  // by turns
  int turn_ = 0;
  AdapterSlot slotIn_;
  Request incoming_ = 0;
  Way sends_ = Way::Undecided, receives_ = Way::Undecided;
  uint64_t sentBytes_ = 0, sentByAdapter_ = 0, receivedStaged_ = 0;
  bool posting_ = false;    // posted_ says when the stream has come to what postSend() is about
  bool sending_ = false;    // out_ has, or is getting, the message that send() is about
  bool receiving_ = false;  // without staging: in_ says when the message's memory is free
  bool peeked_ = false;     // stagedIn_ holds the next message
  DeviceMemory stagedIn_, stagedOut_;
  Status error_;  // the first of the host endpoint
};

}  // namespace tutti::cuda

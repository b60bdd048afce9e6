#include "transport/self/self_transport.hpp"

#include <array>
#include <mutex>
#include <new>

#include "src/base/assert.hpp"
#include "src/base/copy.hpp"

namespace tutti {
namespace {

class SelfEndpoint final : public Endpoint {
 public:
  SelfEndpoint(int rank, size_t slotBytes, std::unique_ptr<std::byte[]> buffer)
      : rank_(rank), slotBytes_(slotBytes), buffer_(std::move(buffer)) {}

  size_t slotBytes() const override { return slotBytes_; }
  size_t maxDirectBytes() const override { return size_t{1} << 40; }

  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    if (!failure_.ok()) return failure_;
    TUTTI_ASSERT_CMP(bytes, <=, slotBytes_);
    if (!hasRoom(bytes)) return false;
    storeBytes(buffer_.get(), data, bytes);
    push({buffer_.get(), bytes, call});
    return true;
  }
  Result<std::span<std::byte>> reserve() override {
    if (!failure_.ok()) return failure_;
    return hasRoom(slotBytes_) ? std::span<std::byte>(buffer_.get(), slotBytes_) : std::span<std::byte>();
  }
  Result<bool> commit(size_t bytes, const Fingerprint& call) override {
    if (!failure_.ok()) return failure_;
    TUTTI_ASSERT_CMP(bytes, <=, slotBytes_);
    TUTTI_ASSERT(hasRoom(bytes));
    push({buffer_.get(), bytes, call});
    return true;
  }
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    if (!failure_.ok()) return failure_;
    if (withdrawn_ || !hasRoom(0)) return Request{0};
    push({data, bytes, call});
    return Request{sent_};
  }
  bool canOffer(const std::byte*, size_t) const override { return true; }
  Result<bool> test(Request request) override {
    if (request >= kSendInLine) return Endpoint::test(request);
    if (received_ >= request) return true;
    if (!failure_.ok()) return failure_;
    return false;
  }
  // One thread is both ends, so nobody can be reading now.
  void cancel() override {
    Endpoint::cancel();
    withdrawn_ = true;
  }

  Result<const std::byte*> peek(const Expect& expect) override {
    if (!failure_.ok()) return failure_;
    if (received_ == sent_) return static_cast<const std::byte*>(nullptr);
    TUTTI_TRY(check(expect));
    peeked_ = true;
    // A token has no bytes, and may have been offered from nowhere.
    return first().bytes == 0 ? static_cast<const std::byte*>(buffer_.get()) : first().data;
  }
  void release() override {
    if (!peeked_) return;
    peeked_ = false;
    pop();
  }
  Result<bool> receive(std::byte* dst, const Expect& expect) override {
    if (!failure_.ok()) return failure_;
    if (received_ == sent_) return false;
    TUTTI_TRY(check(expect));
    if (first().data != dst) storeBytes(dst, first().data, first().bytes);
    pop();
    return true;
  }
  std::optional<Fingerprint> pending() const override {
    const std::lock_guard lock(mutex_);
    if (received_ == sent_) return std::nullopt;
    return messages_[received_ % kSelfMessages].call;
  }

 private:
  struct Message {
    const std::byte* data = nullptr;
    size_t bytes = 0;
    Fingerprint call;
  };
  const Message& first() const { return messages_[received_ % kSelfMessages]; }

  // Copied bytes share the one buffer; tokens and offers do not need it.
  bool hasRoom(size_t bytes) const {
    return sent_ - received_ < kSelfMessages && (bytes == 0 || received_ >= bufferUse_);
  }
  void push(const Message& message) {
    const std::lock_guard lock(mutex_);
    messages_[sent_ % kSelfMessages] = message;
    ++sent_;
    if (message.bytes != 0 && message.data == buffer_.get()) bufferUse_ = sent_;
  }
  void pop() {
    const std::lock_guard lock(mutex_);
    ++received_;
  }
  Status check(const Expect& expect) {
    const Message& message = first();
    if (withdrawn_)
      return failure_ = remoteError(ErrorCode::Aborted, "rank ", rank_, " has given up its messages to itself");
    if (message.call == expect.call && message.bytes == expect.bytes) return {};
    seen_ = message.call;
    failure_ = invalidUsage(ErrorCode::CallsDiffer, "rank ", rank_, " disagrees with itself: it expects ", expect.bytes,
                            " bytes of ", describeCall(expect.call), ", but has sent itself ", message.bytes,
                            " bytes of ", describeCall(message.call));
    return failure_;
  }

  const int rank_;
  const size_t slotBytes_;
  const std::unique_ptr<std::byte[]> buffer_;
  mutable std::mutex mutex_;  // for pending() on other threads; only one thread changes anything
  std::array<Message, kSelfMessages> messages_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t bufferUse_ = 0;  // number of the last message that lies in buffer_
  bool peeked_ = false;
  bool withdrawn_ = false;
  Status failure_;
};

class SelfTransport final : public Transport {
 public:
  SelfTransport(int rank, size_t slotBytes) : rank_(rank), slotBytes_(slotBytes) {}
  std::string_view name() const override { return "self"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override {
    if (self.rank != peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "it joins a rank with itself alone");
    return LinkProfile{.key = "self", .mapped = true};
  }
  Address address() const override { return {}; }
  PendingEndpoint beginConnect(int peer, const Address&, int) override {
    return endpointBy([this, peer]() -> Result<std::unique_ptr<Endpoint>> {
      if (peer != rank_)
        return internalError(ErrorCode::PartMisused, "self: rank ", rank_, " cannot connect to rank ", peer);
      std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[slotBytes_]);
      if (buffer == nullptr) return systemError(ErrorCode::NoMemory, "no memory for ", slotBytes_, " bytes");
      return std::unique_ptr<Endpoint>(std::make_unique<SelfEndpoint>(rank_, slotBytes_, std::move(buffer)));
    });
  }

 private:
  const int rank_;
  const size_t slotBytes_;
};

}  // namespace

std::unique_ptr<Transport> createSelfTransport(int rank, size_t slotBytes) {
  return std::make_unique<SelfTransport>(rank, slotBytes);
}

}  // namespace tutti

// An endpoint over verbs: the contract of messages over one Connection.
#pragma once

#include <atomic>
#include <memory>

#include "src/base/fifo.hpp"
#include "transport/credits.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/connection.hpp"

namespace tutti::verbs {

/// Messages are copied into the receiver's slots.  Posted sends of more than a little are lent instead: what travels is
/// where they lie, and the receiver's adapter reads them straight to where they are to be.  They take their turn in the
/// slots, and are done when that is released.  Memory of devices is read and written by adapters alone: what is sent
/// from it is lent whatever its size, and what was copied and is for such memory is read where the sender has it
/// staged.
class VerbsEndpoint final : public Endpoint, private Served {
 public:
  VerbsEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Registry> registry);
  ~VerbsEndpoint() override;

  size_t slotBytes() const override { return connection_->slotBytes(); }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;

  bool takes(const std::byte* data, size_t bytes) const override;
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<Request> postReceive(std::byte* dst, const Expect& expect) override;
  Result<bool> test(Request request) override;
  void cancel() override;
  std::optional<Fingerprint> pending() const override;

 private:
  void goOn(bool some) override;
  void beforeSleep() override { connection_->tellOfSleep(); }
  struct Words {
    Connection* connection;
    uint64_t released() const { return connection->released(); }
    void setPosted(uint64_t) {}
  };
  struct Posted {
    std::byte* dst;
    Expect expect;
    Keys keys;
    bool isRead = false;  // where the peer has it, being lent or for memory of a device
  };
  /// The number of the next message to send, of so many bytes, if there is room for it.
  Result<std::optional<uint64_t>> claim(size_t bytes);
  Status sentOne(Status how);
  /// Whether something has completed.  Errors: the failure, if one has been said before.
  Result<bool> look();
  /// As peek(); what is lent is read to dst, unless that is null or not registered.
  Result<const std::byte*> next(const Expect& expect, std::byte* dst);
  /// The next message, which has come: readable where it is, or being read there.
  Result<const std::byte*> found(const Expect& expect, std::byte* dst);
  Status check(uint64_t message, const Expect& expect);
  Status serve();
  Status begin(Posted* next, uint64_t message);
  void taken(bool lent);
  bool isDone(Request request);
  Status remember(Status status);

  const int peer_;
  const std::unique_ptr<Connection> connection_;
  const std::shared_ptr<Registry> registry_;
  SlotSender<Words> sender_;
  uint64_t sent_ = 0;
  uint64_t numLent_ = 0;
  Fifo<uint64_t> lent_;  // messages that the peer may still read where they lie: their numbers from 1 on
  Fifo<Posted> posted_;
  size_t begun_ = 0;                // of those: their messages have come
  uint64_t done_ = 0;               // posted receives
  std::atomic<uint64_t> taken_{0};  // messages
  bool fetching_ = false;           // the next message is lent, and being read
  std::byte* into_ = nullptr;       // to here; null: to its slot
  bool held_ = false;               // release() is due
  uint32_t misses_ = 0;             // looks at the next message's slot that found nothing
  Status failure_;
};

}  // namespace tutti::verbs

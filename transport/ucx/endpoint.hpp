// An endpoint over UCX: the contract of messages over one Connection.
#pragma once

#include <memory>

#include "src/base/fifo.hpp"
#include "transport/connection_endpoint.hpp"
#include "transport/memory_table.hpp"
#include "transport/ucx/connection.hpp"

namespace tutti::ucx {

using Registry = MemoryTable<Keys>;

/// Polled messages leave from slots and stay in memory of UCX's until they are read.  Posted ones leave from where they
/// lie; UCX copies the small ones and brings others straight to where they are to be (rendezvous).  A polled message is
/// sent when UCX is done with it: what it has merely begun may need calls of ours to leave, and a rank that has sent
/// makes none.  Memory of devices is UCX's alone to read and write: what is sent from it is posted, and UCX brings what
/// has come for it, however small.
class UcxEndpoint final : public ConnectionEndpoint<Connection>, private Served {
 public:
  UcxEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Registry> registry);
  ~UcxEndpoint() override;

  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;

  bool takes(const std::byte* data, size_t bytes) const override;
  bool hasLeft() const override;
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<Request> postReceive(std::byte* dst, const Expect& expect) override;
  Result<bool> test(Request request) override;
  void cancel() override;
  std::optional<Fingerprint> pending() const override;

 private:
  struct Posted {
    std::byte* dst;
    Expect expect;
    Keys memory;
  };
  using Lock = std::lock_guard<std::mutex>;
  void goOn(bool some) override;
  void beforeSleep() override;
  Result<const std::byte*> peekLocked(const Expect& expect);
  void releaseLocked();
  Status serve();
  bool isDone(Request request) const;
  /// Whether UCX brings the message, and nobody copies it.
  bool isFetched(const Posted& posted, uint64_t message) const {
    return posted.memory.onDevice || connection_->isLent(message);
  }

  const std::shared_ptr<Registry> registry_;
  std::mutex& mutex_;  // the worker's
  Fifo<Posted> posted_;
  size_t begun_ = 0;      // of those: their messages have come
  uint64_t done_ = 0;     // posted receives
  uint64_t taken_ = 0;    // messages
  bool fetches_ = false;  // the message that is peeked at is on its way
  bool held_ = false;     // release() is due
};

}  // namespace tutti::ucx

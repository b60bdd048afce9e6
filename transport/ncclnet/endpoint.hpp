// An endpoint over a plugin: the contract of messages over one Connection.
#pragma once

#include <atomic>
#include <memory>

#include "src/base/fifo.hpp"
#include "transport/connection_endpoint.hpp"
#include "transport/ncclnet/connection.hpp"
#include "transport/ncclnet/endpoints.hpp"

namespace tutti::ncclnet {

/// Messages are copied into slots and out of them.  A message is sent when the plugin is done with it: what it has
/// merely begun may need calls of ours to leave, and a rank that has sent makes none.
///
/// Between ranks on devices payloads leave when the receiver asks for them, so a polled message is sent when it is
/// taken, and hasLeft() says until when calls are needed.  Requests use registered memory there.
class NcclnetEndpoint final : public ConnectionEndpoint<Connection>, private Served {
 public:
  /// registry: of a rank on a device; null: it is on none.
  NcclnetEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Endpoints> all,
                  std::shared_ptr<Registry> registry = nullptr);
  ~NcclnetEndpoint() override;

  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;

  bool takes(const std::byte* data, size_t bytes) const override;
  bool hasLeft() const override { return connection_->allSent(); }
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<Request> postReceive(std::byte* dst, const Expect& expect) override;
  Result<bool> test(Request request) override;
  void cancel() override;
  std::optional<Fingerprint> pending() const override;

 private:
  struct Posted {
    std::byte* dst;
    Expect expect;
    std::shared_ptr<Region> region;  // where payloads come apart
  };
  /// What holds this memory and may be used by the connection's requests, if any.
  std::shared_ptr<Region> find(const std::byte* data, size_t bytes) const;
  static Status notRegistered(size_t bytes);
  bool goOn() override;
  Status serve();
  void taken();
  bool isDone(Request request) const;

  const std::shared_ptr<Endpoints> all_;
  const std::shared_ptr<Registry> registry_;
  Fifo<Posted> posted_;
  size_t begun_ = 0;                // of those: their messages have come
  uint64_t done_ = 0;               // posted receives
  std::atomic<uint64_t> taken_{0};  // messages
  bool fetches_ = false;            // the message that is peeked at is on its way
  bool held_ = false;               // release() is due
};

}  // namespace tutti::ncclnet

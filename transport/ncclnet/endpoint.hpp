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
class NcclnetEndpoint final : public ConnectionEndpoint<Connection>, private Served {
 public:
  NcclnetEndpoint(int peer, std::unique_ptr<Connection> connection, std::shared_ptr<Endpoints> all);
  ~NcclnetEndpoint() override;

  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;

  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<Request> postReceive(std::byte* dst, const Expect& expect) override;
  Result<bool> test(Request request) override;
  void cancel() override;
  std::optional<Fingerprint> pending() const override;

 private:
  struct Posted {
    std::byte* dst;
    Expect expect;
  };
  bool goOn() override;
  Status serve();
  void taken();
  bool isDone(Request request) const;

  const std::shared_ptr<Endpoints> all_;
  Fifo<Posted> posted_;
  uint64_t done_ = 0;               // posted receives
  std::atomic<uint64_t> taken_{0};  // messages
  bool held_ = false;               // release() is due
};

}  // namespace tutti::ncclnet

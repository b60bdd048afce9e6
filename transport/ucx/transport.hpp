// The ucx transport of one rank of one communicator.
#pragma once

#include <memory>

#include "transport/services.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/endpoint.hpp"

namespace tutti {

/// Joins ranks by UCX.  beginConnect() and registerMemory(): any thread, also while endpoints are in use; those, and
/// the sleeper, belong to one thread.  `streams` must outlive it; its endpoints may outlive it.
class UcxTransport final : public Transport {
 public:
  /// device: of the rank, or null.
  UcxTransport(StreamExchange& streams, int rank, const ucx::Options& options,
               std::shared_ptr<const AdapterAccess> device = nullptr);

  std::string_view name() const override { return "ucx"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override;
  /// Empty where UCX is not to be had; else "ucx1 " and the worker's address.
  Address address() const override;
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override;
  Result<std::unique_ptr<MemoryRegistration>> registerMemory(const Memory& memory) override;
  bool progress() override { return worker_.ok() && (*worker_)->progress(); }
  Sleeper* sleeper() override { return worker_.ok() ? worker_->get() : nullptr; }

 private:
  StreamExchange& streams_;
  const int rank_;
  const ucx::Options options_;
  const Result<std::shared_ptr<ucx::Worker>> worker_;
  const bool takesDevice_;  // UCX reads and writes memory of the rank's device
  const std::shared_ptr<ucx::Registry> registry_ = std::make_shared<ucx::Registry>();
};

}  // namespace tutti

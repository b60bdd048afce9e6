// The ncclnet transport of one rank of one communicator.
#pragma once

#include <memory>

#include "transport/ncclnet/connection.hpp"
#include "transport/ncclnet/endpoints.hpp"
#include "transport/services.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Joins ranks by a network plugin written for NCCL.  beginConnect(): any thread, also while endpoints are in use;
/// those, and the sleeper, belong to one thread.  `streams` must outlive it; its endpoints may outlive it.
///
/// Of a rank on a device whose memory the plugin takes requests use registered memory alone, which goes straight
/// between two such ranks.
class NcclnetTransport final : public Transport {
 public:
  /// device: of the rank; null: it is on none.
  NcclnetTransport(StreamExchange& streams, int rank, const ncclnet::Options& options,
                   std::shared_ptr<const AdapterAccess> device = nullptr);

  std::string_view name() const override { return "ncclnet"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override;
  /// Empty where there is no plugin with a device; else "ncclnet2 " and the plugin's name.
  Address address() const override;
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override;
  /// Any thread.  Errors: InvalidUsage: memory of a device that is not for the plugin; AdapterAccess::dmaBuf()'s.
  Result<std::unique_ptr<MemoryRegistration>> registerMemory(const Memory& memory) override;
  bool progress() override { return endpoints_.ok() && (*endpoints_)->progress(); }
  Sleeper* sleeper() override { return endpoints_.ok() ? endpoints_->get() : nullptr; }

 private:
  void tryDevice();
  ncclnet::Connection::OnDevice onDevice() const;

  StreamExchange& streams_;
  const int rank_;
  const ncclnet::Options options_;
  const Result<std::shared_ptr<ncclnet::Plugin>> plugin_;
  const Result<std::shared_ptr<ncclnet::Endpoints>> endpoints_;
  std::shared_ptr<const AdapterAccess> device_;  // null: nothing is done with its memory
  const std::shared_ptr<ncclnet::Registry> registry_ = std::make_shared<ncclnet::Registry>();
};

}  // namespace tutti

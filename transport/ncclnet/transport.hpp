// The ncclnet transport of one rank of one communicator.
#pragma once

#include <memory>

#include "transport/ncclnet/endpoints.hpp"
#include "transport/ncclnet/plugin.hpp"
#include "transport/services.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Joins ranks by a network plugin written for NCCL.  beginConnect(): any thread, also while endpoints are in use;
/// those, and the sleeper, belong to one thread.  `streams` must outlive it; its endpoints may outlive it.
class NcclnetTransport final : public Transport {
 public:
  NcclnetTransport(StreamExchange& streams, int rank, const ncclnet::Options& options);

  std::string_view name() const override { return "ncclnet"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override;
  /// Empty where there is no plugin with a device; else "ncclnet1 " and the plugin's name.
  Address address() const override;
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override;
  bool progress() override { return endpoints_.ok() && (*endpoints_)->progress(); }
  Sleeper* sleeper() override { return endpoints_.ok() ? endpoints_->get() : nullptr; }

 private:
  StreamExchange& streams_;
  const int rank_;
  const ncclnet::Options options_;
  const Result<std::shared_ptr<ncclnet::Plugin>> plugin_;
  const Result<std::shared_ptr<ncclnet::Endpoints>> endpoints_;
};

}  // namespace tutti

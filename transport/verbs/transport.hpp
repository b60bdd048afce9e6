// The verbs transport of one rank of one communicator.
#pragma once

#include <memory>
#include <mutex>

#include "transport/services.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/completions.hpp"

namespace tutti {

/// Joins ranks through adapters of InfiniBand or RoCE.  beginConnect() and registerMemory(): any thread, also while
/// endpoints are in use; those, and the sleeper, belong to one thread.  `streams` must outlive it; its endpoints may
/// outlive it.
class VerbsTransport final : public Transport {
 public:
  /// device: of which adapters are given memory; null: of none.
  VerbsTransport(StreamExchange& streams, int rank, const verbs::Options& options,
                 std::shared_ptr<const AdapterAccess> device = nullptr);

  std::string_view name() const override { return "verbs"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override;
  /// Empty where there is no device; else "verbs3 mlx5_0:1,mlx5_1:1", the ports, which errors name.
  Address address() const override;
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override;
  Result<std::unique_ptr<MemoryRegistration>> registerMemory(const Memory& memory) override;
  bool progress() override;
  Sleeper* sleeper() override;

 private:
  Result<std::shared_ptr<verbs::Completions>> completions();
  void tryDevice();

  StreamExchange& streams_;
  const int rank_;
  const verbs::Options options_;
  const Result<verbs::Rails> rails_;
  std::shared_ptr<const AdapterAccess> device_;  // whose memory adapters read and write, or null
  const std::shared_ptr<verbs::Registry> registry_ = std::make_shared<verbs::Registry>();
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<verbs::Completions> completions_;
};

}  // namespace tutti

// What ranks lend each other of their devices' memory.  Owns what says who reads this rank's, what this rank has opened
// of other processes', and the exchange of registered memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/comm/peer_descriptor.hpp"
#include "transport/cuda/memory_exchange.hpp"

namespace tutti {

/// How long peers may take to close registered memory after a failure.
inline constexpr int kReadersAfterFailureMs = 5000;

/// One thread at a time, but for lend() and reader().
class MemoryLending {
 public:
  /// rank: this one.
  MemoryLending(std::shared_ptr<const cuda::CudaDevice> device, int rank) : device_(std::move(device)), rank_(rank) {}
  /// First.  Errors: SystemError.
  Status create();

  /// With these, this rank takes memory that others may open.
  const std::shared_ptr<cuda::Readers>& readers() const { return readers_; }
  /// Before others open such memory: lets them say that they have.  services: borrowed.  Errors: SystemError.
  Status serve(FdExchange& services);
  /// Before memory of the peer is opened: has its owner see that.  False: not yet.
  Result<bool> beginReading(const PeerDescriptor& peer);
  Status awaitReading(const PeerDescriptor& peer, Deadline deadline);
  /// Opens what a rank of another process offers, and keeps it open.  Errors: RemoteError; Timeout.
  Status open(const PeerDescriptor& owner, const std::string& offered, Deadline deadline);

  /// Where streams carry messages: from now on registered memory can be lent.  settle: as ExchangeRank's.
  void lendOver(std::function<bool()> settle);
  /// Null where it cannot.
  cuda::MemoryExchange* exchange() const { return exchange_.get(); }
  /// Lends memory to the peers under `key`, if it can be lent.  Errors: as MemoryExchange::lend.
  Status lend(uint64_t key, const void* buffer, size_t bytes);
  /// No device reads what is lent under `key`, or the communicator has `failed`: ends it.
  void end(uint64_t key, bool failed);
  /// Then: waits until no rank has the memory open any more, once `failed` for a while only.  Errors: Timeout.
  Status awaitReaders(uint64_t key, Deadline deadline, const std::function<bool()>& failed) const;

  /// Closes what this rank has opened.  No device reads it, and none will.
  void closePeers();
  /// Nothing is called back any more.
  void stop();
  /// Services may go; what is open stays so.
  void retire();

 private:
  std::shared_ptr<const cuda::CudaDevice> device_;
  int rank_;
  FdExchange* services_ = nullptr;  // once others can open memory of this rank's
  std::shared_ptr<cuda::Readers> readers_;
  std::map<int, PendingFd> readingBegun_;  // by peer of another process: what reading takes, on its way
  std::map<int, cuda::Reading> reading_;   // by peer of another process; until all of its memory is closed
  std::vector<cuda::IpcMemory> opened_;    // stays open for endpoints
  std::unique_ptr<cuda::MemoryExchange> exchange_;
};

}  // namespace tutti

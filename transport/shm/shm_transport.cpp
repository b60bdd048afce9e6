#include "transport/shm/shm_transport.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "src/base/caught.hpp"
#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "transport/shm/board.hpp"
#include "transport/shm/direct.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/entry.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_endpoint.hpp"

namespace tutti {
namespace shm {
namespace {

// What travels as Address.  Only ever read by the same build on the same host (reach()), so memory order is kept.
struct WireAddress {
  uint64_t magic = kMagic;
  SegmentId id;
  uint64_t processId = 0;
  uint64_t headerAddress = 0;  // in the owner's process: what the probe of process_vm_readv reads
  int32_t pid = 0;
  uint32_t version = kVersion;
};

std::string keyOf(const SegmentId& id) { return cat("shm:", toHex(&id, sizeof id)); }

/// Where claimLane() keeps boards.
constexpr int boardLane(BoardUse use) { return -1 - static_cast<int>(use); }

class ShmTransport final : public Transport {
 public:
  ShmTransport(const ShmConfig& config, std::shared_ptr<Segment> segment, FdExchange& exchange)
      : config_(config),
        segment_(std::move(segment)),
        exchange_(exchange),
        allocations_(exchange),
        sleeper_(segment_) {}
  ~ShmTransport() override {
    // Without memory for its key the segment stays there until the communicator goes.
    (void)caught([this]() -> Status {
      exchange_.unserve(keyOf(segment_->id()));
      return {};
    });
  }

  std::string_view name() const override { return "shm"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override {
    if (self.rank == peer.rank) return invalidUsage(ErrorCode::TransportAbsent, "a rank is not its own peer");
    if (self.hostId != peer.hostId) return invalidUsage(ErrorCode::TransportAbsent, "they are on different hosts");
    if (self.uid != peer.uid)
      return invalidUsage(ErrorCode::TransportAbsent, "they run as users ", self.uid, " and ", peer.uid);
    return self.processId == peer.processId ? kShmThreads : kShmProcesses;
  }
  Address address() const override;
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override;
  bool hasBoards() const override { return true; }
  PendingEndpoint publisher(BoardUse use, std::vector<Address> byRank) override;
  PendingEndpoint subscriber(BoardUse use, int peer, const Address& peerAddress) override;
  Sleeper* sleeper() override { return &sleeper_; }

 private:
  Result<std::unique_ptr<Endpoint>> connect(int peer, const Address& peerAddress, int lane);
  Result<WireAddress> parseAddress(int peer, int lane, const Address& address) const;
  Status checkArguments(int peer, int lane) const;
  Status claimLane(int peer, int lane);
  Result<std::shared_ptr<Segment>> segmentOf(int peer, const WireAddress& address);
  bool probePull(const WireAddress& address) const;
  std::shared_ptr<ShmOutbox> outboxOf(int lane);

  const ShmConfig config_;
  const std::shared_ptr<Segment> segment_;
  FdExchange& exchange_;
  AllocationExchange allocations_;
  FutexSleeper sleeper_;
  std::mutex mutex_;
  std::set<std::pair<int, int>> connected_;             // under mutex_: (peer, lane)
  std::map<int, std::shared_ptr<Segment>> segments_;    // under mutex_: by peer
  std::map<int, PendingFd> fetching_;                   // under mutex_: segments of peers that are on their way
  std::map<int, std::shared_ptr<ShmOutbox>> outboxes_;  // under mutex_: by lane
};

Address ShmTransport::address() const {
  WireAddress a;
  a.id = segment_->id();
  a.processId = config_.self.processId;
  a.headerAddress = reinterpret_cast<uintptr_t>(&segment_->header());
  a.pid = getpid();
  return Address(reinterpret_cast<const char*>(&a), sizeof a);
}

Status ShmTransport::checkArguments(int peer, int lane) const {
  if (peer < 0 || peer >= config_.nRanks || peer == config_.self.rank) {
    return internalError(ErrorCode::PartMisused, "shm: rank ", config_.self.rank, " cannot connect to rank ", peer);
  }
  const int lanes = static_cast<int>(segment_->layout().lanes);
  if (lane < 0 || lane >= lanes) return internalError(ErrorCode::PartMisused, "shm: lane ", lane, " of ", lanes);
  return {};
}

// The counters in the segments go on from one message to the next for ever; a second endpoint would start at 0 again.
Status ShmTransport::claimLane(int peer, int lane) {
  const std::lock_guard lock(mutex_);
  if (connected_.emplace(peer, lane).second) return {};
  return internalError(ErrorCode::PartMisused, "shm: lane ", lane, " to rank ", peer, " is connected already");
}

/// Null while it has not come.
Result<std::shared_ptr<Segment>> ShmTransport::segmentOf(int peer, const WireAddress& address) {
  const std::lock_guard lock(mutex_);
  if (const auto at = segments_.find(peer); at != segments_.end()) return at->second;
  const auto fetch = [&]() -> Result<Fd> {
    PendingFd& fetching = fetching_[peer];
    if (fetching == nullptr) fetching = exchange_.fetch(peer, keyOf(address.id));
    return fetching->poll();
  };
  Result<std::shared_ptr<Segment>> segment = Segment::open(address.id, peer, segment_->layout(), fetch);
  if (segment.ok() && *segment == nullptr) return segment;
  if (segment.ok() && config_.keepFromChildren) (*segment)->keepFromChildren();
  fetching_.erase(peer);
  if (segment.ok()) segments_[peer] = *segment;
  return segment;
}

// Whether the kernel lets us read the peer's memory, and the process is the one we mean (pid namespaces).
bool ShmTransport::probePull(const WireAddress& address) const {
  if (!config_.cma) return false;
  SegmentId found;
  const iovec local{&found, sizeof found};
  const iovec remote{reinterpret_cast<void*>(address.headerAddress + offsetof(SegmentHeader, id)), sizeof found};
  const ssize_t got = process_vm_readv(address.pid, &local, 1, &remote, 1, 0);
  if (got == sizeof found && found == address.id) return true;
  TUTTI_INFO("shm", "rank ", config_.self.rank, ": process_vm_readv of process ", address.pid,
             " is not possible (errno ", got < 0 ? errno : 0, ")");
  return false;
}

std::shared_ptr<ShmOutbox> ShmTransport::outboxOf(int lane) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ShmOutbox>& outbox = outboxes_[lane];
  if (outbox == nullptr) outbox = std::make_shared<ShmOutbox>(segment_, lane);
  return outbox;
}

Result<WireAddress> ShmTransport::parseAddress(int peer, int lane, const Address& text) const {
  TUTTI_TRY(checkArguments(peer, lane));
  WireAddress address;
  if (text.size() != sizeof address) {
    return remoteError(ErrorCode::Malformed, "shm: rank ", peer, " gave an address of ", text.size(), " bytes");
  }
  std::memcpy(&address, text.data(), sizeof address);
  if (address.magic != kMagic || address.version != kVersion) {
    return remoteError(ErrorCode::Malformed, "shm: rank ", peer, " gave an address of another version");
  }
  return address;
}

PendingEndpoint ShmTransport::publisher(BoardUse use, std::vector<Address> byRank) {
  return endpointBy([this, use, byRank = std::move(byRank),
                     readers = std::vector<std::shared_ptr<Segment>>()]() mutable -> Result<std::unique_ptr<Endpoint>> {
    const int self = config_.self.rank;
    const auto rankOf = [self](size_t reader) { return static_cast<int>(reader) + (static_cast<int>(reader) >= self); };
    while (readers.size() + 1 < byRank.size()) {
      const int peer = rankOf(readers.size());
      TUTTI_ASSIGN(const WireAddress address, parseAddress(peer, 0, byRank[static_cast<size_t>(peer)]));
      TUTTI_ASSIGN(std::shared_ptr<Segment> segment, segmentOf(peer, address));
      if (segment == nullptr) return std::unique_ptr<Endpoint>();
      readers.push_back(std::move(segment));
    }
    TUTTI_TRY(claimLane(self, boardLane(use)));
    segment_->populateBoard(use);
    return std::unique_ptr<Endpoint>(std::make_unique<Publisher>(use, self, segment_, std::move(readers)));
  });
}

PendingEndpoint ShmTransport::subscriber(BoardUse use, int peer, const Address& peerAddress) {
  return endpointBy([=, this]() -> Result<std::unique_ptr<Endpoint>> {
    TUTTI_ASSIGN(const WireAddress address, parseAddress(peer, 0, peerAddress));
    TUTTI_ASSIGN(std::shared_ptr<Segment> segment, segmentOf(peer, address));
    if (segment == nullptr) return std::unique_ptr<Endpoint>();
    TUTTI_TRY(claimLane(peer, boardLane(use)));
    segment->populateBoard(use);
    return std::unique_ptr<Endpoint>(std::make_unique<Subscriber>(use, config_.self.rank, peer, std::move(segment)));
  });
}

PendingEndpoint ShmTransport::beginConnect(int peer, const Address& peerAddress, int lane) {
  return endpointBy([=, this] { return connect(peer, peerAddress, lane); });
}

/// Null while the peer's segment has not come.
Result<std::unique_ptr<Endpoint>> ShmTransport::connect(int peer, const Address& peerAddress, int lane) {
  TUTTI_ASSIGN(const WireAddress address, parseAddress(peer, lane, peerAddress));
  EndpointEnds ends;
  ends.rank = config_.self.rank;
  ends.peer = peer;
  ends.lane = lane;
  ends.mine = segment_;
  TUTTI_ASSIGN(ends.theirs, segmentOf(peer, address));
  if (ends.theirs == nullptr) return std::unique_ptr<Endpoint>();
  TUTTI_TRY(claimLane(peer, lane));
  ends.outbox = outboxOf(lane);
  ends.allocations = &allocations_;
  ends.sameProcess = address.processId == config_.self.processId && address.pid == getpid();
  ends.canPull = !ends.sameProcess && probePull(address);
  ends.mayOfferPull = config_.cma;
  ends.peerPid = address.pid;
  ends.mine->populateControl(peer, lane);
  ends.theirs->populateControl(ends.rank, lane);
  return std::unique_ptr<Endpoint>(std::make_unique<ShmEndpoint>(std::move(ends)));
}

}  // namespace
}  // namespace shm

Result<ShmConfig> ShmConfig::fromEnvironment(const PeerInfo& self, int nRanks) {
  ShmConfig config;
  config.self = self;
  config.nRanks = nRanks;
  TUTTI_ASSIGN(config.slots, configInteger("TUTTI_SLOTS"));
  TUTTI_ASSIGN(config.slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  TUTTI_ASSIGN(const int64_t cma, configInteger("TUTTI_CMA"));
  config.cma = cma != 0;
  return config;
}

Result<std::unique_ptr<Transport>> createShmTransport(const ShmConfig& config, FdExchange& exchange) {
  TUTTI_ASSIGN(const shm::Layout layout, shm::Layout::fit(config.nRanks, config.lanes, config.slots, config.slotBytes,
                                                          config.sharedCores ? shm::kCrowdedLines : shm::kLines));
  TUTTI_ASSIGN(std::shared_ptr<shm::Segment> segment, shm::Segment::create(config.self.rank, layout));
  if (config.keepFromChildren) segment->keepFromChildren();
  TUTTI_TRY(exchange.serve(shm::keyOf(segment->id()), segment->fd()));
  TUTTI_DEBUG("shm", "rank ", config.self.rank, ": ", config.slots, " slots of ", config.slotBytes,
              " bytes in each FIFO; peers' memory is read ", config.cma ? "where that is permitted" : "nowhere");
  return std::unique_ptr<Transport>(std::make_unique<shm::ShmTransport>(config, std::move(segment), exchange));
}

}  // namespace tutti

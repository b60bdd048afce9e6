#include "src/comm/links.hpp"

#include "src/base/log.hpp"

namespace tutti {

Links::Links(int rank, std::vector<std::unique_ptr<Transport>> transports)
    : rank_(rank), transports_(std::move(transports)) {}

std::vector<std::pair<std::string, Address>> Links::addresses() const {
  std::vector<std::pair<std::string, Address>> result;
  for (const auto& transport : transports_) result.emplace_back(transport->name(), transport->address());
  return result;
}

// The first that reaches; else why none does.
Result<Links::Way> Links::wayBetween(const PeerInfo& self, const PeerInfo& peer) const {
  std::string reasons;
  for (const auto& transport : transports_) {
    const Result<LinkProfile> link = transport->reach(self, peer);
    if (link.ok()) return Way{transport.get(), *link};
    reasons += cat(reasons.empty() ? "" : "; ", transport->name(), ": ", link.status().message());
  }
  return invalidUsage(reasons);
}

Status Links::meet(std::vector<PeerDescriptor> descriptors) {
  descriptors_ = std::move(descriptors);
  const PeerInfo& self = descriptors_[static_cast<size_t>(rank_)].info;
  for (const PeerDescriptor& descriptor : descriptors_) {
    const Result<Way> way = wayBetween(self, descriptor.info);
    if (!way.ok()) {
      return invalidUsage("no transport that TUTTI_TRANSPORTS allows joins rank ", rank_, " and rank ",
                          descriptor.info.rank, " (host ", descriptor.hostName, ").  ", way.status().message());
    }
    byPeer_.push_back(*way);
  }
  for (const auto& transport : transports_) {
    bool used = false;
    for (const Way& mine : byPeer_) used = used || mine.transport == transport.get();
    if (used && transport->sleeper() != nullptr) sleepers_.push_back(transport->sleeper());
  }
  return {};
}

std::optional<LinkProfile> Links::linkBetween(int a, int b) const {
  const Result<Way> way =
      wayBetween(descriptors_[static_cast<size_t>(a)].info, descriptors_[static_cast<size_t>(b)].info);
  return way.ok() ? std::optional(way->link) : std::nullopt;
}

bool Links::isOpen(int peer, int lane) const { return channels_.count({peer, lane}) != 0; }

Result<Channel*> Links::channel(int peer, int lane, Deadline deadline) {
  if (const auto open = channels_.find({peer, lane}); open != channels_.end()) return open->second.get();
  Transport* transport = transportTo(peer);
  TUTTI_ASSIGN(const Address* address, addressOf(peer, *transport));
  TUTTI_DEBUG("comm", "rank ", rank_, " peer ", peer, " lane ", lane, ": opening ", linkTo(peer).key);
  TUTTI_ASSIGN(std::unique_ptr<Channel> connected, transport->connect(peer, *address, lane, deadline));
  if (transport->wantsProgress()) pumped_.push_back(connected.get());
  return keep(peer, lane, std::move(connected));
}

Channel* Links::keep(int peer, int lane, std::unique_ptr<Channel> channel) {
  const std::lock_guard lock(mutex_);
  return (channels_[{peer, lane}] = std::move(channel)).get();
}

Result<const Address*> Links::addressOf(int peer, const Transport& transport) const {
  for (const auto& [name, theirs] : descriptors_[static_cast<size_t>(peer)].transports) {
    if (name == transport.name()) return &theirs;
  }
  return invalidUsage("rank ", peer, " does not offer transport ", transport.name(), " that rank ", rank_,
                      " would use; set TUTTI_TRANSPORTS alike on all ranks");
}

bool Links::hasBoards() const {
  const Transport* common = nullptr;
  for (int peer = 0; peer < static_cast<int>(byPeer_.size()); ++peer) {
    if (peer == rank_) continue;
    const Transport* transport = transportTo(peer);
    if (!transport->hasBoards() || (common != nullptr && common != transport)) return false;
    common = transport;
  }
  return common != nullptr;
}

Status Links::openBoards(Deadline deadline) {
  if (isOpen(kEveryone, kBoardLane)) return {};
  Transport* transport = transportTo(rank_ == 0 ? 1 : 0);
  std::vector<const Address*> byRank(byPeer_.size(), nullptr);
  for (int peer = 0; peer < static_cast<int>(byRank.size()); ++peer) {
    if (peer == rank_) continue;
    TUTTI_ASSIGN(const Address* address, addressOf(peer, *transport));
    byRank[static_cast<size_t>(peer)] = address;
    if (isOpen(peer, kBoardLane)) continue;
    TUTTI_ASSIGN(std::unique_ptr<Channel> subscriber, transport->subscriber(peer, *address, deadline));
    keep(peer, kBoardLane, std::move(subscriber));
  }
  TUTTI_ASSIGN(std::unique_ptr<Channel> publisher, transport->publisher(byRank, deadline));
  keep(kEveryone, kBoardLane, std::move(publisher));
  return {};
}

// A channel that fails here says so again to whoever uses it next.
void Links::progress() {
  for (Channel* channel : pumped_) (void)channel->progress();
}

void Links::close() {
  pumped_.clear();
  const std::lock_guard lock(mutex_);
  channels_.clear();
}

}  // namespace tutti

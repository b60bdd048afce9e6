#include "src/comm/links.hpp"

#include <algorithm>

#include "src/base/log.hpp"

namespace tutti {

Links::Links(int rank, std::vector<std::unique_ptr<Transport>> transports)
    : rank_(rank), transports_(std::move(transports)) {}

std::vector<std::pair<std::string, Address>> Links::addresses() const {
  std::vector<std::pair<std::string, Address>> result;
  for (const auto& transport : transports_) result.emplace_back(transport->name(), transport->address());
  return result;
}

namespace {

/// Whether the rank has said that it has nothing to be reached by.
bool lacks(const PeerDescriptor& descriptor, std::string_view transport) {
  const auto& all = descriptor.transports;
  const auto found = std::ranges::find(all, transport, &std::pair<std::string, Address>::first);
  return found != all.end() && found->second.empty();
}

}  // namespace

// The first that reaches; else why none does.  What a rank itself cannot be reached by, it knows best why.
Result<Links::Route> Links::routeBetween(int self, int peer) const {
  const PeerDescriptor& a = descriptors_[static_cast<size_t>(self)];
  const PeerDescriptor& b = descriptors_[static_cast<size_t>(peer)];
  std::string reasons;
  for (const auto& transport : transports_) {
    Result<LinkProfile> link = transport->reach(a.info, b.info);
    for (const PeerDescriptor* rank : {&a, &b}) {
      if (!link.ok() || self == peer || !lacks(*rank, transport->name())) continue;
      link = invalidUsage(ErrorCode::TransportAbsent, "rank ", rank->info.rank,
                          " has no device for it; TUTTI_LOG=", transport->name(), ":debug there says why");
    }
    if (link.ok()) return Route{transport.get(), *link};
    reasons += cat(reasons.empty() ? "" : "; ", transport->name(), ": ", link.status().message());
  }
  return invalidUsage(ErrorCode::TransportAbsent, reasons);
}

Status Links::meet(std::vector<PeerDescriptor> descriptors) {
  descriptors_ = std::move(descriptors);
  for (const PeerDescriptor& descriptor : descriptors_) {
    const Result<Route> way = routeBetween(rank_, descriptor.info.rank);
    if (!way.ok()) {
      return invalidUsage(ErrorCode::NoTransport, "no transport that TUTTI_TRANSPORTS allows joins rank ", rank_,
                          " and rank ", descriptor.info.rank, " (host ", descriptor.hostName,
                          "): ", way.status().message(), "; add one that does, or leave TUTTI_TRANSPORTS unset");
    }
    byPeer_.push_back(*way);
  }
  for (const auto& transport : transports_) {
    bool used = false;
    for (const Route& mine : byPeer_) used = used || mine.transport == transport.get();
    if (!used) continue;
    used_.push_back(transport.get());
    if (transport->sleeper() != nullptr) sleepers_.push_back(transport->sleeper());
  }
  return {};
}

std::optional<LinkProfile> Links::linkBetween(int a, int b) const {
  const Result<Route> way = routeBetween(a, b);
  return way.ok() ? std::optional(way->link) : std::nullopt;
}

Result<Endpoint*> Links::endpoint(int peer, int lane) {
  const std::pair key(peer, lane);
  lastAsked_ = peer;
  if (const auto open = endpoints_.find(key); open != endpoints_.end()) return open->second.get();
  if (opening_.contains(key)) return static_cast<Endpoint*>(nullptr);
  Transport* transport = transportTo(peer);
  TUTTI_ASSIGN(const Address* address, addressOf(peer, *transport));
  TUTTI_DEBUG("comm", "rank ", rank_, " peer ", peer, " lane ", lane, ": opening ", linkTo(peer).key);
  opening_[key] = transport->beginConnect(peer, *address, lane);
  return advance(key);  // most are there at once
}

PendingEndpoint Links::beginProbe(int peer, int lane) const {
  Transport* transport = transportTo(peer);
  const Result<const Address*> address = addressOf(peer, *transport);
  return address.ok() ? transport->beginConnect(peer, **address, lane) : refusedEndpoint(address.status());
}

Result<Endpoint*> Links::await(int peer, int lane, Deadline deadline) {
  const auto ask = [&]() -> Result<Endpoint*> {
    TUTTI_TRY(poll());
    return endpoint(peer, lane);
  };
  return awaitValue(ask, deadline, cat("its link to rank ", peer));
}

Status Links::poll() {
  for (auto next = opening_.begin(); next != opening_.end();) {
    const std::pair key = (next++)->first;
    TUTTI_TRY(asStatus(advance(key)));
  }
  return {};
}

Result<Endpoint*> Links::advance(std::pair<int, int> key) {
  const auto opening = opening_.find(key);
  Result<std::unique_ptr<Endpoint>> opened = opening->second->poll();
  if (opened.ok() && *opened == nullptr) return static_cast<Endpoint*>(nullptr);
  opening_.erase(opening);
  TUTTI_TRY(opened.status());
  Endpoint* const endpoint = opened->get();
  const std::lock_guard lock(mutex_);
  endpoints_[key] = std::move(*opened);
  return endpoint;
}

int Links::openingTo() const {
  for (const auto& [key, opening] : opening_) {
    if (key.first != kEveryone) return key.first;
  }
  return lastAsked_;
}

Result<const Address*> Links::addressOf(int peer, const Transport& transport) const {
  for (const auto& [name, theirs] : descriptors_[static_cast<size_t>(peer)].transports) {
    if (name == transport.name()) return &theirs;
  }
  return invalidUsage(ErrorCode::SettingsDiffer, "rank ", peer, " does not offer transport ", transport.name(),
                      " that rank ", rank_, " would use; set TUTTI_TRANSPORTS alike on all ranks");
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

Result<bool> Links::openBoards(BoardUse use) {
  Transport* transport = transportTo(rank_ == 0 ? 1 : 0);
  std::vector<Address> byRank(byPeer_.size());
  bool open = true;
  const auto begin = [&](int peer, auto opening) -> Status {
    const std::pair key(peer, laneOf(use));
    if (endpoints_.contains(key)) return {};
    if (!opening_.contains(key)) opening_[key] = opening();
    TUTTI_ASSIGN(const Endpoint* endpoint, advance(key));
    open = open && endpoint != nullptr;
    return {};
  };
  for (int peer = 0; peer < static_cast<int>(byRank.size()); ++peer) {
    if (peer == rank_) continue;
    TUTTI_ASSIGN(const Address* address, addressOf(peer, *transport));
    byRank[static_cast<size_t>(peer)] = *address;
    TUTTI_TRY(begin(peer, [&] { return transport->subscriber(use, peer, *address); }));
  }
  TUTTI_TRY(begin(kEveryone, [&] { return transport->publisher(use, byRank); }));
  return open;
}

/// The transport that seems to join the two, if it takes memory of the first one's device.
Transport* Links::takerOfDeviceMemory(const PeerInfo& self, const PeerInfo& peer) const {
  for (const auto& transport : transports_) {
    const Result<LinkProfile> link = transport->reach(self, peer);
    if (link.ok()) return link->registers && link->memory.has(MemoryKind::Device) ? transport.get() : nullptr;
  }
  return nullptr;
}

bool Links::mayGiveDeviceMemory(const PeerInfo& self, const PeerInfo& peer) const {
  Transport* const taker = takerOfDeviceMemory(self, peer);
  if (taker != nullptr && std::ranges::find(takeDevice_, taker) == takeDevice_.end()) takeDevice_.push_back(taker);
  return taker != nullptr;
}

bool Links::giveAllDeviceMemory(const std::vector<PeerDescriptor>& peers) const {
  const PeerInfo& self = peers[static_cast<size_t>(rank_)].info;
  return std::ranges::all_of(peers, [&](const PeerDescriptor& peer) {
    return peer.info.hostId == self.hostId || takerOfDeviceMemory(self, peer.info) != nullptr;
  });
}

Result<std::vector<std::unique_ptr<MemoryRegistration>>> Links::registerDeviceMemory(const Memory& memory) const {
  std::vector<std::unique_ptr<MemoryRegistration>> kept;
  for (Transport* transport : takeDevice_) {
    TUTTI_ASSIGN(auto one, transport->registerMemory(memory));
    if (one != nullptr) kept.push_back(std::move(one));
  }
  return kept;
}

void Links::tell(Registrations* registrations) const {
  for (const auto& transport : transports_) {
    const auto uses = [&](const Route& way) { return way.transport == transport.get() && way.link.registers; };
    const auto way = std::ranges::find_if(byPeer_, uses);
    if (way != byPeer_.end()) registrations->tell(transport.get(), way->link.memory);
  }
}

void Links::progress() {
  for (Transport* transport : used_) (void)transport->progress();
}

void Links::close() {
  opening_.clear();
  const std::lock_guard lock(mutex_);
  endpoints_.clear();
}

}  // namespace tutti

#include "transport/cuda/memory_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/device/cuda/alloc.hpp"
#include "transport/cuda/process_table.hpp"

namespace tutti::cuda {
namespace {

constexpr int64_t kFetchLentTimeoutMs = 10'000;
/// How long the last one waits for readers of a communicator that has failed.
constexpr int64_t kLastReadersMs = 1000;
constexpr const char* kBellKey = "device bell";

std::string pagesKey(uint64_t id) { return cat("device memory:", id); }
std::string cardKey(uint64_t id) { return cat("device card:", id); }

Result<Fd> fetch(FdExchange& services, int peer, const std::string& key, Deadline deadline) {
  return awaitValue(*services.fetch(peer, key), deadline, cat("'", key, "' of rank ", peer));
}

}  // namespace

struct LentMemory {
  uint64_t id = 0;                   // in ProcessTable<LentMemory>
  Address base = 0;                  // of all that is opened, as the owner has it
  size_t mapped = 0;                 // its bytes
  Address begin = 0;                 // of what was registered
  size_t bytes = 0;                  // from there
  DevicePages pages;                 // or
  IpcOffer offer;                    // a handle
  std::shared_ptr<const void> held;  // against tuttiMemFree; the owner's alone
  std::shared_ptr<const Readers> readers;
  bool pagesGiven() const { return offer.given == 0; }
  bool lent() const { return readers->ended() == MemoryEnd::Open; }
};

MemoryEnd MemoryExchange::Opened::ended() const {
  return shared != nullptr ? shared->readers->ended() : reading.ended();
}

MemoryExchange::MemoryExchange(std::shared_ptr<const CudaDevice> device, ExchangeRank self)
    : device_(std::move(device)), self_(std::move(self)), callBacks_([this] { closeCalledBack(); }) {}

MemoryExchange::~MemoryExchange() {
  closeAll();  // first: others may be waiting for this rank, as it may for them
  retire();
}

void MemoryExchange::retire() {
  stop();
  const std::lock_guard lock(mutex_);
  for (const auto& [key, lent] : lent_) withdraw(*lent, MemoryEnd::Failed);
  bell_.ring();
  const Deadline last = Deadline::inMs(kLastReadersMs);
  for (const auto& [key, lent] : lent_) {
    while (!lent->pagesGiven() && lent->readers->reader() && !last.passed()) pauseBetweenLooks();
    if (lent->pagesGiven() || !lent->readers->reader()) continue;
    TUTTI_WARN("cuda", "rank ", *lent->readers->reader(), " still has memory open that rank ", self_.rank,
               " had registered at ", reinterpret_cast<void*>(lent->begin), "; do not free it before that rank ends");
  }
  for (const auto& [key, lent] : lent_) lent->held.reset();
  lent_.clear();
}

// ---- The owner.

Result<bool> MemoryExchange::lend(uint64_t key, const void* buffer, size_t bytes) {
  if (bytes == 0) return false;
  auto lent = std::make_shared<LentMemory>();
  lent->begin = addressOf(buffer);
  lent->bytes = bytes;
  LentCard card;
  Fd descriptor;
  Result<DevicePages> pages = DevicePages::behind(device_, buffer);
  {
    const CudaScope scope(*device_);
    const Error found = device_->driver().cuMemGetAddressRange(&lent->base, &lent->mapped, lent->begin);
    if (found != kSuccess || lent->begin - lent->base + bytes > lent->mapped) return false;  // goes on in other pages
  }
  if (pages.ok()) {
    Result<Fd> exported = pages->descriptor();
    if (!exported.ok()) return false;  // made not to be shared
    descriptor = std::move(*exported);
    lent->pages = std::move(*pages);
  } else {
    TUTTI_ASSIGN(const MemoryInfo info, device_->memoryInfo(buffer));
    if (info.kind == MemoryInfo::Kind::OnDevice && info.device == device_->ordinal()) {
      lent->offer = offerByIpc(*device_, lent->base);
    }
    if (lent->offer.given == 0) return false;  // managed or pinned memory, or of a pool
  }
  lent->held = holdDeviceMemory(buffer);
  TUTTI_ASSIGN(const std::shared_ptr<Readers> readers, Readers::create());
  card.bytes = lent->mapped;
  card.offer = lent->offer;
  static_assert(sizeof card <= Readers::kNoteBytes);
  std::memcpy(readers->note(), &card, sizeof card);
  lent->readers = readers;
  ProcessTable<LentMemory>::get().add(lent);
  const std::lock_guard lock(mutex_);
  TUTTI_TRY(serve(*lent, descriptor));
  lent_[key] = std::move(lent);
  return true;
}

/// With the lock.
Status MemoryExchange::serve(const LentMemory& lent, const Fd& pages) {
  if (!lent.pagesGiven() && !bell_.made()) {
    TUTTI_TRY(bell_.make());
    TUTTI_TRY(self_.services.serve(kBellKey, bell_.descriptor()));
  }
  TUTTI_TRY(self_.services.serve(cardKey(lent.id), lent.readers->descriptor()));
  if (!lent.pagesGiven()) return {};
  const Status served = self_.services.serve(pagesKey(lent.id), pages.get());
  if (!served.ok()) self_.services.unserve(cardKey(lent.id));
  return served;
}

void MemoryExchange::end(uint64_t key, MemoryEnd how) {
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(key);
  if (found == lent_.end() || !found->second->lent()) return;
  withdraw(*found->second, how);
  bell_.ring();
}

/// Readers of this process may keep the object, but must not keep the memory from being freed.
void MemoryExchange::withdraw(LentMemory& lent, MemoryEnd how) {
  if (!lent.lent()) return;
  lent.readers->end(how);
  self_.services.unserve(cardKey(lent.id));
  if (lent.pagesGiven()) self_.services.unserve(pagesKey(lent.id));
}

std::optional<int> MemoryExchange::reader(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(key);
  if (found == lent_.end()) return std::nullopt;
  const LentMemory& lent = *found->second;
  if (const std::optional<int> rank = lent.readers->reader(); rank && !lent.pagesGiven()) return rank;
  found->second->held.reset();
  lent_.erase(found);
  return std::nullopt;
}

std::optional<LentPlace> MemoryExchange::placeOf(const void* data, size_t bytes) const {
  const Address address = addressOf(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, lent] : lent_) {
    if (!lent->lent() || address < lent->begin || address - lent->begin > lent->bytes) continue;
    if (bytes <= lent->bytes - (address - lent->begin)) return LentPlace{lent->id, address - lent->base};
  }
  return std::nullopt;
}

// ---- The reader.

Result<MemoryExchange::Opened> MemoryExchange::openHere(uint64_t id) const {
  Opened opened;
  opened.shared = ProcessTable<LentMemory>::get().find(id);
  if (opened.shared == nullptr)
    return remoteError(ErrorCode::PeerMemoryGone, "a peer's device memory is lent no longer");
  const LentMemory& lent = *opened.shared;
  opened.bytes = lent.mapped;
  opened.address = lent.base;
  if (!lent.pagesGiven()) return opened;
  TUTTI_ASSIGN(opened.mapping, DeviceMapping::forReader(lent.pages, device_));
  opened.address = opened.mapping.address();
  return opened;
}

Result<MemoryExchange::Opened> MemoryExchange::open(int peer, uint64_t peersProcess, uint64_t id) {
  if (peersProcess == self_.processId) return openHere(id);
  Opened opened;
  const Deadline deadline = Deadline::inMs(kFetchLentTimeoutMs);
  TUTTI_ASSIGN(Fd fetched, fetch(self_.services, peer, cardKey(id), deadline));
  TUTTI_ASSIGN(opened.reading, Reading::of(std::move(fetched)));
  LentCard card;
  std::memcpy(&card, opened.reading.note(), sizeof card);  // the peer can still write there
  TUTTI_TRY(checkLentCard(card));
  opened.bytes = card.bytes;
  if (card.offer.given != 0) {
    TUTTI_TRY(openByHandle(peer, card, &opened));
    return opened;
  }
  TUTTI_ASSIGN(const Fd descriptor, fetch(self_.services, peer, pagesKey(id), deadline));
  TUTTI_ASSIGN(const DevicePages pages, DevicePages::import(device_, descriptor.get(), card.bytes));
  TUTTI_ASSIGN(opened.mapping, DeviceMapping::forReader(pages, device_));
  opened.address = opened.mapping.address();
  return opened;
}

// The bell is listened to, and the owner sees this reader, before the memory is open.
Status MemoryExchange::openByHandle(int peer, const LentCard& card, Opened* opened) {
  if (!callBacks_.listensTo(peer)) {
    TUTTI_ASSIGN(Fd bell, fetch(self_.services, peer, kBellKey, Deadline::inMs(kFetchLentTimeoutMs)));
    TUTTI_TRY(callBacks_.listenTo(peer, std::move(bell)));
  }
  TUTTI_TRY(opened->reading.begin(self_.rank));
  TUTTI_ASSIGN(opened->memory, IpcMemory::open(device_, card.offer));
  opened->address = opened->memory.address();
  return {};
}

Result<const std::byte*> MemoryExchange::address(int peer, uint64_t peersProcess, const LentPlace& place, size_t bytes,
                                                 bool captured) {
  const std::lock_guard lock(openedMutex_);
  auto found = opened_.find({peer, place.id});
  if (found == opened_.end()) {
    Result<Opened> opened = open(peer, peersProcess, place.id);
    if (!opened.ok())
      return remoteError(ErrorCode::PeerMemoryGone, "memory that a peer has registered: ", opened.status().text());
    found = opened_.emplace(std::pair(peer, place.id), std::move(*opened)).first;
  }
  Opened& opened = found->second;
  if (!isInside(place, bytes, opened.bytes)) {
    return remoteError(ErrorCode::Malformed,
                       "a peer says that a message lies outside of the memory that it has registered");
  }
  opened.captured = opened.captured || captured;
  return reinterpret_cast<const std::byte*>(opened.address + place.offset);
}

bool MemoryExchange::hasEnded() const {
  const std::lock_guard lock(openedMutex_);
  return std::any_of(opened_.begin(), opened_.end(), [](const auto& entry) { return entry.second.unmappable(); });
}

void MemoryExchange::closeEnded() {
  const std::lock_guard lock(openedMutex_);
  std::erase_if(opened_, [](const auto& entry) { return entry.second.unmappable(); });
}

/// By the thread.  An owner that ends a registration in good order has waited until nothing reads it.
void MemoryExchange::closeCalledBack() {
  bool failed = false;
  {
    const std::lock_guard lock(openedMutex_);
    std::erase_if(opened_, [](const auto& entry) { return entry.second.calledBack(MemoryEnd::Idle); });
    for (const auto& [key, opened] : opened_) failed = failed || opened.calledBack(MemoryEnd::Failed);
  }
  if (!failed || !self_.settle()) return;
  const std::lock_guard lock(openedMutex_);
  std::erase_if(opened_, [](const auto& entry) { return entry.second.calledBack(MemoryEnd::Failed); });
}

void MemoryExchange::stop() { callBacks_.stop(); }

void MemoryExchange::closeAll() {
  stop();
  const std::lock_guard lock(openedMutex_);
  opened_.clear();
}

}  // namespace tutti::cuda

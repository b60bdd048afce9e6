#include "transport/cuda/memory_exchange.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "src/device/cuda_alloc.hpp"
#include "transport/cuda/process_table.hpp"

namespace tutti::cuda {
namespace {

constexpr int64_t kFetchLentTimeoutMs = 10'000;

std::string pagesKey(uint64_t id) { return cat("device memory:", id); }
std::string cardKey(uint64_t id) { return cat("device card:", id); }

}  // namespace

struct MemoryExchange::Card {
  static constexpr uint64_t kMagic = 0x7475'7474'6964'6576;
  uint64_t magic;
  uint64_t bytes;  // of all the pages
  uint32_t ended;  // by the owner; a hint, for pages stay as long as anybody has mapped them
};

struct LentMemory {
  uint64_t id = 0;  // in ProcessTable<LentMemory>
  DevicePages pages;
  Address base = 0;  // as the owner has them
  Address begin = 0;
  size_t bytes = 0;                  // of what was registered, from begin
  std::shared_ptr<const void> held;  // against tuttiMemFree; the owner's alone
  Mapping card;
};

bool MemoryExchange::Opened::ended() const {
  const auto* at = reinterpret_cast<const Card*>(shared != nullptr ? shared->card.data() : card.data());
  return __atomic_load_n(&at->ended, __ATOMIC_ACQUIRE) != 0;
}

MemoryExchange::MemoryExchange(std::shared_ptr<const CudaDevice> device, FdExchange& services, uint64_t processId)
    : device_(std::move(device)), services_(services), processId_(processId) {}

MemoryExchange::~MemoryExchange() {
  for (const auto& [key, lent] : lent_) withdraw(*lent);
}

Result<bool> MemoryExchange::lend(uint64_t key, const void* buffer, size_t bytes) {
  Result<DevicePages> pages = DevicePages::behind(device_, buffer);
  if (bytes == 0 || !pages.ok()) return false;
  auto lent = std::make_shared<LentMemory>();
  size_t mapped = 0;
  const CudaScope scope(*device_);
  TUTTI_CUDA(device_->driver(), cuMemGetAddressRange(&lent->base, &mapped, addressOf(buffer)));
  lent->begin = addressOf(buffer);
  lent->bytes = bytes;
  if (lent->begin - lent->base + bytes > mapped) return false;  // goes on in other pages
  const Result<Fd> descriptor = pages->descriptor();
  if (!descriptor.ok()) return false;  // made not to be shared
  lent->pages = std::move(*pages);
  lent->held = holdDeviceMemory(buffer);
  TUTTI_ASSIGN(const Fd card, createSharedMemory(roundToPages(sizeof(Card))));
  TUTTI_ASSIGN(lent->card, Mapping::of(card.get(), roundToPages(sizeof(Card))));
  *reinterpret_cast<Card*>(lent->card.data()) = {Card::kMagic, mapped, 0};
  ProcessTable<LentMemory>::get().add(lent);
  TUTTI_TRY(services_.serve(cardKey(lent->id), card.get()));
  const Status served = services_.serve(pagesKey(lent->id), descriptor->get());
  if (!served.ok()) {
    services_.unserve(cardKey(lent->id));
    return served;
  }
  const std::lock_guard lock(mutex_);
  lent_[key] = std::move(lent);
  return true;
}

void MemoryExchange::end(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(key);
  if (found == lent_.end()) return;
  withdraw(*found->second);
  lent_.erase(found);
}

/// Readers of this process may keep the object, but must not keep the memory from being freed.
void MemoryExchange::withdraw(LentMemory& lent) {
  lent.held.reset();
  __atomic_store_n(&reinterpret_cast<Card*>(lent.card.data())->ended, 1u, __ATOMIC_RELEASE);
  services_.unserve(cardKey(lent.id));
  services_.unserve(pagesKey(lent.id));
}

std::optional<LentPlace> MemoryExchange::placeOf(const void* data, size_t bytes) const {
  const Address address = addressOf(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, lent] : lent_) {
    if (address < lent->begin || address - lent->begin > lent->bytes) continue;
    if (bytes <= lent->bytes - (address - lent->begin)) return LentPlace{lent->id, address - lent->base};
  }
  return std::nullopt;
}

Result<MemoryExchange::Opened> MemoryExchange::open(int peer, uint64_t peersProcess, uint64_t id) const {
  Opened opened;
  if (peersProcess == processId_) {
    opened.shared = ProcessTable<LentMemory>::get().find(id);
    if (opened.shared == nullptr) return remoteError("a peer's device memory is lent no longer");
    TUTTI_ASSIGN(opened.mapping, DeviceMapping::forReader(opened.shared->pages, device_));
    return opened;
  }
  const Deadline deadline = Deadline::inMs(kFetchLentTimeoutMs);
  TUTTI_ASSIGN(const Fd card, services_.fetch(peer, cardKey(id), deadline));
  TUTTI_ASSIGN(const Fd descriptor, services_.fetch(peer, pagesKey(id), deadline));
  TUTTI_ASSIGN(const size_t cardBytes, sharedMemoryBytes(card.get()));
  if (cardBytes != roundToPages(sizeof(Card))) return remoteError("a peer's card of device memory makes no sense");
  TUTTI_ASSIGN(opened.card, Mapping::of(card.get(), cardBytes));
  const Card said = *reinterpret_cast<const Card*>(opened.card.data());
  if (said.magic != Card::kMagic) return remoteError("a peer's card of device memory makes no sense");
  TUTTI_ASSIGN(const DevicePages pages, DevicePages::import(device_, descriptor.get(), said.bytes));
  TUTTI_ASSIGN(opened.mapping, DeviceMapping::forReader(pages, device_));
  return opened;
}

Result<const std::byte*> MemoryExchange::address(int peer, uint64_t peersProcess, const LentPlace& place, size_t bytes,
                                                 bool captured) {
  auto found = opened_.find({peer, place.id});
  if (found == opened_.end()) {
    Result<Opened> opened = open(peer, peersProcess, place.id);
    if (!opened.ok()) return remoteError("memory that a peer has registered: ", opened.status().message());
    found = opened_.emplace(std::pair(peer, place.id), std::move(*opened)).first;
  }
  Opened& opened = found->second;
  if (place.offset > opened.mapping.bytes() || bytes > opened.mapping.bytes() - place.offset) {
    return remoteError("a peer says that a message lies outside of the memory that it has registered");
  }
  opened.captured = opened.captured || captured;
  return reinterpret_cast<const std::byte*>(opened.mapping.address() + place.offset);
}

bool MemoryExchange::hasEnded() const {
  return std::any_of(opened_.begin(), opened_.end(),
                     [](const auto& entry) { return !entry.second.captured && entry.second.ended(); });
}

void MemoryExchange::closeEnded() {
  std::erase_if(opened_, [](const auto& entry) { return !entry.second.captured && entry.second.ended(); });
}

}  // namespace tutti::cuda

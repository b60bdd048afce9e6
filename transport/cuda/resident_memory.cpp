#include "transport/cuda/resident_memory.hpp"

#include <cstring>
#include <map>
#include <mutex>

namespace tutti::cuda {
namespace {

struct ResidentTable {
  std::mutex mutex;
  uint64_t next = 1;
  std::map<uint64_t, std::weak_ptr<ResidentMemory>> byId;
};
// Of the process, because ranks of it are different communicators' objects and know only numbers.
ResidentTable& residentTable() {
  static ResidentTable& t = *new ResidentTable;
  return t;
}

struct ResidentCard {
  static constexpr uint64_t kMagic = 0x7475'7474'6972'6573;
  uint64_t magic = kMagic;
  uint64_t id = 0;
  uint64_t exported = 0;  // whether the handle is there
  IpcHandle ends{};
};

}  // namespace

Result<std::shared_ptr<ResidentMemory>> makeResidentMemory(const std::shared_ptr<const CudaDevice>& device,
                                                           size_t endBytes) {
  auto memory = std::make_shared<ResidentMemory>();
  TUTTI_ASSIGN(memory->ends, DeviceMemory::allocate(device, endBytes));
  TUTTI_TRY(memory->ends.zero());
  TUTTI_ASSIGN(memory->word, PinnedMemory::allocate(device, sizeof(uint32_t)));
  __atomic_store_n(memory->abortWord(), 0u, __ATOMIC_RELEASE);
  TUTTI_TRY(memory->ready.create(device));
  TUTTI_TRY(memory->done.create(device));
  ResidentTable& t = residentTable();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.byId, [](const auto& entry) { return entry.second.expired(); });
  memory->id = t.next++;
  t.byId[memory->id] = memory;
  return memory;
}

std::shared_ptr<ResidentMemory> findResidentMemory(uint64_t id) {
  ResidentTable& t = residentTable();
  const std::lock_guard lock(t.mutex);
  const auto found = t.byId.find(id);
  return found == t.byId.end() ? nullptr : found->second.lock();
}

std::string residentCard(const ResidentMemory& memory, const CudaDevice& device) {
  ResidentCard card;
  card.id = memory.id;
  const CudaScope scope(device);
  card.exported = device.driver().cuIpcGetMemHandle(&card.ends, memory.ends.address()) == kSuccess ? 1 : 0;
  return {reinterpret_cast<const char*>(&card), sizeof card};
}

Result<std::unique_ptr<PeerResident>> PeerResident::open(const std::string& text, bool sameProcess,
                                                         std::shared_ptr<const CudaDevice> device) {
  ResidentCard card;
  if (text.size() != sizeof card) return remoteError("a peer's card of its device memory has ", text.size(), " bytes");
  std::memcpy(&card, text.data(), sizeof card);
  if (card.magic != ResidentCard::kMagic) return remoteError("a peer's card of its device memory makes no sense");
  std::unique_ptr<PeerResident> peer(new PeerResident(std::move(device)));
  if (sameProcess) {
    peer->shared_ = findResidentMemory(card.id);
    if (peer->shared_ == nullptr) return remoteError("a peer's device memory is gone already");
    peer->ends_ = peer->shared_->ends.address();
    return peer;
  }
  if (card.exported == 0) return remoteError("a peer's device memory cannot be opened by other processes");
  const CudaScope scope(*peer->device_);
  const Driver& driver = peer->device_->driver();
  const Status opened =
      check(driver, driver.cuIpcOpenMemHandle(&peer->ends_, card.ends, kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  if (!opened.ok()) return remoteError("a peer's device memory cannot be opened: ", opened.message());
  return peer;
}

PeerResident::~PeerResident() {
  if (shared_ != nullptr || ends_ == 0) return;
  const CudaScope scope(*device_);
  device_->driver().cuIpcCloseMemHandle(ends_);
}

}  // namespace tutti::cuda

#include "transport/cuda/inbox.hpp"

#include <map>
#include <mutex>

namespace tutti::cuda {
namespace {

struct Table {
  std::mutex mutex;
  uint64_t next = 1;
  std::map<uint64_t, std::weak_ptr<Inbox>> byId;
};
// Of the process, because the ends of a channel are of different communicators' objects and know only numbers.
Table& table() {
  static Table& t = *new Table;
  return t;
}

}  // namespace

Result<std::shared_ptr<Inbox>> makeInbox(std::shared_ptr<const CudaDevice> device, const InboxLayout& layout,
                                         const InboxWords& words) {
  auto inbox = std::make_shared<Inbox>();
  inbox->layout = layout;
  inbox->words = words;
  TUTTI_ASSIGN(inbox->slots, DeviceMemory::allocate(std::move(device), layout.slotOffset(layout.slots)));
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.byId, [](const auto& entry) { return entry.second.expired(); });
  inbox->id = t.next++;
  t.byId[inbox->id] = inbox;
  return inbox;
}

std::shared_ptr<Inbox> findInbox(uint64_t id) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.byId.find(id);
  return found == t.byId.end() ? nullptr : found->second.lock();
}

InboxCard cardOf(const Inbox& inbox, uint64_t processId, const CudaDevice& device) {
  InboxCard card;
  card.processId = processId;
  card.inboxId = inbox.id;
  card.layout = inbox.layout;
  card.wordsOffset = inbox.words.offset;
  const CudaScope scope(device);
  const Driver& driver = device.driver();
  const bool exported = driver.cuIpcGetMemHandle(&card.words, inbox.words.memory->address()) == kSuccess &&
                        driver.cuIpcGetMemHandle(&card.slots, inbox.slots.address()) == kSuccess;
  card.exported = exported ? 1 : 0;
  return card;
}

Result<std::unique_ptr<PeerInbox>> PeerInbox::open(const InboxCard& card, const InboxLayout& expected,
                                                   uint64_t processId, std::shared_ptr<const CudaDevice> device) {
  if (card.magic != InboxCard::kMagic || card.layout != expected) {
    return remoteError("a peer offers device memory of another layout than this rank's; set TUTTI_SLOTS alike");
  }
  std::unique_ptr<PeerInbox> peer(new PeerInbox(std::move(device)));
  if (card.processId == processId) {
    peer->shared_ = findInbox(card.inboxId);
    if (peer->shared_ == nullptr) return remoteError("a peer's device memory is gone already");
    peer->words_ = peer->shared_->wordsAddress();
    peer->slots_ = peer->shared_->slots.address();
    return peer;
  }
  if (card.exported == 0) return remoteError("a peer's device memory cannot be opened by other processes");
  TUTTI_TRY(peer->openHandle(card.words, &peer->words_));
  TUTTI_TRY(peer->openHandle(card.slots, &peer->slots_));
  peer->wordsOffset_ = card.wordsOffset;
  return peer;
}

Status PeerInbox::openHandle(const IpcHandle& handle, Address* address) {
  const CudaScope scope(*device_);
  const Driver& driver = device_->driver();
  const Status opened =
      check(driver, driver.cuIpcOpenMemHandle(address, handle, kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  return opened.ok() ? opened : remoteError("a peer's device memory cannot be opened: ", opened.message());
}

PeerInbox::~PeerInbox() {
  if (shared_ != nullptr) return;
  const CudaScope scope(*device_);
  if (words_ != 0) device_->driver().cuIpcCloseMemHandle(words_);
  if (slots_ != 0) device_->driver().cuIpcCloseMemHandle(slots_);
}

}  // namespace tutti::cuda

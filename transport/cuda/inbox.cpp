#include "transport/cuda/inbox.hpp"

#include "transport/cuda/process_table.hpp"

namespace tutti::cuda {

Result<std::shared_ptr<Inbox>> makeInbox(std::shared_ptr<const CudaDevice> device, const InboxLayout& layout,
                                         const InboxWords& words) {
  auto inbox = std::make_shared<Inbox>();
  inbox->layout = layout;
  inbox->words = words;
  TUTTI_ASSIGN(inbox->slots,
               OfferedMemory::allocate(std::move(device), layout.slotOffset(layout.slots), words.memory->readers()));
  ProcessTable<Inbox>::get().add(inbox);
  return inbox;
}

InboxCard cardOf(const Inbox& inbox, uint64_t processId, const CudaDevice& device) {
  InboxCard descriptor;
  descriptor.processId = processId;
  descriptor.inboxId = inbox.id;
  descriptor.layout = inbox.layout;
  descriptor.wordsOffset = inbox.words.offset;
  descriptor.words = offerByIpc(device, inbox.words.memory->address());
  descriptor.slots = offerByIpc(device, inbox.slots.address());
  return descriptor;
}

Result<std::unique_ptr<PeerInbox>> PeerInbox::open(const InboxCard& descriptor, const InboxLayout& expected,
                                                   uint64_t processId, std::shared_ptr<const CudaDevice> device) {
  if (descriptor.magic != InboxCard::kMagic || descriptor.layout != expected) {
    return remoteError("a peer offers device memory of another layout than this rank's; set TUTTI_SLOTS alike");
  }
  std::unique_ptr<PeerInbox> peer(new PeerInbox);
  if (descriptor.processId == processId) {
    peer->shared_ = ProcessTable<Inbox>::get().find(descriptor.inboxId);
    if (peer->shared_ == nullptr) return remoteError("a peer's device memory is gone already");
    peer->words_ = peer->shared_->wordsAddress();
    peer->slots_ = peer->shared_->slots.address();
    return peer;
  }
  TUTTI_ASSIGN(peer->openedWords_, IpcMemory::open(device, descriptor.words));
  TUTTI_ASSIGN(peer->openedSlots_, IpcMemory::open(std::move(device), descriptor.slots));
  peer->words_ = peer->openedWords_.address() + descriptor.wordsOffset;
  peer->slots_ = peer->openedSlots_.address();
  return peer;
}

}  // namespace tutti::cuda

#include "transport/cuda/inbox.hpp"

#include "transport/cuda/process_table.hpp"

namespace tutti::cuda {

Result<std::shared_ptr<Inbox>> makeInbox(std::shared_ptr<const CudaDevice> device, const InboxLayout& layout,
                                         const InboxRoom& words, const InboxRoom& slots) {
  auto inbox = std::make_shared<Inbox>();
  inbox->layout = layout;
  inbox->words = words;
  inbox->slots = slots;
  if (slots.memory == nullptr) {
    TUTTI_ASSIGN(OfferedMemory own,
                 OfferedMemory::allocate(std::move(device), layout.slotBytesOfAll(), words.memory->readers()));
    inbox->slots = {std::make_shared<OfferedMemory>(std::move(own)), 0};
  }
  ProcessTable<Inbox>::get().add(inbox);
  return inbox;
}

InboxCard cardOf(const Inbox& inbox, uint64_t processId, const CudaDevice& device) {
  InboxCard card;
  card.processId = processId;
  card.inboxId = inbox.id;
  card.layout = inbox.layout;
  card.wordsOffset = inbox.words.offset;
  card.slotsOffset = inbox.slots.offset;
  card.words = offerByIpc(device, inbox.words.memory->address());
  card.slots = offerByIpc(device, inbox.slots.memory->address());
  return card;
}

Result<std::unique_ptr<PeerInbox>> PeerInbox::open(const InboxCard& card, const InboxLayout& expected,
                                                   uint64_t processId, std::shared_ptr<const CudaDevice> device) {
  TUTTI_TRY(checkInboxCard(card, expected));
  std::unique_ptr<PeerInbox> peer(new PeerInbox);
  if (card.processId == processId) {
    peer->shared_ = ProcessTable<Inbox>::get().find(card.inboxId);
    if (peer->shared_ == nullptr)
      return remoteError(ErrorCode::PeerMemoryGone, "a peer's device memory is gone already");
    peer->words_ = peer->shared_->words.address();
    peer->slots_ = peer->shared_->slots.address();
    return peer;
  }
  TUTTI_ASSIGN(peer->openedWords_, IpcMemory::open(device, card.words));
  TUTTI_ASSIGN(peer->openedSlots_, IpcMemory::open(std::move(device), card.slots));
  peer->words_ = peer->openedWords_.address() + card.wordsOffset;
  peer->slots_ = peer->openedSlots_.address() + card.slotsOffset;
  return peer;
}

}  // namespace tutti::cuda

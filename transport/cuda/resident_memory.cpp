#include "transport/cuda/resident_memory.hpp"

#include "transport/cuda/cards.hpp"
#include "transport/cuda/process_table.hpp"

namespace tutti::cuda {
Result<std::shared_ptr<ResidentMemory>> makeResidentMemory(const std::shared_ptr<const CudaDevice>& device,
                                                           const ResidentRoom& room,
                                                           std::shared_ptr<const Readers> readers) {
  auto memory = std::make_shared<ResidentMemory>();
  TUTTI_ASSIGN(memory->ends, OfferedMemory::allocate(device, room.nEnds * room.endBytes, std::move(readers)));
  TUTTI_TRY(memory->ends.zeroFirst(room.headBytes, room.endBytes));
  TUTTI_ASSIGN(memory->words, PinnedMemory::allocate(device, ResidentMemory::kWords * ResidentMemory::kWordStride));
  for (uint32_t* word : {memory->abortWord(), memory->reachedWord(), memory->startedWord()}) {
    __atomic_store_n(word, 0u, __ATOMIC_RELEASE);
  }
  TUTTI_TRY(memory->ready.create(device));
  TUTTI_TRY(memory->done.create(device));
  ProcessTable<ResidentMemory>::get().add(memory);
  return memory;
}

std::string residentCard(const ResidentMemory& memory, const CudaDevice& device) {
  ResidentCard card;
  card.id = memory.id;
  card.ends = offerByIpc(device, memory.ends.address());
  return {reinterpret_cast<const char*>(&card), sizeof card};
}

Result<std::unique_ptr<PeerResident>> PeerResident::open(const std::string& text, bool sameProcess,
                                                         std::shared_ptr<const CudaDevice> device) {
  TUTTI_ASSIGN(const ResidentCard card, residentCardIn(text));
  std::unique_ptr<PeerResident> peer(new PeerResident);
  if (sameProcess) {
    peer->shared_ = ProcessTable<ResidentMemory>::get().find(card.id);
    if (peer->shared_ == nullptr)
      return remoteError(ErrorCode::PeerMemoryGone, "a peer's device memory is gone already");
    peer->ends_ = peer->shared_->ends.address();
    return peer;
  }
  TUTTI_ASSIGN(peer->opened_, IpcMemory::open(std::move(device), card.ends));
  peer->ends_ = peer->opened_.address();
  return peer;
}

}  // namespace tutti::cuda

// The device memory of one end of a stream endpoint: slots that the peer writes, and the words that this end waits for.
//
//   full[i]   1: slot i holds a message for this end; written by the peer, reset by this end
//   busy[i]   1: slot i of the peer's inbox holds a message of this end's; set by this end, reset by the peer
// Words are apart by a cache line of the device.  All are zero at first, which takes work on a stream; so the words of
// all endpoints are one allocation, made when a communicator comes up.  Only the owner waits for its words.
#pragma once

#include <cstdint>
#include <memory>

#include "src/device/cuda/device.hpp"
#include "transport/cuda/cards.hpp"

namespace tutti::cuda {

/// A part of memory that several inboxes share.
struct InboxRoom {
  std::shared_ptr<const OfferedMemory> memory;
  size_t offset = 0;
  Address address() const { return memory->address() + offset; }
};

/// An inbox of this process.  Kept by both ends where they are in one process, because what the peer has enqueued may
/// still write here when its owner is done.
struct Inbox {
  uint64_t id = 0;  // in ProcessTable<Inbox>
  InboxLayout layout;
  InboxRoom words, slots;
};
/// words: zero, and nobody else's.  slots: the same, but not zero; without memory it is allocated, which may wait for
/// the device.  Errors: as DeviceMemory::allocate.
Result<std::shared_ptr<Inbox>> makeInbox(std::shared_ptr<const CudaDevice> device, const InboxLayout& layout,
                                         const InboxRoom& words, const InboxRoom& slots);

/// processId: of this process.
InboxCard cardOf(const Inbox& inbox, uint64_t processId, const CudaDevice& device);

/// The peer's inbox as this process can write it.
class PeerInbox {
 public:
  /// processId: of this process.  Errors: RemoteError: a card that makes no sense, or memory that cannot be opened.
  static Result<std::unique_ptr<PeerInbox>> open(const InboxCard& card, const InboxLayout& expected, uint64_t processId,
                                                 std::shared_ptr<const CudaDevice> device);
  PeerInbox(const PeerInbox&) = delete;
  PeerInbox& operator=(const PeerInbox&) = delete;
  Address words() const { return words_; }
  Address slots() const { return slots_; }

 private:
  PeerInbox() = default;
  std::shared_ptr<Inbox> shared_;  // of this process; else it was opened
  IpcMemory openedWords_, openedSlots_;
  Address words_ = 0;
  Address slots_ = 0;
};

}  // namespace tutti::cuda

// The sender's bookkeeping of a ring of slots between one sender and one receiver, without any memory of its own.
//
// Two counters rule it, each with one writer, monotonic and never reset: `posted` (messages the sender has completed)
// and `released` (messages the receiver is done with).  Slot k of n carries the messages k, k+n, k+2n, ...; a slot is
// free for message m once released > m - n.  The place where the counters live is the Words parameter, so the same
// logic runs over shared memory and over a simulated link on which they arrive late:
//
//   uint64_t released();            what the peer's receiver has released       (acquire)
//   void setPosted(uint64_t);       publish ours to the peer's receiver         (release: the slot was written before)
//
// One thread per object.
#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

template <class Words>
class SlotSender {
 public:
  SlotSender(Words words, uint32_t nSlots) : words_(words), nSlots_(nSlots) {}

  /// The slot of the next message, or nothing while all are in use.  The same one until publish().
  std::optional<uint32_t> claim() {
    if (posted_ - released_ >= nSlots_) released_ = words_.released();  // the cached value saves a look at a far line
    if (posted_ - released_ >= nSlots_) return std::nullopt;
    return static_cast<uint32_t>(posted_ % nSlots_);
  }
  /// The claimed slot is written.  Returns the message's ticket.
  uint64_t publish() {
    words_.setPosted(++posted_);
    return posted_;
  }
  /// Whether the receiver is done with the message of this ticket.
  bool isReleased(uint64_t ticket) {
    if (released_ < ticket) released_ = words_.released();
    return released_ >= ticket;
  }
  /// What must always hold, whatever the peer writes.
  bool check() const { return released_ <= posted_ && posted_ - released_ <= nSlots_; }

 private:
  Words words_;
  uint32_t nSlots_;
  uint64_t posted_ = 0;
  uint64_t released_ = 0;  // as last seen
};

}  // namespace tutti

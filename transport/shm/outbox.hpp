// Messages to several peers of one host: written once into memory of the sender's own segment, announced in a control
// line of each reader's inbox, and read by each where they lie.  A message to n - 1 peers so costs n copies instead of
// 2 (n - 1), and slots for one instead of n - 1 in the caches.
//
// The memory is a ring.  Its messages lie in the order in which they were reserved, each in one piece, and are freed in
// that order, when every reader has said in its inbox that it is done (ShmEndpoint::test()).  It starts over before its
// end where readers keep up.
#pragma once

#include <memory>
#include <vector>

#include "transport/shm/segment.hpp"
#include "transport/transport.hpp"

namespace tutti::shm {

/// One thread, as the endpoints of its lane.
class ShmOutbox final : public Outbox {
 public:
  /// mine: the sender's segment.
  ShmOutbox(std::shared_ptr<Segment> mine, int lane);

  size_t mostBytes() const override { return mine_->layout().slotBytes; }
  Result<std::byte*> reserve(size_t bytes) override;
  int holdsUp(std::span<Endpoint* const> readers) const override;
  Result<bool> post(Endpoint& reader, size_t bytes, const Fingerprint& call) override;

 private:
  /// A reader that may not be done with a message yet.
  struct Lent {
    Endpoint* reader;
    Request request;
    uint64_t place;  // of the message
  };
  bool fits(uint64_t place, size_t bytes) const;
  uint64_t oldest() const { return lentBegin_ == lent_.size() ? next_ : lent_[lentBegin_].place; }
  Status forgetTaken();

  const std::shared_ptr<Segment> mine_;
  const int lane_;
  const size_t ringBytes_;
  uint64_t next_ = 0;       // places count on and on; the memory is that modulo ringBytes_
  uint64_t reserved_ = 0;   // place of the message in hand
  std::vector<Lent> lent_;  // in order of place, from lentBegin_ on
  size_t lentBegin_ = 0;
};

}  // namespace tutti::shm

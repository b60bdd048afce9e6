// One rank's shared-memory segment, made or mapped.
//
// Within a process a segment is mapped once, however many ranks of the process use it, and unmapped when the last of
// them lets go: a rank may be destroyed while others still look at its segment, and 256 ranks in one process need 256
// mappings instead of 65,536 (the kernel's limit is 65,530).  For that there is one table per process, from segment id
// to segment; ranks of one process have no other place to meet.
#pragma once

#include <functional>
#include <memory>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"
#include "src/device/host/shared_memory.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::shm {

class Segment {
 public:
  /// A new segment for `rank`.  Errors: SystemError.
  static Result<std::shared_ptr<Segment>> create(int rank, const Layout& layout);

  /// Somebody else's.  `fetch` gets the descriptor where this process has not mapped it yet; null while it gives none.
  /// The header must say exactly what is expected.  Errors: those of fetch, SystemError, RemoteError for a segment that
  /// is not as it should be.
  static Result<std::shared_ptr<Segment>> open(const SegmentId& id, int rank, const Layout& layout,
                                               const std::function<Result<Fd>()>& fetch);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(mapping_.data()); }
  Doorbell& bell() const { return reinterpret_cast<SegmentHeader*>(mapping_.data())->bell; }
  const SegmentId& id() const { return id_; }
  const Layout& layout() const { return layout_; }
  /// Valid on the owner's side only.
  int fd() const { return fd_.get(); }
  /// peer and lane must be within the layout.
  Board board(BoardUse use) const { return {mapping_.data() + layout_.boardOffset(use), layout_}; }
  std::byte* outbox(int lane) const { return mapping_.data() + layout_.outboxOffset(lane); }
  Inbox inbox(int peer, int lane) const { return {mapping_.data() + layout_.inboxOffset(peer, lane), layout_}; }
  /// Leave forked children without it.
  void keepFromChildren() const { mapping_.keepFromChildren(); }
  /// Take the page faults of the inbox's control lines now and not at the first messages.
  void populateControl(int peer, int lane) const;
  /// The same for a board.
  void populateBoard(BoardUse use) const;

 private:
  Segment(SegmentId id, const Layout& layout, Mapping mapping, Fd fd)
      : id_(id), layout_(layout), mapping_(std::move(mapping)), fd_(std::move(fd)) {}
  Status checkHeader(int rank) const;

  const SegmentId id_;
  const Layout layout_;  // our own copy: what is in the segment could change under us
  const Mapping mapping_;
  const Fd fd_;
};

}  // namespace tutti::shm

#include "transport/shm/segment.hpp"

#include <sys/random.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "src/base/forked.hpp"

namespace tutti::shm {
namespace {

struct Table {
  ProcessMutex mutex;
  std::map<SegmentId, std::weak_ptr<Segment>> segments;  // under mutex
};

// Never destroyed: communicators may be destroyed by a program's own exit handlers.
Table& table() {
  static Table& t = *new Table;
  return t;
}

std::shared_ptr<Segment> find(const SegmentId& id) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto at = t.segments.find(id);
  return at == t.segments.end() ? nullptr : at->second.lock();
}

// The segment that is in the table afterwards: `made`, or the one that another thread has put there meanwhile.
std::shared_ptr<Segment> insert(std::shared_ptr<Segment> made) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  std::weak_ptr<Segment>& entry = t.segments[made->id()];
  if (std::shared_ptr<Segment> other = entry.lock()) return other;
  entry = made;
  return made;
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::create(int rank, const Layout& layout) {
  SegmentId id;
  if (getrandom(&id, sizeof id, 0) != sizeof id) return errnoError(errno, ErrorCode::NoRandomBytes, "getrandom");
  TUTTI_ASSIGN(Fd fd, createSharedMemory(layout.totalBytes()));
  TUTTI_ASSIGN(Mapping mapping, Mapping::of(fd.get(), layout.totalBytes()));
  if (!populate(mapping.data(), kHeaderBytes))
    return errnoError(errno, ErrorCode::SharedMemoryRefused, "shm: first page of a segment");
  auto* header = reinterpret_cast<SegmentHeader*>(mapping.data());
  header->magic = kMagic;
  header->version = kVersion;
  header->rank = static_cast<uint32_t>(rank);
  header->layout = layout;
  header->id = id;
  return insert(std::shared_ptr<Segment>(new Segment(id, layout, std::move(mapping), std::move(fd))));
}

Result<std::shared_ptr<Segment>> Segment::open(const SegmentId& id, int rank, const Layout& layout,
                                               const std::function<Result<Fd>()>& fetch) {
  std::shared_ptr<Segment> segment = find(id);
  if (segment == nullptr) {
    TUTTI_ASSIGN(const Fd fd, fetch());
    if (!fd.valid()) return segment;
    TUTTI_ASSIGN(const size_t bytes, sharedMemoryBytes(fd.get()));
    if (bytes != layout.totalBytes()) {
      return remoteError(ErrorCode::LayoutDiffers, "shm: the segment of rank ", rank, " has ", bytes,
                         " bytes instead of ", layout.totalBytes(),
                         "; are TUTTI_SLOTS and TUTTI_SLOT_BYTES the same on all ranks?");
    }
    TUTTI_ASSIGN(Mapping mapping, Mapping::of(fd.get(), bytes));
    std::shared_ptr<Segment> made(new Segment(id, layout, std::move(mapping), Fd()));
    TUTTI_TRY(made->checkHeader(rank));
    segment = insert(std::move(made));
  }
  TUTTI_TRY(segment->checkHeader(rank));
  if (segment->layout() != layout)
    return remoteError(ErrorCode::LayoutDiffers, "shm: the segment of rank ", rank, " has another layout");
  return segment;
}

Segment::~Segment() {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto at = t.segments.find(id_);
  // Another thread may have lost the race of insert(): then the entry is not ours.
  if (at != t.segments.end() && at->second.expired()) t.segments.erase(at);
}

Status Segment::checkHeader(int rank) const {
  const SegmentHeader& h = header();
  const bool same = h.magic == kMagic && h.version == kVersion && h.id == id_ && h.layout == layout_ &&
                    h.rank == static_cast<uint32_t>(rank);
  if (!same) {
    return remoteError(ErrorCode::LayoutDiffers, "shm: the segment of rank ", rank,
                       " does not begin as it should; are all ranks of the same version of Tutti, with the same "
                       "TUTTI_SLOTS and TUTTI_SLOT_BYTES?");
  }
  return {};
}

void Segment::populateBoard(BoardUse use) const { (void)populate(board(use).begin(), layout_.boardBytes()); }

void Segment::populateControl(int peer, int lane) const {
  // Best effort: without it the first messages take the faults.
  (void)populate(inbox(peer, lane).begin(), layout_.controlBytes());
}

}  // namespace tutti::shm

#include "transport/cuda/readers.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace tutti::cuda {
namespace {

struct Page {
  static constexpr uint64_t kMagic = 0x7475'7474'6972'6472;
  uint64_t magic;
  uint32_t end;  // MemoryEnd; seq_cst: of an owner that ends and a reader that begins, one sees the other
  uint32_t unused;
  unsigned char note[Readers::kNoteBytes];
};

Page* pageOf(const Mapping& mapping) { return reinterpret_cast<Page*>(mapping.data()); }
MemoryEnd endOf(const Mapping& mapping) {
  return static_cast<MemoryEnd>(__atomic_load_n(&pageOf(mapping)->end, __ATOMIC_SEQ_CST));
}

struct flock lockOf(short type, off_t first, off_t bytes) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = bytes;
  return lock;
}

}  // namespace

Result<std::shared_ptr<Readers>> Readers::create() {
  std::shared_ptr<Readers> readers(new Readers);
  TUTTI_ASSIGN(readers->fd_, createSharedMemory(roundToPages(sizeof(Page))));
  TUTTI_ASSIGN(readers->shared_, Mapping::of(readers->fd_.get(), roundToPages(sizeof(Page))));
  pageOf(readers->shared_)->magic = Page::kMagic;
  return readers;
}

void* Readers::note() const { return pageOf(shared_)->note; }

void Readers::end(MemoryEnd how) const {
  __atomic_store_n(&pageOf(shared_)->end, static_cast<uint32_t>(how), __ATOMIC_SEQ_CST);
}

MemoryEnd Readers::ended() const { return endOf(shared_); }

std::optional<int> Readers::reader() const {
  struct flock lock = lockOf(F_WRLCK, 0, 0);
  if (fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return static_cast<int>(lock.l_start);
}

Reading& Reading::operator=(Reading&& other) noexcept {
  std::swap(given_, other.given_);
  std::swap(own_, other.own_);
  std::swap(shared_, other.shared_);
  return *this;
}

// Said, and not left to the closing: children that this process has forked have the descriptor, too.
Reading::~Reading() {
  if (!own_.valid()) return;
  struct flock lock = lockOf(F_UNLCK, 0, 0);
  (void)fcntl(own_.get(), F_OFD_SETLK, &lock);
}

Result<Reading> Reading::of(Fd descriptor) {
  Reading reading;
  TUTTI_ASSIGN(const size_t bytes, sharedMemoryBytes(descriptor.get()));
  if (bytes != roundToPages(sizeof(Page)))
    return remoteError(ErrorCode::Malformed, "a peer's card of device memory makes no sense");
  TUTTI_ASSIGN(reading.shared_, Mapping::of(descriptor.get(), bytes));
  if (pageOf(reading.shared_)->magic != Page::kMagic) {
    return remoteError(ErrorCode::Malformed, "a peer's card of device memory makes no sense");
  }
  reading.given_ = std::move(descriptor);
  return reading;
}

// Descriptors that processes hand each other share their locks, so this end opens the file again.
Status Reading::begin(int rank) {
  const std::string path = cat("/proc/self/fd/", given_.get());
  own_ = Fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!own_.valid()) return errnoError(errno, ErrorCode::SharedMemoryRefused, cat("opening ", path));
  struct flock lock = lockOf(F_WRLCK, rank, 1);
  if (fcntl(own_.get(), F_OFD_SETLK, &lock) != 0)
    return errnoError(errno, ErrorCode::SharedMemoryRefused, "locking a peer's card of device memory");
  given_.reset();
  if (ended() != MemoryEnd::Open)
    return remoteError(ErrorCode::PeerMemoryGone, "a peer's device memory is lent no longer");
  return {};
}

const void* Reading::note() const { return pageOf(shared_)->note; }
MemoryEnd Reading::ended() const { return endOf(shared_); }

}  // namespace tutti::cuda

// What is written is cut into records and kept: the part of ResumableStream that makes records such that receivers can
// have large parts of messages straight where they want them.
#include <algorithm>

#include "src/base/crc32c.hpp"
#include "transport/tcp/resumable_stream.hpp"

namespace tutti::tcp {
namespace {

/// Whether a new record begins with this part, whatever there was before.
bool beginsRecord(std::span<const iovec> parts, size_t i, Large large) {
  const auto isLarge = [&](size_t at) { return parts[at].iov_len >= kLeastLargeBytes; };
  if (isLarge(i)) return large == Large::Alone || i == 0 || isLarge(i - 1);
  return i + 1 < parts.size() && isLarge(i + 1);
}

}  // namespace

void ResumableStream::keepRoomFor(size_t bytes) {
  const size_t kept = written_ - acknowledged_;
  while (kept_.bytes() < window_ && bytes > kept_.bytes() - kept) kept_.grow(records_);
}

size_t ResumableStream::write(std::span<const iovec> parts, size_t skip, size_t most, Large large) {
  size_t wanted = 0;
  for (const iovec& part : parts) wanted += part.iov_len;
  keepRoomFor(std::min(wanted - std::min(skip, wanted), most));
  size_t taken = 0;
  uint32_t begun = 0, crc = 0;  // of the record that is being filled
  const auto close = [&] {
    if (begun > 0) closeRecord(written_ - begun, begun, crc);
    begun = crc = 0;
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const iovec& part = parts[i];
    const size_t from = std::min(skip, part.iov_len);
    skip -= from;
    if (beginsRecord(parts, i, large)) close();
    const auto* data = static_cast<const std::byte*>(part.iov_base) + from;
    for (size_t left = part.iov_len - from; left > 0;) {
      const size_t room = kept_.bytes() - (written_ - acknowledged_), toEnd = kept_.left(written_);
      const size_t n = std::min({left, room, toEnd, kMostRecordBytes - begun});
      if (n == 0 || records_.size() >= kMostRecords || (begun == 0 && taken >= most)) {
        close();
        return taken;
      }
      if (begun == 0) beginRecord();
      crc = keep(kept_.at(written_), data, n, crc);
      written_ += n;
      taken += n;
      begun += static_cast<uint32_t>(n);
      data += n;
      left -= n;
      if (begun == kMostRecordBytes) close();
    }
    if (part.iov_len >= kLeastLargeBytes) close();
  }
  close();
  return taken;
}

void ResumableStream::beginRecord() {
  if (seal_ != nullptr) seal_->beginData(written_, consumed_);
}

/// Copies bytes of the record to where they are kept; the checksum with them.
uint32_t ResumableStream::keep(std::byte* dst, const std::byte* src, size_t bytes, uint32_t crc) {
  if (seal_ == nullptr) return crc32cCopy(dst, src, bytes, crc);
  seal_->put(dst, src, bytes);
  return 0;
}

void ResumableStream::closeRecord(uint64_t position, uint32_t bytes, uint32_t crc) {
  Record record{makeHead(Kind::Data, bytes, position, consumed_, crc), position, bytes};
  if (seal_ != nullptr) putTag(seal_->endData(), &record.head);
  records_.push_back(record);
  saidConsumed_ = consumed_;
  recordsTaken_ = 0;
}

}  // namespace tutti::tcp

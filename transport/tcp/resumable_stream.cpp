#include "transport/tcp/resumable_stream.hpp"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "src/base/assert.hpp"
#include "src/base/crc32c.hpp"

namespace tutti::tcp {
namespace {

constexpr uint16_t kRecordMagic = 0x7254;  // "Tr"
constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kLeastRoomBytes = 64 << 10;
constexpr size_t kCrcOffset = kRecordHeadBytes - 4;

struct WireHead {
  uint16_t magic;
  uint8_t kind, zero;
  uint32_t bytes;
  uint64_t position, consumed;
  uint32_t payloadCrc, headCrc;
};
static_assert(sizeof(WireHead) == kRecordHeadBytes);

}  // namespace

ResumableStream::ResumableStream(size_t windowBytes, std::unique_ptr<RecordSeal> seal)
    : window_(windowBytes),
      seal_(std::move(seal)),
      headBytes_(seal_ == nullptr ? kRecordHeadBytes : kSealedHeadBytes),
      kept_(windowBytes) {
  TUTTI_ASSERT_CMP(windowBytes, >=, kLeastWindowBytes);
}

// ---- Records

ResumableStream::Head ResumableStream::makeHead(Kind kind, uint32_t bytes, uint64_t position, uint64_t consumed,
                                                uint32_t payloadCrc) {
  WireHead wire{htole16(kRecordMagic), static_cast<uint8_t>(kind), 0, htole32(bytes), htole64(position),
                htole64(consumed),     htole32(payloadCrc),        0};
  wire.headCrc = htole32(crc32c(&wire, kCrcOffset));
  Head head{};
  std::memcpy(head.data(), &wire, sizeof wire);
  return head;
}

void ResumableStream::putTag(const Gcm::Tag& tag, Head* head) {
  std::copy(tag.begin(), tag.end(), head->begin() + kRecordHeadBytes);
}

Gcm::Tag ResumableStream::tagOf(const std::byte* head) {
  Gcm::Tag tag;
  std::memcpy(tag.data(), head + kRecordHeadBytes, tag.size());
  return tag;
}

/// Whether a whole record is as it was sent; its payload then is what the writer wrote.
bool ResumableStream::intact(const std::byte* head, const Parsed& record, std::byte* payload) {
  if (seal_ == nullptr) return record.kind != Kind::Data || crc32c(payload, record.bytes) == record.payloadCrc;
  if (record.kind != Kind::Data) return seal_->openControl({head, kRecordHeadBytes}, record.payloadCrc, tagOf(head));
  seal_->beginOpen(record.position, record.consumed);
  seal_->open(payload, record.bytes);
  return seal_->endOpen(tagOf(head));
}

/// What a record of this kind may say of its bytes.
uint32_t ResumableStream::mostBytesOf(Kind kind) {
  if (kind == Kind::Data) return kMostRecordBytes;
  return kind == Kind::Resume || kind == Kind::Rest ? kSealedHeadBytes + kMostRecordBytes - 1 : 0;
}

Result<ResumableStream::Parsed> ResumableStream::parseHead(const std::byte* head) {
  WireHead wire;
  std::memcpy(&wire, head, sizeof wire);
  if (le32toh(wire.headCrc) != crc32c(head, kCrcOffset))
    return remoteError(ErrorCode::DataDamaged, "damaged: the head of a record is not whole");
  const Parsed parsed{static_cast<Kind>(wire.kind), le32toh(wire.bytes), le64toh(wire.position), le64toh(wire.consumed),
                      le32toh(wire.payloadCrc)};
  const bool known = wire.kind >= static_cast<uint8_t>(Kind::Data) && wire.kind <= static_cast<uint8_t>(Kind::Rest);
  const bool sized = parsed.bytes <= mostBytesOf(parsed.kind) && (parsed.kind != Kind::Data || parsed.bytes > 0);
  if (le16toh(wire.magic) != kRecordMagic || wire.zero != 0 || !known || !sized)
    return remoteError(ErrorCode::Malformed, "what came is no record");
  return parsed;
}

// ---- Sending

/// Twice as much as is needed: a message rarely meets the end of the ring, where its record has to end.
void ResumableStream::keepRoomFor(size_t bytes) {
  const size_t kept = written_ - acknowledged_;
  while (kept_.bytes() < window_ && bytes > (kept_.bytes() - kept) / 2) kept_.grow(records_);
}

size_t ResumableStream::write(std::span<const iovec> parts, size_t skip, size_t most) {
  size_t wanted = 0;
  for (const iovec& part : parts) wanted += part.iov_len;
  keepRoomFor(std::min(wanted - std::min(skip, wanted), most));
  size_t taken = 0;
  uint32_t begun = 0, crc = 0;  // of the record that is being filled
  const auto close = [&] {
    if (begun > 0) closeRecord(written_ - begun, begun, crc);
    begun = crc = 0;
  };
  for (const iovec& part : parts) {
    const size_t from = std::min(skip, part.iov_len);
    skip -= from;
    const bool alone = part.iov_len >= kLeastAloneBytes;
    if (alone) close();
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
      if (begun == kMostRecordBytes || n == toEnd) close();
    }
    if (alone) close();
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

/// What else has to be said, at the border of two records.
void ResumableStream::makeControl() {
  if (controlMade_ && controlSent_ > 0) return;
  const bool all = cursor_ == records_.size();
  controlMade_ = true;
  if (resumeDue_) {
    controlKind_ = Kind::Resume;
  } else if (restDue_) {
    controlKind_ = Kind::Rest;
  } else if (ackDue_) {
    controlKind_ = Kind::Ack;
  } else if (byeDue_ && all && resumed_) {
    controlKind_ = Kind::Bye;
  } else {
    controlMade_ = false;
    return;
  }
  const uint32_t number = seal_ == nullptr ? 0 : seal_->nextNumber();
  const uint64_t position = controlKind_ == Kind::Resume ? received_
                            : controlKind_ == Kind::Rest ? records_[cursor_].position
                                                         : written_;
  const size_t bytes = controlKind_ == Kind::Resume ? cut_.size() : controlKind_ == Kind::Rest ? offset_ : 0;
  control_ = makeHead(controlKind_, static_cast<uint32_t>(bytes), position, consumed_, number);
  if (seal_ != nullptr) putTag(seal_->sealControl(std::span(control_).first(kRecordHeadBytes), number), &control_);
}

void ResumableStream::controlWasSent() {
  controlMade_ = false;
  controlSent_ = 0;
  if (controlKind_ == Kind::Resume) resumeDue_ = false;
  if (controlKind_ == Kind::Bye) byeDue_ = false;
  if (controlKind_ == Kind::Rest) restDue_ = false;
  ackDue_ = false;
}

size_t ResumableStream::toSend(std::span<iovec> parts) {
  size_t n = 0;
  const auto add = [&](const std::byte* data, size_t bytes) {
    parts[n++] = {const_cast<std::byte*>(data), bytes};  // sendmsg only reads
  };
  const auto addRecord = [&](const Record& record, size_t from) {
    if (from < headBytes_) add(record.head.data() + from, headBytes_ - from);
    const size_t ofPayload = from < headBytes_ ? 0 : from - headBytes_;
    add(payloadOf(record) + ofPayload, record.bytes - ofPayload);
  };
  size_t next = cursor_;
  if (offset_ > 0 && !restDue_) addRecord(records_[next++], offset_);
  makeControl();
  if (controlMade_) add(control_.data() + controlSent_, headBytes_ - controlSent_);
  if (restDue_) {
    if (controlKind_ != Kind::Rest) return n;
    addRecord(records_[next++], offset_);
  }
  for (; resumed_ && next < records_.size() && n + 2 <= parts.size(); ++next) addRecord(records_[next], 0);
  return n;
}

void ResumableStream::wasSent(size_t bytes) {
  const auto ofRecord = [&] {
    const Record& record = records_[cursor_];
    const size_t n = std::min(bytes, headBytes_ + record.bytes - offset_);
    offset_ += n;
    bytes -= n;
    if (offset_ < headBytes_ + record.bytes) return;
    offset_ = 0;
    ++cursor_;
    sentMost_ = std::max(sentMost_, record.position + record.bytes);
  };
  if (offset_ > 0 && !restDue_ && bytes > 0) ofRecord();
  if (controlMade_ && bytes > 0) {
    const size_t n = std::min(bytes, headBytes_ - controlSent_);
    controlSent_ += n;
    bytes -= n;
    if (controlSent_ == headBytes_) controlWasSent();
  }
  while (bytes > 0) ofRecord();
}

/// The peer has consumed so much.
Status ResumableStream::acknowledge(uint64_t consumed) {
  if (consumed > written_) return remoteError(ErrorCode::Malformed, "it has had ", consumed, " bytes of ", written_);
  while (!records_.empty() && records_.front().position + records_.front().bytes <= consumed) {
    // One that is on its way again, though the peer has it, must still leave whole.
    if (cursor_ == 0) break;
    records_.pop_front();
    --cursor_;
  }
  const uint64_t kept = records_.empty() ? written_ : records_.front().position;
  acknowledged_ = std::max(acknowledged_, std::min(consumed, kept));
  return {};
}

/// The peer has so much, and keeps so much of the record behind it.
Status ResumableStream::resumeAt(uint64_t received, uint32_t kept) {
  if (received > written_ || received < acknowledged_) {
    return remoteError(ErrorCode::Malformed, "it wants to go on at byte ", received, " of ", written_, ", of which ",
                       acknowledged_, " are gone");
  }
  cursor_ = 0;
  while (cursor_ < records_.size() && records_[cursor_].position < received) ++cursor_;
  const uint64_t at = cursor_ < records_.size() ? records_[cursor_].position : written_;
  if (at != received)
    return remoteError(ErrorCode::Malformed, "it wants to go on at byte ", received, ", inside of a record");
  const size_t whole = cursor_ < records_.size() ? headBytes_ + records_[cursor_].bytes : 0;
  if (kept > 0 && kept >= whole)
    return remoteError(ErrorCode::Malformed, "it keeps ", kept, " bytes of a record of ", whole);
  const uint64_t had = received + (kept > headBytes_ ? kept - headBytes_ : 0);
  resent_ += sentMost_ > had ? sentMost_ - had : 0;
  offset_ = kept;
  restDue_ = kept > 0;
  resumed_ = true;
  return {};
}

// ---- Receiving

Status ResumableStream::damaged(uint32_t bytes, uint64_t position) {
  return remoteError(ErrorCode::DataDamaged, "damaged: ", bytes, " bytes at byte ", position,
                     " of the stream are not as sent");
}

std::span<std::byte> ResumableStream::room() {
  makeRoom(kLeastRoomBytes);
  return {in_.get() + end_, capacity_ - end_};
}

void ResumableStream::makeRoom(size_t bytes) {
  if (begin_ == end_) begin_ = parsed_ = end_ = 0;
  if (capacity_ - end_ < bytes && begin_ > 0) {
    std::memmove(in_.get(), in_.get() + begin_, end_ - begin_);
    parsed_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
  }
  if (capacity_ - end_ >= bytes) return;
  // What the peer may have under way, and one record of acknowledgements.
  const size_t most = window_ + (kMostRecords + 2) * kSealedHeadBytes + kMostRecordBytes + kLeastRoomBytes;
  const size_t larger = std::min(std::max({2 * capacity_, kReadBytes, end_ + bytes}), most);
  if (larger <= capacity_) return;
  std::unique_ptr<std::byte[]> grown(new std::byte[larger]);
  if (end_ > 0) std::memcpy(grown.get(), in_.get(), end_);
  in_ = std::move(grown);
  capacity_ = larger;
}

Status ResumableStream::came(size_t bytes) {
  Status status = parseAll(bytes);
  spoiled_ = spoiled_ || !status.ok();
  return status;
}

Status ResumableStream::parseAll(size_t bytes) {
  if (straight_.active) {
    const size_t ofRecord = std::min<size_t>(bytes, straight_.bytes - straight_.got);
    TUTTI_TRY(cameStraight(ofRecord));
    bytes -= ofRecord;
  }
  end_ += bytes;
  TUTTI_ASSERT_CMP(end_, <=, capacity_);
  for (bool whole = true; whole;) TUTTI_TRY(parseOne(&whole));
  return {};
}

Status ResumableStream::parseOne(bool* whole) {
  *whole = false;
  if (end_ - parsed_ < headBytes_) return {};
  TUTTI_ASSIGN(const Parsed record, parseHead(in_.get() + parsed_));
  if (firstRecord_ != (record.kind == Kind::Resume))
    return remoteError(ErrorCode::Malformed, "a connection does not begin with a resume");
  if (record.kind == Kind::Data && record.position != received_) {
    return remoteError(ErrorCode::Malformed, "byte ", record.position, " came where byte ", received_, " was to come");
  }
  const size_t size = headBytes_ + (record.kind == Kind::Data ? record.bytes : 0);
  if (end_ - parsed_ < size) return {};
  std::byte* const at = in_.get() + parsed_;
  if (!intact(at, record, at + headBytes_)) return damaged(record.bytes, record.position);
  firstRecord_ = false;
  *whole = true;
  if (record.kind == Kind::Data) {
    received_ += record.bytes;
    cut_.clear();
    if (received_ - consumed_ > window_)
      return remoteError(ErrorCode::Malformed, "it has sent more than there is room for");
    parsed_ += size;
  } else {
    // Nothing of it is kept: acknowledgements must not fill the room of bytes that nobody takes.
    std::memmove(in_.get() + parsed_, in_.get() + parsed_ + size, end_ - parsed_ - size);
    end_ -= size;
    TUTTI_TRY(onControl(record));
  }
  return acknowledge(record.consumed);
}

Status ResumableStream::onControl(const Parsed& record) {
  if (record.kind == Kind::Resume) return resumeAt(record.position, record.bytes);
  if (record.kind == Kind::Rest) return join(record);
  if (record.kind == Kind::Bye) peerSaidBye_ = true;
  return {};
}

size_t ResumableStream::take(std::span<const iovec> parts) {
  size_t taken = 0;
  if (landed_ > 0) {
    taken = takeLanded(parts);
    recordsTaken_ += landed_ == 0 ? 1 : 0;
  }
  if (landed_ == 0) taken += takeBuffered(parts, taken);
  consumedSome(taken);
  return taken;
}

size_t ResumableStream::takeBuffered(std::span<const iovec> parts, size_t skip) {
  size_t taken = 0;
  for (const iovec& part : parts) {
    const size_t from = std::min(skip, part.iov_len);
    skip -= from;
    auto* out = static_cast<std::byte*>(part.iov_base) + from;
    for (size_t want = part.iov_len - from; want > 0;) {
      if (left_ == 0) {
        if (begin_ == parsed_) return taken;
        left_ = parseHead(in_.get() + begin_)->bytes;
        begin_ += headBytes_;
      }
      const size_t n = std::min(want, left_);
      std::memcpy(out, in_.get() + begin_, n);
      begin_ += n;
      left_ -= n;
      recordsTaken_ += left_ == 0 ? 1 : 0;
      out += n;
      want -= n;
      taken += n;
    }
  }
  return taken;
}

void ResumableStream::consumedSome(size_t bytes) {
  consumed_ += bytes;
  if (consumed_ - saidConsumed_ < window_ / 4 && recordsTaken_ < kMostRecords / 4) return;
  saidConsumed_ = consumed_;
  recordsTaken_ = 0;
  ackDue_ = true;
}

// ---- Connections

void ResumableStream::disconnect() {
  keepCut();
  offset_ = 0;
  restDue_ = false;
  controlMade_ = false;
  controlSent_ = 0;
  resumed_ = false;
}

void ResumableStream::connect() {
  disconnect();
  resumeDue_ = true;
  firstRecord_ = true;
}

void ResumableStream::check() const {
  TUTTI_ASSERT_CMP(acknowledged_, <=, written_);
  TUTTI_ASSERT_CMP(sentMost_, <=, written_);
  TUTTI_ASSERT_CMP(written_ - acknowledged_, <=, kept_.bytes());
  TUTTI_ASSERT_CMP(kept_.bytes(), <=, window_);
  TUTTI_ASSERT_CMP(received_ - consumed_, <=, window_);
  TUTTI_ASSERT_CMP(cursor_, <=, records_.size());
  TUTTI_ASSERT_CMP(records_.size(), <=, kMostRecords);
  TUTTI_ASSERT(!restDue_ || (offset_ > 0 && cursor_ < records_.size()));
  TUTTI_ASSERT_CMP(cut_.size(), <, kSealedHeadBytes + kMostRecordBytes);
  TUTTI_ASSERT(!straight_.active || (end_ == 0 && straight_.got < straight_.bytes));
  TUTTI_ASSERT(begin_ <= parsed_ && parsed_ <= end_ && end_ <= capacity_);
  uint64_t next = records_.empty() ? written_ : records_[0].position;
  for (size_t i = 0; i < records_.size(); ++i) {
    TUTTI_ASSERT_CMP(records_[i].position, ==, next);
    next += records_[i].bytes;
  }
  TUTTI_ASSERT_CMP(next, ==, written_);
}

}  // namespace tutti::tcp

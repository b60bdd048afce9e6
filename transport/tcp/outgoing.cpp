#include "transport/tcp/outgoing.hpp"

#include <cstring>

#include "src/base/assert.hpp"

namespace tutti::tcp {

Outgoing::Outgoing(Sockets& sockets, size_t slotBytes, const EmptyLooks& looks)
    : sockets_(sockets), slotBytes_(slotBytes), staging_(new std::byte[slotBytes]), looks_(looks) {}

Result<bool> Outgoing::send(const std::byte* data, const Header& header) {
  if (!active_ && polled_ == 0) {
    TUTTI_ASSERT_CMP(header.bytes, <=, slotBytes_);
    if (!posted_.empty()) TUTTI_TRY(asStatus(push()));
    if (!posted_.empty()) return false;
    data_ = data;
    bytes_ = header.bytes;
    sent_ = 0;
    ofRow_ = inRow();
    if (piecesOf(bytes_).count > 1) {
      putInLine(data, header);
      polled_ = done_ + posted_.size();
    } else {
      active_ = true;
      const HeaderBytes head = encodeHeader(numbered(header, ofRow_));
      std::memcpy(packet_.get(), head.data(), head.size());
      if (packed() && bytes_ > 0) std::memcpy(packet_.get() + kHeaderBytes, data, bytes_);
    }
  }
  TUTTI_ASSERT_CMP(data, ==, data_);
  TUTTI_ASSERT_CMP(header.bytes, ==, bytes_);
  if (polled_ != 0) {
    TUTTI_TRY(asStatus(pushLine()));
    if (done_ < polled_) return false;
    polled_ = 0;
    return true;
  }
  TUTTI_TRY(asStatus(pushActive()));
  if (!whole()) return false;
  active_ = false;
  if (ofRow_) sockets_.gather(true);
  return true;
}

Header Outgoing::numbered(const Header& header, bool row) {
  return {header.bytes, header.call, sockets_.spread(), row, number_++, 0, sockets_.severalPaths()};
}

void Outgoing::putInLine(const std::byte* data, const Header& header) {
  Posted next{.header = numbered(header, false), .data = data, .pieces = piecesOf(header.bytes)};
  next.head = encodeHeader(next.header);
  next.left = next.pieces.count;
  posted_.push_back(next);
}

// The first message of a row still leaves when it is written, so that the receiver knows of the row before anything
// waits for its acknowledgement; whatever ends a row sends what was held back.
bool Outgoing::inRow() {
  // A connection that is made again may be farther than before.
  const bool may = !sockets_.severalPaths() && sockets_.near();
  const bool row = may && row_.next(packed(), sockets_.heardOf(), looks_.load(std::memory_order_relaxed));
  if (!row) sockets_.gather(false);
  return row;
}

std::span<std::byte> Outgoing::staging() {
  if (busy()) return {};
  return {staging_.get(), slotBytes_};
}

// A lone small message leaves as one that is sent, in one piece of memory.  Posted ones are no row.
Result<uint64_t> Outgoing::post(const std::byte* data, const Header& header) {
  TUTTI_ASSERT_CMP(header.bytes, <=, slotBytes_);
  const bool alone = posted_.empty() && !active_;
  const bool small = header.bytes <= kMostPackedBytes;
  if (alone && small) {
    TUTTI_ASSIGN(const bool gone, send(data, header));
    if (gone) return ++done_;
  }
  sockets_.gather(false);
  if (alone && small) {  // it goes on from here
    active_ = false;
    Posted next{.header = header, .data = data, .pieces = Pieces(header.bytes, 1), .sent = sent_};
    std::memcpy(next.head.data(), packet_.get(), kHeaderBytes);
    posted_.push_back(next);
  } else {
    putInLine(data, header);
  }
  if (alone) TUTTI_TRY(asStatus(push()));
  return done_ + posted_.size();
}

void Outgoing::cancel() {
  posted_.clear();
  leaving_.fill({});
  taken_ = 0;
  polled_ = 0;
  active_ = false;
}

Result<bool> Outgoing::push() {
  bool moved = false;
  if (active_) {
    TUTTI_ASSIGN(moved, pushActive());
    if (!whole()) return moved;
  }
  if (posted_.empty()) return moved;
  TUTTI_ASSIGN(const bool line, pushLine());
  return moved || line;
}

/// As long as sockets take something: what leaves in one piece by the first, the rest by whichever has room.
Result<bool> Outgoing::pushLine() {
  const int nSockets = static_cast<int>(sockets_.spread());
  bool moved = false;
  for (bool more = true; more && !posted_.empty();) {
    more = false;
    if (nSockets > 1) {
      TUTTI_ASSIGN(more, pushPieces(&moved));
    }
    const bool firstIsFree = leaving_[0].message == 0;
    if (firstIsFree && taken_ < posted_.size() && posted_[taken_].pieces.count == 1) {
      const size_t before = taken_;
      TUTTI_ASSIGN(const size_t wrote, pushWhole());
      moved = moved || wrote > 0;
      more = more || (nSockets > 1 && taken_ > before);
    }
    for (; !posted_.empty() && posted_.front().left == 0; posted_.pop_front(), --taken_) ++done_;
  }
  return moved;
}

/// Writes as many messages that are in one piece as one system call takes.
Result<size_t> Outgoing::pushWhole() {
  constexpr size_t kMostParts = 32;
  constexpr size_t kMostBytes = size_t{4} << 20;  // more does not fit any socket buffer
  std::array<iovec, kMostParts> parts;
  size_t n = 0, bytes = 0;
  const auto add = [&](const std::byte* from, size_t size) {
    if (size == 0) return;
    parts[n++] = {const_cast<std::byte*>(from), size};  // sendmsg only reads
    bytes += size;
  };
  for (size_t at = taken_; at < posted_.size(); ++at) {
    const Posted& message = posted_[at];
    if (message.pieces.count > 1 || n + 2 > kMostParts || bytes >= kMostBytes) break;
    const size_t ofHead = std::min(message.sent, kHeaderBytes), ofBody = message.sent - ofHead;
    add(message.head.data() + ofHead, kHeaderBytes - ofHead);
    add(message.data + ofBody, message.header.bytes - ofBody);
  }
  TUTTI_ASSIGN(const size_t wrote, sockets_.write(0, std::span(parts).first(n)));
  for (size_t left = wrote; left > 0;) {
    Posted& message = posted_[taken_];
    const size_t all = kHeaderBytes + message.header.bytes, some = std::min(left, all - message.sent);
    message.sent += some;
    left -= some;
    if (message.sent < all) break;
    message.left = 0;
    ++taken_;
  }
  return wrote;
}

/// Goes on with pieces that are leaving, and gives those in line to sockets that have none.  True: a piece has left.
Result<bool> Outgoing::pushPieces(bool* moved) {
  const auto nSockets = static_cast<int>(sockets_.spread());
  bool left = false;
  uint32_t idle = 0;
  const auto push = [&](int i) -> Status {
    Leaving& piece = leaving_[static_cast<size_t>(i)];
    if (piece.message != 0) {
      TUTTI_ASSIGN(const size_t wrote, pushPiece(i));
      *moved = *moved || wrote > 0;
      left = left || piece.message == 0;
    }
    idle = piece.message == 0 ? idle | 1u << i : idle & ~(1u << i);
    return {};
  };
  for (int i = 0; i < nSockets; ++i) TUTTI_TRY(push(i));
  if (sockets_.severalPaths()) {
    while (piecesWait() && idle != 0) {
      const int i = sockets_.soonest(idle, posted_[taken_].pieces.each);
      if (i < 0) break;
      takePiece(i);
      TUTTI_TRY(push(i));
    }
    return left;
  }
  for (int i = 0; i < nSockets && piecesWait(); ++i) {
    if ((idle >> i & 1) == 0 || !sockets_.hasRoom(i)) continue;
    takePiece(i);
    TUTTI_TRY(push(i));
  }
  return left;
}

/// The next piece in line leaves by this socket.
void Outgoing::takePiece(int socket) {
  Posted& message = posted_[taken_];
  Header header = message.header;
  header.piece = message.next++;
  const Piece piece = message.pieces[header.piece];
  leaving_[static_cast<size_t>(socket)] = {done_ + 1 + taken_, encodeHeader(header),
                                           std::span(message.data + piece.offset, piece.bytes), 0};
  if (message.next == message.pieces.count) ++taken_;
}

Result<size_t> Outgoing::pushPiece(int socket) {
  Leaving& piece = leaving_[static_cast<size_t>(socket)];
  const size_t ofHead = std::min(piece.sent, kHeaderBytes);
  const std::span<const std::byte> body = piece.bytes.subspan(piece.sent - ofHead);
  iovec parts[2] = {{piece.head.data() + ofHead, kHeaderBytes - ofHead},
                    {const_cast<std::byte*>(body.data()), body.size()}};  // sendmsg only reads
  const std::span<iovec> all(parts);
  TUTTI_ASSIGN(const size_t wrote, sockets_.write(socket, ofHead == kHeaderBytes ? all.subspan(1) : all));
  piece.sent += wrote;
  sockets_.wrotePiece(socket, wrote);
  if (piece.sent < kHeaderBytes + piece.bytes.size()) return wrote;
  --posted(piece.message).left;
  piece.message = 0;
  return wrote;
}

// Writes the rest in one system call.
Result<bool> Outgoing::pushActive() {
  const size_t left = kHeaderBytes + bytes_ - sent_;
  if (left == 0) return false;
  size_t wrote = 0;
  if (packed()) {
    TUTTI_ASSIGN(wrote, sockets_.write(0, std::span<const std::byte>(packet_.get() + sent_, left)));
  } else if (sent_ >= kHeaderBytes) {
    TUTTI_ASSIGN(wrote, sockets_.write(0, std::span(data_ + (sent_ - kHeaderBytes), left)));
  } else {
    // iovec wants a pointer to non-const; sendmsg only reads.
    iovec parts[2] = {{packet_.get() + sent_, kHeaderBytes - sent_}, {const_cast<std::byte*>(data_), bytes_}};
    TUTTI_ASSIGN(wrote, sockets_.write(0, std::span(parts)));
  }
  sent_ += wrote;
  return wrote > 0;
}

}  // namespace tutti::tcp

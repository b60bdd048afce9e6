#include "transport/shm/board.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/copy.hpp"
#include "transport/mismatch.hpp"

namespace tutti::shm {

Publisher::Publisher(BoardUse use, int rank, std::shared_ptr<Segment> mine,
                     std::vector<std::shared_ptr<Segment>> readers)
    : lines_(mine->layout().lines), board_(mine->board(use)), mine_(std::move(mine)), readers_(std::move(readers)) {
  board_.read(rank).store(UINT64_MAX, std::memory_order_relaxed);  // we do not read our own
}

bool Publisher::hasLine() {
  if (sent_ - seenRead_ < lines_) [[likely]]
    return true;
  uint64_t least = sent_;
  for (size_t rank = 0; rank <= readers_.size(); ++rank) {
    // Partner: Subscriber::consume().  Without acquire we could write a line that is still being read.
    least = std::min(least, board_.read(static_cast<int>(rank)).load(std::memory_order_acquire));
  }
  seenRead_ = least;
  return sent_ - seenRead_ < lines_;
}

Result<bool> Publisher::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  TUTTI_ASSERT_CMP(bytes, <=, kInlineBytes);
  if (!hasLine()) return false;
  ControlLine& line = board_.line(sent_);
  copySmall(line.payload, data, bytes);
  line.kindAndBytes.store(kindAndBytes(Kind::Inline, bytes), std::memory_order_relaxed);
  line.callHead.store(call.head, std::memory_order_relaxed);
  line.callCount.store(call.count, std::memory_order_relaxed);
  line.sequence.store(static_cast<uint32_t>(++sent_), std::memory_order_release);  // partner: Subscriber::peek()
  for (const std::shared_ptr<Segment>& reader : readers_) ring(reader->bell());
  return true;
}

Result<std::span<std::byte>> Publisher::reserve() { return std::span<std::byte>(staging_); }

Result<bool> Publisher::commit(size_t bytes, const Fingerprint& call) { return send(staging_.data(), bytes, call); }

Subscriber::Subscriber(BoardUse use, int rank, int peer, std::shared_ptr<Segment> theirs)
    : rank_(rank),
      peer_(peer),
      theirs_(std::move(theirs)),
      creditBatch_(theirs_->layout().creditBatch()),
      board_(theirs_->board(use)) {}

Status Subscriber::check(const ControlLine& line, const Expect& expect) {
  const Fingerprint call{line.callHead.load(std::memory_order_relaxed), line.callCount.load(std::memory_order_relaxed)};
  const size_t bytes = line.kindAndBytes.load(std::memory_order_relaxed) & kBytesMask;
  if (call == expect.call && bytes == expect.bytes) [[likely]]
    return {};
  seen_ = call;
  failure_ = checkExpected(peer_, expect, bytes, call);
  return failure_;
}

Result<const std::byte*> Subscriber::peek(const Expect& expect) {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  const ControlLine& line = board_.line(received_);
  if (peeked_) return static_cast<const std::byte*>(line.payload);
  const uint64_t word = line.sequence.load(std::memory_order_acquire);  // partner: Publisher::send()
  if (word != static_cast<uint32_t>(received_ + 1)) return static_cast<const std::byte*>(nullptr);
  TUTTI_TRY(check(line, expect));
  asked_.store(received_ + 1, std::memory_order_relaxed);
  peeked_ = true;
  return static_cast<const std::byte*>(line.payload);
}

void Subscriber::release() {
  if (std::exchange(peeked_, false)) consume();
}

Result<bool> Subscriber::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const std::byte* message, peek(expect));
  if (message == nullptr) return false;
  copySmall(dst, message, expect.bytes);
  release();
  return true;
}

void Subscriber::consume() {
  ++received_;
  if (received_ % creditBatch_ != 0) return;
  board_.read(rank_).store(received_, std::memory_order_release);  // partner: Publisher::hasLine()
  ring(theirs_->bell());
}

std::optional<Fingerprint> Subscriber::pending() const {
  const uint64_t next = asked_.load(std::memory_order_relaxed) + 1;
  const ControlLine& line = board_.line(next - 1);
  if (line.sequence.load(std::memory_order_acquire) != static_cast<uint32_t>(next)) return std::nullopt;
  const Fingerprint call{line.callHead.load(std::memory_order_relaxed), line.callCount.load(std::memory_order_relaxed)};
  if (asked_.load(std::memory_order_acquire) + 1 != next) return std::nullopt;  // taken meanwhile: not pending
  return call;
}

}  // namespace tutti::shm

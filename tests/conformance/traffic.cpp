#include "tests/conformance/traffic.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "src/base/split_mix.hpp"

namespace tutti::conformance {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};
constexpr int kPatienceMs = 20'000;

bool untouched(std::span<const std::byte> guard) {
  return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuard; });
}

}  // namespace

std::vector<size_t> interestingSizes(size_t most) {
  std::vector<size_t> sizes = {0, 1, 7, 8, 31, 32, 33, 47, 48, 49, 56, 63, 64, 65, 1000, 4095, 4096, 4097};
  for (const size_t border : {most / 2, size_t{64} << 10, size_t{128} << 10, size_t{192} << 10}) {
    sizes.insert(sizes.end(), {border - 1, border, border + 1});
  }
  sizes.insert(sizes.end(), {most - 1, most});
  std::erase_if(sizes, [most](size_t bytes) { return bytes > most; });
  return sizes;
}

std::vector<Message> randomMessages(uint64_t seed, int count, size_t most, size_t mostDirect) {
  std::mt19937_64 random(seed);
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<Message> out;
  for (int i = 0; i < count; ++i) {
    Message m;
    m.how = static_cast<How>(below(3));
    m.take = static_cast<Take>(below(3));
    m.misaligned = below(4) == 0 ? below(64) : 0;
    const size_t limit = m.how == How::Offer && mostDirect > 0 ? std::min(mostDirect, 2 * most) : most;
    m.bytes = below(3) == 0 ? below(limit + 1) : below(std::min<size_t>(limit, 300) + 1);
    out.push_back(m);
  }
  return out;
}

Fingerprint callNumber(uint32_t number) {
  return makeFingerprint({.sequence = number & 0xffffff, .kind = 0, .dtype = 0, .op = 0, .root = 0, .count = number});
}

void fillPattern(std::span<std::byte> out, uint64_t seed, uint32_t number) {
  const uint64_t base = splitMix(seed * kSplitMixStep + number);
  for (size_t at = 0; at < out.size(); at += sizeof(uint64_t)) {
    const uint64_t word = splitMix(base + at);
    std::memcpy(out.data() + at, &word, std::min(sizeof word, out.size() - at));
  }
}

Result<bool> Sender::step() {
  TUTTI_ASSIGN(const bool freed, stepOffers());
  if (next_ == messages_.size()) return freed;
  const Message& message = messages_[next_];
  if (message.how == How::Reserve) {
    TUTTI_ASSIGN(const bool moved, stepReserved(message));
    return moved || freed;
  }
  if (!begun_) {
    memory_.assign(message.misaligned + message.bytes, kGuard);
    fillPattern(std::span(memory_).subspan(message.misaligned), seed_, number());
    begun_ = true;
  }
  const std::byte* data = memory_.data() + message.misaligned;
  if (message.how == How::Offer && endpoint_.canOffer(data, message.bytes)) {
    TUTTI_ASSIGN(const Request request, endpoint_.postSend(data, message.bytes, callNumber(number())));
    if (request == 0) return freed;
    offered_.push_back({request, std::move(memory_)});
  } else {
    TUTTI_ASSIGN(const bool gone, endpoint_.send(data, message.bytes, callNumber(number())));
    if (!gone) return freed;
    std::fill(memory_.begin(), memory_.end(), std::byte{0xEE});  // the bytes are taken: the memory is ours again
  }
  sent();
  return true;
}

// Offers are taken in order.
Result<bool> Sender::stepOffers() {
  bool freed = false;
  while (!offered_.empty()) {
    TUTTI_ASSIGN(const bool taken, endpoint_.test(offered_.front().request));
    if (!taken) break;
    std::fill(offered_.front().memory.begin(), offered_.front().memory.end(), std::byte{0xEE});
    offered_.pop_front();
    freed = true;
  }
  return freed;
}

Result<bool> Sender::stepReserved(const Message& message) {
  if (!begun_) {
    TUTTI_ASSIGN(const std::span<std::byte> room, endpoint_.reserve());
    if (room.empty()) return false;
    if (room.size() < message.bytes) return internalError("reserve() lent ", room.size(), " bytes only");
    fillPattern(room.first(message.bytes), seed_, number());
    begun_ = true;
  }
  TUTTI_ASSIGN(const bool gone, endpoint_.commit(message.bytes, callNumber(number())));
  if (gone) sent();
  return gone;
}

void Sender::sent() {
  ++next_;
  begun_ = false;
}

Result<bool> Receiver::step() {
  if (done()) return false;
  const Message& message = messages_[next_];
  const uint32_t number = first_ + static_cast<uint32_t>(next_);
  TUTTI_ASSIGN(const bool came, take(message, {message.bytes, callNumber(number)}));
  if (!came) return false;
  std::vector<std::byte> want(message.bytes);
  fillPattern(want, seed_, number);
  const std::span<const std::byte> all(memory_);
  const size_t before = kGuardBytes + message.misaligned;
  if (!std::equal(want.begin(), want.end(), all.begin() + static_cast<std::ptrdiff_t>(before))) {
    return internalError("message ", number, " of ", message.bytes, " bytes has wrong content");
  }
  if (!untouched(all.first(before)) || !untouched(all.subspan(before + message.bytes))) {
    return internalError("message ", number, " of ", message.bytes, " bytes was written beyond its place");
  }
  memory_.clear();
  ++next_;
  return true;
}

Result<bool> Receiver::take(const Message& message, const Expect& expect) {
  const size_t before = kGuardBytes + message.misaligned;
  if (memory_.empty()) memory_.assign(before + message.bytes + kGuardBytes, kGuard);
  if (message.take == Take::Receive) return endpoint_.receive(memory_.data() + before, expect);
  if (message.take == Take::Parts) return takeParts(memory_.data() + before, expect);
  TUTTI_ASSIGN(const std::byte* data, endpoint_.peek(expect));
  if (data == nullptr) return false;
  TUTTI_ASSIGN(const std::byte* again, endpoint_.peek(expect));
  if (again != data) return internalError("a second peek() before release() gave another place");
  if (message.bytes > 0) std::memcpy(memory_.data() + before, data, message.bytes);
  endpoint_.release();
  return true;
}

// What came later is copied later: it must lie where the message began.
Result<bool> Receiver::takeParts(std::byte* to, const Expect& expect) {
  TUTTI_ASSIGN(const std::span<const std::byte> part, endpoint_.peekPart(expect));
  if (part.size() < came_) return internalError("of a message ", came_, " bytes were there, and then ", part.size());
  if (part.data() == nullptr) return false;
  std::copy(part.begin() + static_cast<std::ptrdiff_t>(came_), part.end(), to + came_);
  came_ = part.size();
  if (came_ < expect.bytes) return false;
  came_ = 0;
  endpoint_.release();
  return true;
}

std::string drive(Harness& harness, std::span<Actor* const> actors) {
  Deadline deadline = Deadline::inMs(kPatienceMs);
  for (;;) {
    bool done = true;
    bool moved = false;
    for (Actor* actor : actors) {
      const Result<bool> result = actor->step();
      if (!result.ok()) return result.status().message();
      moved = moved || *result;
      done = done && actor->done();
    }
    moved = harness.progress() || moved;
    if (done) return "";
    harness.pump();
    if (moved) deadline = Deadline::inMs(kPatienceMs);  // a busy machine may take longer for the whole
    if (deadline.passed()) return "nothing moves any more";
  }
}

std::string driveAlone(Harness& harness, int rank, Actor& actor) {
  Deadline deadline = Deadline::inMs(kPatienceMs);
  while (!actor.done()) {
    const Result<bool> result = actor.step();
    if (!result.ok()) return result.status().message();
    if (*result) deadline = Deadline::inMs(kPatienceMs);
    (void)harness.progress(rank);
    sched_yield();
    if (deadline.passed()) return "nothing moves any more";
  }
  return "";
}

}  // namespace tutti::conformance

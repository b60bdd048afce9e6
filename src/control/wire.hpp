// Messages as bytes: little endian, lengths before texts.  The Reader never reads past the end, whatever it is given.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti {

/// The first byte of every message.
enum class MessageType : uint8_t {
  // Proving the secret (handshake.hpp)
  Hello = 1,
  Challenge,
  Proof,
  Accepted,
  OtherSecret,  // instead of Proof
  Withdrawn,    // likewise
  // Between a rank and the rendezvous (rendezvous.hpp)
  Register = 16,
  Peers,
  // Overlay; Failure and Goodbye also go to and from the rendezvous (member.hpp)
  Failure = 32,
  Goodbye,
  Heartbeat,
  GatherPart,
  Ask,
  Answer,
  AllIsWell,
  Resume,  // resumable_link.hpp, as the heartbeat
  Rest,
  Silence,  // silence.hpp
  Waits,    // circles.hpp
  // Between survivors (survivors.hpp), besides Goodbye
  Agreement = 48,
};

class Writer {
 public:
  explicit Writer(MessageType type) { u8(static_cast<uint8_t>(type)); }
  Writer() = default;

  void u8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void u32(uint32_t v) { number(v, 4); }
  void u64(uint64_t v) { number(v, 8); }
  void i32(int32_t v) { number(static_cast<uint32_t>(v), 4); }
  void i64(int64_t v) { number(static_cast<uint64_t>(v), 8); }
  /// Bytes of a length that both sides know.
  void raw(const void* data, size_t bytes) { out_.append(static_cast<const char*>(data), bytes); }
  /// Bytes behind their length.
  void text(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    out_.append(v);
  }
  size_t bytes() const { return out_.size(); }
  const std::string& str() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  void number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>((v >> (8 * i)) & 0xff));
  }
  std::string out_;
};

/// After the first thing that does not fit, ok() is false and everything read is zero or empty.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}

  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  int32_t i32() { return static_cast<int32_t>(static_cast<uint32_t>(number(4))); }
  int64_t i64() { return static_cast<int64_t>(number(8)); }
  bool raw(void* out, size_t bytes) {
    const std::string_view piece = take(bytes);
    if (!ok_) {
      std::memset(out, 0, bytes);
      return false;
    }
    if (bytes > 0) std::memcpy(out, piece.data(), bytes);
    return true;
  }
  /// A view into the message; a longer one than maxBytes is an error.
  std::string_view text(size_t maxBytes) {
    const uint32_t bytes = u32();
    if (bytes > maxBytes) ok_ = false;
    return take(bytes);
  }
  /// A count of things that take at least bytesEach: one that cannot fit into what is left is an error, so that nobody
  /// makes room for more than was sent.
  uint32_t count(size_t bytesEach) {
    const uint32_t n = u32();
    if (n > rest_.size() / bytesEach) ok_ = false;
    return ok_ ? n : 0;
  }
  bool ok() const { return ok_; }
  /// Everything was there, and nothing more.
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view take(size_t bytes) {
    if (!ok_ || bytes > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view piece = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return piece;
  }
  uint64_t number(size_t bytes) {
    const std::string_view piece = take(bytes);
    uint64_t v = 0;
    for (size_t i = 0; i < piece.size(); ++i) v |= uint64_t{static_cast<unsigned char>(piece[i])} << (8 * i);
    return v;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tutti

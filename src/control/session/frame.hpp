// Messages in a byte stream: four bytes of length and four of its CRC-32C, little endian, then that many bytes.  A
// length that is damaged would else have its reader wait for bytes that nobody sends.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace tutti {

/// Puts messages together from a stream of untrusted bytes.
///
/// It asks for no byte behind the message it is in, so that whoever takes the stream over finds all the rest in it; and
/// it takes memory as bytes arrive, never because a length was announced.
class FrameReader {
 public:
  /// The most that the next message may have; may change between messages.
  void setLimit(size_t maxBytes) { maxBytes_ = maxBytes; }

  /// Where to put the next bytes; not empty while !complete().
  std::span<char> room();
  /// n <= room().size() bytes have been put there.  Errors: RemoteError: the message announced is too large, or
  /// the length is damaged or of another version; the reader is of no more use.
  Status advance(size_t n);
  bool complete() const { return haveHeader_ && received_ == length_; }
  /// The message; only when complete(), until next().
  std::string_view message() const { return {body_.data(), length_}; }
  void next();

 private:
  size_t maxBytes_ = 0;
  std::array<char, 8> header_{};
  size_t headerReceived_ = 0;
  bool haveHeader_ = false;
  size_t length_ = 0;
  size_t received_ = 0;
  std::string body_;
};

/// Append the length and the message to *out.
void appendFrame(std::string* out, std::string_view message);

}  // namespace tutti

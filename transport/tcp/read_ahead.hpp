// Bytes of one socket that were read before it was known to which message they belong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "transport/tcp/sockets.hpp"

namespace tutti::tcp {

/// Messages with a payload up to this are read into the buffer, so that one call takes several of them, each with its
/// header; copying them out costs less than a second piece of memory costs the system.
inline constexpr size_t kMostAheadBytes = 16384;

/// One thread at a time.
class ReadAhead {
 public:
  size_t size() const { return end_ - begin_; }
  const std::byte* data() const { return buffer_.get() + begin_; }

  /// Take up to `most` bytes out; how many.
  size_t take(std::byte* dst, size_t most) {
    const size_t n = std::min(most, size());
    if (n > 0) std::memcpy(dst, data(), n);
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
    return n;
  }

  /// One read of socket i, of as much as there is room for behind what is here.  Returns and errors of
  /// Sockets::readAhead.
  Result<size_t> fill(Sockets& sockets, int i) {
    if (begin_ > 0) {
      std::memmove(buffer_.get(), data(), size());
      end_ -= begin_;
      begin_ = 0;
    }
    TUTTI_ASSIGN(const size_t n, sockets.readAhead(i, std::span(buffer_.get() + end_, kBytes - end_)));
    end_ += n;
    return n;
  }

 private:
  // Several of the largest; more would make a large message that follows small ones be copied in vain.
  static constexpr size_t kBytes = 4 * kMostAheadBytes;
  std::unique_ptr<std::byte[]> buffer_{new std::byte[kBytes]};
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace tutti::tcp

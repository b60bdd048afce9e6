// Random bytes of the system, fit for secrets.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <span>

namespace tutti {

inline void fillRandom(std::span<std::byte> out) {
  for (size_t done = 0; done < out.size();) {
    const ssize_t n = getrandom(out.data() + done, out.size() - done, 0);
    if (n > 0) done += static_cast<size_t>(n);
  }
}

/// Bytes: a std::array of bytes.
template <class Bytes>
Bytes randomBytes() {
  Bytes bytes;
  fillRandom(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace tutti

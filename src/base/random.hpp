// Random bytes of the system, fit for secrets.
#pragma once

#include <cstddef>
#include <span>

#include "src/base/status.hpp"

namespace tutti {

/// Before anything else here, once or often.  Errors: SystemError: there are no random bytes.
Status seedRandom();

/// Random bytes of the system.  If it fails, they are derived from those of seedRandom(), which must have succeeded.
void fillRandom(std::span<std::byte> out);

/// Bytes: a std::array of bytes.
template <class Bytes>
Bytes randomBytes() {
  Bytes bytes;
  fillRandom(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace tutti

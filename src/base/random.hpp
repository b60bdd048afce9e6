// Random bytes of the system, fit for secrets.
#pragma once

#include <cstddef>
#include <span>

#include "src/base/status.hpp"

namespace tutti {

/// Before anything else here, once or often.  Errors: SystemError: there are no random bytes.
Status seedRandom();

/// Where the system gives none any more, they follow from what it gave seedRandom(), which must have succeeded then.
void fillRandom(std::span<std::byte> out);

/// Bytes: a std::array of bytes.
template <class Bytes>
Bytes randomBytes() {
  Bytes bytes;
  fillRandom(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace tutti

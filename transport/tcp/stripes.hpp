// How one message is spread over the sockets of an endpoint: stripe i is a contiguous part and travels on socket i.
//
// Both ends compute it from the size and the sender's spread, which its headers carry.  Small messages are one stripe:
// a second system call costs more than it brings.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti::tcp {

inline constexpr int kMaxSockets = 16;
inline constexpr size_t kLeastStripeBytes = 64 << 10;
inline constexpr size_t kStripeAlign = 4096;  // parts of pages cost the kernel more

struct Stripe {
  size_t offset = 0;
  size_t bytes = 0;
};

struct Stripes {
  size_t bytes = 0;
  int count = 1;
  size_t each = 0;  // all but the last, which may be smaller

  Stripes() = default;
  Stripes(size_t messageBytes, uint32_t spread) : bytes(messageBytes), each(messageBytes) {
    const size_t most = std::clamp<size_t>(messageBytes / kLeastStripeBytes, 1, spread);
    if (most == 1) return;
    each = ((messageBytes + most - 1) / most + kStripeAlign - 1) / kStripeAlign * kStripeAlign;
    count = static_cast<int>((messageBytes + each - 1) / each);
  }
  Stripe operator[](int i) const {
    const size_t offset = std::min(each * static_cast<size_t>(i), bytes);
    return {offset, std::min(each, bytes - offset)};
  }
};

}  // namespace tutti::tcp

#include "src/control/dial.hpp"

#include <algorithm>

namespace tutti {

namespace {

constexpr int64_t kFirstBackoffNs = 2'000'000;
constexpr int64_t kMaxBackoffNs = 200'000'000;

}  // namespace

// A bit at random, so that many ranks do not come back in the same moment.
void Dial::retry(Network& network, const Status& reason) {
  const int64_t now = network.nowNs();
  uint16_t jitter = 0;
  network.randomBytes(std::as_writable_bytes(std::span(&jitter, 1)));
  link = 0;
  why = reason;
  // One that does not answer in time may be late or stopped; only refusing counts.
  if (reason.code() == tuttiTimeout) {
    failingSinceNs = kNoTimer;
  } else if (failingSinceNs == kNoTimer) {
    failingSinceNs = now;
  }
  backoffNs = std::clamp(backoffNs * 2, kFirstBackoffNs, kMaxBackoffNs);
  nextNs = now + backoffNs / 2 + backoffNs * jitter / 65536;
}

}  // namespace tutti

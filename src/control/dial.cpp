#include "src/control/dial.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/text.hpp"

namespace tutti {

namespace {

constexpr int64_t kFirstBackoffNs = 2'000'000;
constexpr int64_t kMaxBackoffNs = 200'000'000;

}  // namespace

ControlAddress beginWith(const ControlAddress& to, int path) {
  std::vector<std::string> addresses = split(to, ',');
  const auto kind = [](const std::string& address) {
    return std::pair(address.starts_with('['), address.find('%') != std::string::npos);
  };
  std::vector<size_t> alike;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (kind(addresses[i]) == kind(addresses[0])) alike.push_back(i);
  }
  if (path <= 0 || alike.size() < 2) return to;
  const auto first = addresses.begin() + static_cast<std::ptrdiff_t>(alike[static_cast<size_t>(path) % alike.size()]);
  std::rotate(addresses.begin(), first, first + 1);
  ControlAddress rotated;
  for (const std::string& address : addresses) rotated += cat(rotated.empty() ? "" : ",", address);
  return rotated;
}

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
  refusedSinceNs = nobodyListens(reason) ? std::min(refusedSinceNs, now) : kNoTimer;
  backoffNs = std::clamp(backoffNs * 2, kFirstBackoffNs, kMaxBackoffNs);
  nextNs = now + backoffNs / 2 + backoffNs * jitter / 65536;
  // It is known then that nobody listens.
  if (refusedSinceNs != kNoTimer && now < refusedSinceNs + kNobodyListensNs)
    nextNs = std::min(nextNs, refusedSinceNs + kNobodyListensNs);
}

}  // namespace tutti

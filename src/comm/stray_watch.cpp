#include "src/comm/stray_watch.hpp"

#include <algorithm>

namespace tutti {
namespace {

// Two looks and an inquiry fit into 50 ms.
constexpr int64_t kLookNs = 15'000'000;
constexpr int kMostIdleLooks = 4;
constexpr uint32_t kSequenceMask = 0xff'ffff;

/// Whether a message's 24 bits of sequence are those of a call up to `last`.
bool upTo(uint32_t sequence, uint64_t last) {
  return ((static_cast<uint32_t>(last) - sequence) & kSequenceMask) < kSequenceMask / 2;
}

}  // namespace

StrayWatch::StrayWatch(Control& control, FlightRecorder& recorder, const Links& links, std::function<bool()> also)
    : control_(control), recorder_(recorder), links_(links), also_(std::move(also)) {
  control_.setTicker(kLookNs, [this] { return look(); });
}

StrayWatch::~StrayWatch() { control_.setTicker(kLookNs, {}); }

void StrayWatch::start() {
  active_.store(true, std::memory_order_relaxed);
  control_.startTicker();
}

// A rank that goes on calling finds strays by itself, so its endpoints are left alone.
Look StrayWatch::look() {
  recorder_.look();
  const FlightRecorder::Place place = recorder_.place();
  const bool paused = place.entered == entered_ && !place.inside;
  entered_ = place.entered;
  const bool goesOn = also_ && also_();
  idleLooks_ = paused ? idleLooks_ + 1 : 0;
  if (goesOn) idleLooks_ = std::min(idleLooks_, kMostIdleLooks - 1);
  if (!paused) {
    active_.store(true, std::memory_order_relaxed);
    return {.again = true, .stray = {}};
  }
  // A call that is entered now may still see `active`: the look after this one finds out.
  if (idleLooks_ == kMostIdleLooks) active_.store(false, std::memory_order_relaxed);
  return {.again = idleLooks_ <= kMostIdleLooks, .stray = findStray(place.entered)};
}

std::optional<Suspicion> StrayWatch::findStray(uint64_t left) const {
  std::optional<Suspicion> stray;
  links_.forEachCollectiveEndpoint([&](int peer, const Endpoint& endpoint) {
    if (stray) return;
    const std::optional<Fingerprint> pending = endpoint.pending();
    if (!pending) return;
    const CallParts parts = partsOf(*pending);
    if (parts.kind == kKindControl) return;
    if (upTo(parts.sequence, left)) stray = Suspicion{.sequence = left, .rank = peer};
  });
  return stray;
}

}  // namespace tutti

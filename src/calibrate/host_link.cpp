#include "src/calibrate/host_link.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "src/base/text.hpp"
#include "src/cost/kept_text.hpp"

namespace tutti {
namespace {

constexpr int kMostRoundTrips = 64;
constexpr size_t kFirstWindow = 64 << 10;
constexpr size_t kMostWindow = 1 << 20;
constexpr int64_t kRecentNs = 1'000'000, kMostRecentNs = 5'000'000;
constexpr size_t kMostStreamBytes = 64 << 20;
/// Both ends know the size of every piece: small ones first, for slow links, then such as calls are made of.
constexpr size_t kSmallPieces = 32, kSmallPiece = 16 << 10, kLargePiece = 64 << 10;
/// Looks farther apart than this, or rests that take longer, have others on the core.
constexpr int64_t kIdleLookNs = 20'000, kIdleRestNs = 3 * kRestUs * 1000;
/// With more than this part of the time spent so or on messages, what was measured is the core's and says nothing of
/// the wire.
constexpr double kMostBusy = 0.6;
/// A wire's rate stays what it is: if it changes by more than this part, something else was in the way.
constexpr double kMostUneven = 0.25;
/// Fewer may have come as they did by chance.
constexpr ptrdiff_t kLeastPieces = 4;
/// A wire that had something to carry for less than this part of the time says little.
constexpr double kLeastPart = 0.25;
/// A rate this near the window's is the window's.
constexpr double kNearWindow = 0.5;
/// A rate this near the nominal one is the nominal one.
constexpr double kNearNominal = 0.8;
/// A link is odd that carries less than this part of what most do.
constexpr double kOdd = 0.7;
constexpr double kStepsOfOctave = 8;
/// Less than that is as much the ranks' work and how their cores are shared, which costs say elsewhere, as the way:
/// ranks that join on a busy host find 6 us one time and 160 the next, and choose badly by either.
constexpr double kFarUs = 500;

/// What a message begins with.
enum Word : uint64_t { kEcho = 1, kStream = 2, kLast = 3 };

constexpr Fingerprint kCall{};  // of no call

size_t pieceBytes(const Endpoint& endpoint, size_t number) {
  return std::min(number < kSmallPieces ? kSmallPiece : kLargePiece, endpoint.slotBytes());
}

/// A word, or the moment that answers it.
template <class Value>
Result<bool> sendValue(Endpoint& endpoint, const Value& value) {
  return endpoint.send(reinterpret_cast<const std::byte*>(&value), sizeof value, kCall);
}
template <class Value>
Result<bool> receiveValue(Endpoint& endpoint, Value* value) {
  return endpoint.receive(reinterpret_cast<std::byte*>(value), {sizeof *value, kCall});
}

double rounded(double value) {
  return value > 0 ? std::exp2(std::round(std::log2(value) * kStepsOfOctave) / kStepsOfOctave) : 0;
}

}  // namespace

std::string toText(const HostLinkFigures& figures) {
  if (figures == HostLinkFigures()) return "";
  return number(figures.latencyUs) + " " + number(figures.bandwidthGBps);
}

Result<std::optional<HostLinkFigures>> parseHostLink(std::string_view text) {
  constexpr double kFarthestUs = 1e9, kFastestGBps = 1e5;
  if (text.empty()) return std::optional<HostLinkFigures>();
  HostLinkFigures figures;
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() != 2 || !parseNumber(words[0], 0.0, kFarthestUs, &figures.latencyUs) ||
      !parseNumber(words[1], 0.0, kFastestGBps, &figures.bandwidthGBps)) {
    return invalidArgument(ErrorCode::KeptFigures, "not the figures of a link between hosts");
  }
  return std::optional(figures);
}

HostLinkFigures commonOf(std::span<const HostLinkFigures> links) {
  std::vector<double> us, gbps;
  for (const HostLinkFigures& link : links) {
    if (link.latencyUs > 0) us.push_back(link.latencyUs);
    if (link.bandwidthGBps > 0) gbps.push_back(link.bandwidthGBps);
  }
  const auto least = [](const std::vector<double>& all) { return all.empty() ? 0 : *std::ranges::min_element(all); };
  return {rounded(least(us)), rounded(least(gbps))};
}

HostLinkFigures betterOf(const HostLinkFigures& a, const HostLinkFigures& b) {
  const double least = std::min(a.latencyUs, b.latencyUs), most = std::max(a.latencyUs, b.latencyUs);
  return {least > 0 ? least : most, std::max(a.bandwidthGBps, b.bandwidthGBps)};
}

bool someIsOdd(std::span<const HostLinkFigures> links) {
  std::vector<double> gbps;
  for (const HostLinkFigures& link : links)
    if (link.bandwidthGBps > 0) gbps.push_back(link.bandwidthGBps);
  std::ranges::sort(gbps);
  return !gbps.empty() && gbps.front() < kOdd * gbps[gbps.size() / 2];
}

void applyHostLink(const HostLinkFigures& figures, const LinkProfile& link, Calibration* calibration) {
  const LinearCost nominal = calibration->at(link, Protocol::Slots).cost;
  const double most = link.channelGBps > 0 ? std::min(nominal.bandwidthGBps, link.channelGBps) : nominal.bandwidthGBps;
  const double measured = figures.bandwidthGBps;
  const bool slower = measured > 0 && measured < kNearNominal * most;
  const double faster = measured > nominal.bandwidthGBps ? measured / nominal.bandwidthGBps : 1;
  for (const Protocol protocol : kAllProtocols) {
    LinkCost& cost = calibration->at(link, protocol);
    if (!cost.available) continue;
    cost.cost.bandwidthGBps *= slower ? measured / nominal.bandwidthGBps : faster;
    if (figures.latencyUs < kFarUs || nominal.latencyUs <= 0) continue;
    // A rank's work for a message is no more because the way is longer.
    const double workUs = cost.cost.latencyUs * cost.cost.workShare;
    cost.cost.latencyUs *= figures.latencyUs / nominal.latencyUs;
    cost.cost.workShare = std::min(cost.cost.workShare, workUs / cost.cost.latencyUs);
  }
}

ProbeTime BusyClock::look(int64_t nowNs, bool rested, bool moved) {
  const int64_t tookNs = time_.ns < 0 ? 0 : nowNs - time_.ns;
  const bool idle = !moved && tookNs <= (rested ? kIdleRestNs : kIdleLookNs);
  return time_ = {nowNs, time_.busyNs + (idle ? 0 : tookNs)};
}

/// Whether an end was busy for most of the time in between.
bool HostLinkProbe::byCore(const Answered& from, const Answered& to) {
  const ProbeTime here = to.at - from.at, far = to.far - from.far;
  return static_cast<double>(std::max(here.busyNs, far.busyNs)) > kMostBusy * static_cast<double>(here.ns);
}

HostLinkProbe::HostLinkProbe(Endpoint& endpoint)
    : endpoint_(endpoint), piece_(std::min(kLargePiece, endpoint.slotBytes())), window_(kFirstWindow) {}

Result<ProbeStep> HostLinkProbe::step(ProbeTime now, bool mayStream) {
  bool moved = false;
  if (!std::exchange(steps_, true)) began_.at = now;
  switch (phase_) {
    case Phase::RoundTrips: {
      TUTTI_ASSIGN(moved, roundTrip(now));
      const bool enough = roundTrips_ == kMostRoundTrips || (now - began_.at).ns > kRoundTripsNs;
      if (!waits_ && !begun_ && enough) phase_ = Phase::Announce;
      break;
    }
    case Phase::Announce: {
      if (!mayStream) break;
      word_ = kStream;
      TUTTI_ASSIGN(moved, sendValue(endpoint_, word_));
      if (moved) phase_ = Phase::Stream;
      streamNs_ = now.ns;
      break;
    }
    case Phase::Stream: {
      TUTTI_ASSIGN(moved, acknowledge(now));
      if (allSent() && nAcknowledged_ == nSent_) {
        phase_ = Phase::Done;
        return ProbeStep::Done;
      }
      if (allSent()) break;
      TUTTI_ASSIGN(const bool sent, sendPiece(now.ns));
      moved = moved || sent;
      break;
    }
    case Phase::Done: return ProbeStep::Done;
  }
  return moved ? ProbeStep::Moved : ProbeStep::Waits;
}

/// False: the word has not gone, or has not come back.
Result<bool> HostLinkProbe::roundTrip(ProbeTime now) {
  if (!waits_) {
    if (!begun_) sentNs_ = now.ns;
    word_ = kEcho;
    TUTTI_ASSIGN(waits_, sendValue(endpoint_, word_));
    begun_ = !waits_;
    return waits_;
  }
  TUTTI_ASSIGN(const bool came, receiveValue(endpoint_, &answer_));
  if (!came) return false;
  waits_ = false;
  const int64_t took = std::max<int64_t>(now.ns - sentNs_, 1);
  leastNs_ = roundTrips_++ == 0 ? took : std::min(leastNs_, took);
  tripped_ = {now, answer_};
  return true;
}

Result<bool> HostLinkProbe::acknowledge(ProbeTime now) {
  if (nAcknowledged_ == nSent_) return false;
  TUTTI_ASSIGN(const bool came, receiveValue(endpoint_, &answer_));
  if (!came) return false;
  const int64_t tookNs = now.ns - sentAtNs_[nAcknowledged_];
  leastNs_ = std::min(leastNs_, tookNs);
  leastWayNs_ = std::min(leastWayNs_, answer_.ns - sentAtNs_[nAcknowledged_]);
  acknowledged_ += pieceBytes(endpoint_, nAcknowledged_++);
  const int64_t recentNs = std::max(2 * leastNs_, std::clamp(tookNs, kRecentNs, kMostRecentNs));
  const auto recent =
      std::ranges::find_if(acknowledgements_, [&](const Acknowledged& a) { return a.at.ns + recentNs >= now.ns; });
  const size_t before = recent == acknowledgements_.begin() ? 0 : std::prev(recent)->bytes;
  window_ = std::min(kFirstWindow + acknowledged_ - before, kMostWindow);
  acknowledgements_.push_back({{now, answer_}, acknowledged_, window_});
  return true;
}

/// False: the window is full, or the system's buffers are.
Result<bool> HostLinkProbe::sendPiece(int64_t nowNs) {
  const size_t bytes = pieceBytes(endpoint_, nSent_);
  if (!begun_) {
    if (sent_ > acknowledged_ && sent_ - acknowledged_ + bytes > window_) return false;
    last_ = enough(nowNs) || sent_ + bytes >= kMostStreamBytes;
    sentAtNs_.push_back(nowNs);
    const uint64_t word = last_ ? kLast : kStream;
    std::memcpy(piece_.data(), &word, std::min(sizeof word, bytes));
  }
  TUTTI_ASSIGN(const bool gone, endpoint_.send(piece_.data(), bytes, kCall));
  begun_ = !gone;
  if (!gone) return false;
  ++nSent_;
  sent_ += bytes;
  return true;
}

/// Whether the stream need not go on.
bool HostLinkProbe::enough(int64_t nowNs) {
  if (nowNs - streamNs_ < kStreamNs) return false;
  told_ = streamGBps();
  return told_ > 0 || nowNs - streamNs_ >= kMostStreamNs;
}

/// The first of a piece that came then or later; there is one.
const HostLinkProbe::Acknowledged& HostLinkProbe::arrivedAt(int64_t farNs) const {
  return *std::ranges::find_if(acknowledgements_, [&](const Acknowledged& a) { return a.far.ns >= farNs; });
}

/// Of the pieces after one until a later one that were sent before the piece before them had come.  What lies between
/// two such is the time that the wire took, whether or not the window let the next one go then.
double HostLinkProbe::gbps(const Acknowledged& from, const Acknowledged& to) const {
  size_t bytes = 0;
  int64_t ns = 0;
  for (const Acknowledged* piece = &from + 1; piece <= &to; ++piece) {
    const Acknowledged& before = piece[-1];
    if (sentAtNs_[static_cast<size_t>(piece - acknowledgements_.data())] + leastWayNs_ >= before.far.ns) continue;
    bytes += piece->bytes - before.bytes;
    ns += (piece->far - before.far).ns;
  }
  const bool enough = ns > 0 && static_cast<double>(ns) >= kLeastPart * static_cast<double>((to.far - from.far).ns);
  return enough ? static_cast<double>(bytes) / static_cast<double>(ns) : 0;
}

/// Whether the rate changed on the way by more than a message that came a little later.
bool HostLinkProbe::uneven(const Acknowledged& from, const Acknowledged& to) const {
  const int64_t tookNs = (to.far - from.far).ns;
  const Acknowledged& middle = arrivedAt(from.far.ns + tookNs / 2);
  const double before = gbps(from, middle), after = gbps(middle, to);
  const auto piece = static_cast<double>(std::min(kLargePiece, endpoint_.slotBytes()));
  return std::abs(before - after) > kMostUneven * gbps(from, to) + piece / static_cast<double>(tookNs);
}

/// Of its last part.
double HostLinkProbe::streamGBps() const {
  if (acknowledgements_.size() < 2) return 0;
  const Acknowledged &first = acknowledgements_.front(), &last = acknowledgements_.back();
  const int64_t partNs = std::min(kStreamNs / 2, (last.far - first.far).ns / 2);
  const Acknowledged& late = arrivedAt(last.far.ns - partNs);
  const Acknowledged& from = &last - &late >= kLeastPieces ? late : arrivedAt(last.far.ns - 2 * partNs);
  const double rate = gbps(from, last);
  if (rate <= 0 || &last - &from < kLeastPieces || byCore(from, last) || uneven(from, last)) return 0;
  const bool byWindow = rate * static_cast<double>(leastNs_) > kNearWindow * static_cast<double>(from.window);
  return byWindow ? 0 : rate;
}

HostLinkFigures HostLinkProbe::figures() const {
  HostLinkFigures figures;
  const double us = static_cast<double>(leastNs_) / 2e3;
  if (us < kFarUs || !byCore(began_, tripped_)) figures.latencyUs = us;
  if (phase_ == Phase::Done) figures.bandwidthGBps = told_ > 0 ? told_ : streamGBps();
  return figures;
}

HostLinkEcho::HostLinkEcho(Endpoint& endpoint)
    : endpoint_(endpoint), piece_(std::min(kLargePiece, endpoint.slotBytes())) {}

Result<ProbeStep> HostLinkEcho::step(ProbeTime now) {
  if (!began_) began_ = now;
  if (owes_) {
    if (!begun_) answer_.busyNs = (now - *began_).busyNs;
    TUTTI_ASSIGN(const bool sent, sendValue(endpoint_, answer_));
    begun_ = !sent;
    owes_ = !sent;
    return sent ? ProbeStep::Moved : ProbeStep::Waits;
  }
  if (last_) return ProbeStep::Done;
  answer_.ns = (now - *began_).ns;
  if (!streams_) {
    TUTTI_ASSIGN(const bool came, receiveValue(endpoint_, &word_));
    streams_ = came && word_ == kStream;
    owes_ = came && !streams_;
    return came ? ProbeStep::Moved : ProbeStep::Waits;
  }
  const size_t bytes = pieceBytes(endpoint_, nPieces_);
  TUTTI_ASSIGN(const bool came, endpoint_.receive(piece_.data(), {bytes, kCall}));
  if (!came) return ProbeStep::Waits;
  ++nPieces_;
  std::memcpy(&word_, piece_.data(), std::min(sizeof word_, bytes));
  last_ = word_ == kLast;
  owes_ = true;
  return ProbeStep::Moved;
}

}  // namespace tutti

#include "src/calibrate/host_link.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/text.hpp"
#include "src/cost/kept_text.hpp"

namespace tutti {
namespace {

constexpr int kMostRoundTrips = 64;
constexpr size_t kFirstWindow = 32 << 10;
constexpr size_t kMostWindow = 512 << 10;
constexpr size_t kMostStreamBytes = 64 << 20;
/// Both ends know the size of every piece: small ones first, for slow links, then such as calls are made of.
constexpr size_t kSmallPieces = 16, kSmallPiece = 16 << 10, kLargePiece = 64 << 10;
/// Looks farther apart than this have others, or another message, on the core; with more than this part of the time
/// spent so or on messages, the rate is the core's and says nothing of the wire.
constexpr int64_t kIdleLookNs = 20'000;
constexpr double kMostBusy = 0.6;
/// A rate this near the window's is the window's.
constexpr double kNearWindow = 0.5;
/// A rate this near the nominal one is the nominal one.
constexpr double kNearNominal = 0.8;
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

Result<bool> sendWord(Endpoint& endpoint, const uint64_t& word) {
  return endpoint.send(reinterpret_cast<const std::byte*>(&word), sizeof word, kCall);
}
Result<bool> receiveWord(Endpoint& endpoint, uint64_t* word) {
  return endpoint.receive(reinterpret_cast<std::byte*>(word), {sizeof *word, kCall});
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
  constexpr double kMostUs = 1e9, kMostGBps = 1e5;
  if (text.empty()) return std::optional<HostLinkFigures>();
  HostLinkFigures figures;
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() != 2 || !parseNumber(words[0], 0.0, kMostUs, &figures.latencyUs) ||
      !parseNumber(words[1], 0.0, kMostGBps, &figures.bandwidthGBps)) {
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

HostLinkProbe::HostLinkProbe(Endpoint& endpoint)
    : endpoint_(endpoint), piece_(std::min(kLargePiece, endpoint.slotBytes())), window_(kFirstWindow) {}

Result<ProbeStep> HostLinkProbe::step(int64_t nowNs) {
  bool moved = false;
  if (beganNs_ < 0) beganNs_ = nowNs;
  switch (phase_) {
    case Phase::RoundTrips: {
      TUTTI_ASSIGN(moved, roundTrip(nowNs));
      const bool enough = roundTrips_ == kMostRoundTrips || nowNs - beganNs_ > kRoundTripsNs;
      if (!waits_ && !begun_ && enough) phase_ = Phase::Announce;
      break;
    }
    case Phase::Announce: {
      word_ = kStream;
      TUTTI_ASSIGN(moved, sendWord(endpoint_, word_));
      if (moved) phase_ = Phase::Stream;
      streamNs_ = nowNs;
      break;
    }
    case Phase::Stream: {
      noteTime(nowNs);
      TUTTI_ASSIGN(moved, acknowledge(nowNs));
      if (allSent() && nAcknowledged_ == nSent_) {
        phase_ = Phase::Done;
        return ProbeStep::Done;
      }
      moved_ = moved;
      if (allSent()) break;
      TUTTI_ASSIGN(const bool sent, sendPiece(nowNs));
      moved_ = moved = moved || sent;
      break;
    }
    case Phase::Done: return ProbeStep::Done;
  }
  return moved ? ProbeStep::Moved : ProbeStep::Waits;
}

void HostLinkProbe::noteTime(int64_t nowNs) {
  if (lookedNs_ > 0 && (moved_ || nowNs - lookedNs_ > kIdleLookNs)) busyNs_ += nowNs - lookedNs_;
  lookedNs_ = nowNs;
}

/// False: the word has not gone, or has not come back.
Result<bool> HostLinkProbe::roundTrip(int64_t nowNs) {
  if (!waits_) {
    if (!begun_) sentNs_ = nowNs;
    word_ = kEcho;
    TUTTI_ASSIGN(waits_, sendWord(endpoint_, word_));
    begun_ = !waits_;
    return waits_;
  }
  TUTTI_ASSIGN(const bool came, receiveWord(endpoint_, &word_));
  if (!came) return false;
  waits_ = false;
  const int64_t took = std::max<int64_t>(nowNs - sentNs_, 1);
  leastNs_ = roundTrips_++ == 0 ? took : std::min(leastNs_, took);
  return true;
}

Result<bool> HostLinkProbe::acknowledge(int64_t nowNs) {
  if (nAcknowledged_ == nSent_) return false;
  TUTTI_ASSIGN(const bool came, receiveWord(endpoint_, &word_));
  if (!came) return false;
  const size_t bytes = pieceBytes(endpoint_, nAcknowledged_++);
  acknowledged_ += bytes;
  window_ = std::min(window_ + bytes, kMostWindow);
  acknowledgements_.push_back({nowNs, acknowledged_, window_});
  return true;
}

/// False: the window is full, or the system's buffers are.
Result<bool> HostLinkProbe::sendPiece(int64_t nowNs) {
  const size_t bytes = pieceBytes(endpoint_, nSent_);
  if (!begun_) {
    if (sent_ > acknowledged_ && sent_ - acknowledged_ + bytes > window_) return false;
    last_ = nowNs - streamNs_ >= kStreamNs || sent_ + bytes >= kMostStreamBytes;
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

double HostLinkProbe::streamGBps() const {
  if (acknowledgements_.size() < 2) return 0;
  const Acknowledged &first = acknowledgements_.front(), &last = acknowledgements_.back();
  const int64_t middleNs = first.ns + (last.ns - first.ns) / 2;
  auto from = std::ranges::find_if(acknowledgements_, [&](const Acknowledged& a) { return a.ns >= middleNs; });
  if (from->ns >= last.ns) from = acknowledgements_.begin();  // nothing came in between
  if (from->ns >= last.ns) return 0;
  const double gbps = static_cast<double>(last.bytes - from->bytes) / static_cast<double>(last.ns - from->ns);
  const auto took = static_cast<double>(last.ns - streamNs_);
  const bool byCore = static_cast<double>(busyNs_) > kMostBusy * took;
  const bool byWindow = gbps * static_cast<double>(leastNs_) > kNearWindow * static_cast<double>(from->window);
  return byCore || byWindow ? 0 : gbps;
}

HostLinkFigures HostLinkProbe::figures() const {
  HostLinkFigures figures;
  if (roundTrips_ > 0) figures.latencyUs = static_cast<double>(leastNs_) / 2e3;
  if (phase_ == Phase::Done) figures.bandwidthGBps = streamGBps();
  return figures;
}

HostLinkEcho::HostLinkEcho(Endpoint& endpoint)
    : endpoint_(endpoint), piece_(std::min(kLargePiece, endpoint.slotBytes())) {}

Result<ProbeStep> HostLinkEcho::step() {
  if (owes_) {
    TUTTI_ASSIGN(const bool sent, sendWord(endpoint_, word_));
    owes_ = !sent;
    return sent ? ProbeStep::Moved : ProbeStep::Waits;
  }
  if (last_) return ProbeStep::Done;
  if (!streams_) {
    TUTTI_ASSIGN(const bool came, receiveWord(endpoint_, &word_));
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

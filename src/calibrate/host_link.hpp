// Bandwidth and latency of a link between two hosts, measured by a short exchange over an endpoint of its own.
//
// One end probes, the other echoes.  Round trips of a word come first, then a stream whose messages the other end
// acknowledges.  What is under way is little more than what came through while an answer was on its way, of 5 ms at
// most, so that a slow link has not much to drain.  The rate is that of the last 7 ms: by then the burst that a shaped
// link lets pass is spent.  It is the rate at which pieces came to the other end, by its clock, one right after the
// other: what answers wait for on their way says nothing of the wire, nor does a wire that had nothing to carry.
// Machines without a clock: whoever drives them says what time it is, and how much of it was no rest.
//
// A figure counts only where both ends rested for most of the time that it took: an end without a core makes a quick
// link look slow and far.  The echo therefore says in every answer how busy it has been, and the stream goes on for a
// while if it has found nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/cost/calibration.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// One way.  A value.
struct HostLinkFigures {
  double latencyUs = 0;      // 0: not measured, as where hosts seem far from each other and the core was the limit
  double bandwidthGBps = 0;  // 0: not measured, as where the window or the core was the limit
  bool operator==(const HostLinkFigures&) const = default;
};

/// "LATENCY GBPS"; "": nothing was measured.
std::string toText(const HostLinkFigures& figures);
/// None: nothing was measured.  Errors: InvalidArgument: not such a text.
Result<std::optional<HostLinkFigures>> parseHostLink(std::string_view text);

/// The figures that all links of a communicator are priced by, from those that were measured: the lowest bandwidth and
/// the least latency, as a busy host makes many times of a few microseconds.  Rounded to steps of an eighth of an
/// octave, so that figures that differ by noise alone make the same plans.
HostLinkFigures commonOf(std::span<const HostLinkFigures> links);

/// The higher bandwidth and the lower latency of a link that was measured twice.  Streams that are held up find too
/// little, and busy hosts find too long a way.
HostLinkFigures betterOf(const HostLinkFigures& a, const HostLinkFigures& b);

/// Whether some link seems much slower than most: it may be, or its stream was held up.
bool someIsOdd(std::span<const HostLinkFigures> links);

/// Puts them in the place of what the link's transport takes for granted.  The nominal bandwidth stays where the
/// measured one comes near it, or near what one endpoint carries at most: then the stream was the limit, not the wire.
/// The nominal latency stays for all that are not far from each other.
void applyHostLink(const HostLinkFigures& figures, const LinkProfile& link, Calibration* calibration);

/// Time that round trips and the stream may take; what is under way when it ends is waited for.
inline constexpr int64_t kRoundTripsNs = 6'000'000;
inline constexpr int64_t kStreamNs = 14'000'000, kMostStreamNs = 35'000'000;

/// What a machine has come to: nothing to do now, on by a message, or to its end.
enum class ProbeStep : uint8_t { Waits, Moved, Done };

/// For how long at most a driver rests that has nothing to do.
inline constexpr int kRestUs = 100;

/// A moment: the time, and how much of it up to then the driver worked, or waited for a core.
struct ProbeTime {
  int64_t ns = 0;
  int64_t busyNs = 0;
  ProbeTime operator-(const ProbeTime& other) const { return {ns - other.ns, busyNs - other.busyNs}; }
};

/// Tells work from rest by when a driver looks at the clock.  A rest that takes far too long was a wait for a core.
class BusyClock {
 public:
  /// rested: it has slept since the last look.  moved: something had moved at that one, so it has worked since.
  ProbeTime look(int64_t nowNs, bool rested, bool moved);

 private:
  ProbeTime time_{.ns = -1};
};

/// The end that measures.  One thread.
class HostLinkProbe {
 public:
  explicit HostLinkProbe(Endpoint& endpoint);
  /// Goes on by one message each way at most, but does not begin the stream before it may.  Errors: the endpoint's.
  Result<ProbeStep> step(ProbeTime now, bool mayStream = true);
  /// Of what has been measured so far.
  HostLinkFigures figures() const;

 private:
  enum class Phase : uint8_t { RoundTrips, Announce, Stream, Done };
  /// When an answer came; when the other end had what it answers, and how busy it had been until it answered.
  struct Answered {
    ProbeTime at;
    ProbeTime far;
  };
  struct Acknowledged : Answered {
    size_t bytes = 0;   // since the stream began
    size_t window = 0;  // from then on
  };
  static bool byCore(const Answered& from, const Answered& to);
  Result<bool> roundTrip(ProbeTime now);
  Result<bool> acknowledge(ProbeTime now);
  Result<bool> sendPiece(int64_t nowNs);
  bool allSent() const { return last_ && !begun_; }
  double streamGBps() const;
  bool enough(int64_t nowNs);
  const Acknowledged& arrivedAt(int64_t farNs) const;
  double gbps(const Acknowledged& from, const Acknowledged& to) const;
  bool uneven(const Acknowledged& from, const Acknowledged& to) const;

  Endpoint& endpoint_;
  Phase phase_ = Phase::RoundTrips;
  std::vector<std::byte> piece_;
  uint64_t word_ = 0;
  ProbeTime answer_;
  bool waits_ = false;
  int roundTrips_ = 0;
  bool steps_ = false;
  int64_t sentNs_ = 0, leastNs_ = 0;
  Answered began_, tripped_;        // at the first step, and of the last round trip
  int64_t leastWayNs_ = INT64_MAX;  // of a piece, from this end's clock to the other's, which are not the same
  int64_t streamNs_ = 0;
  double told_ = 0;  // GB/s, once the stream has
  size_t window_;
  size_t sent_ = 0, acknowledged_ = 0;  // bytes
  size_t nSent_ = 0, nAcknowledged_ = 0;
  bool begun_ = false;             // a piece is partly written
  bool last_ = false;              // the last piece is begun, or gone
  std::vector<int64_t> sentAtNs_;  // of each piece, when it was begun
  std::vector<Acknowledged> acknowledgements_;
};

/// The other end.  One thread.
class HostLinkEcho {
 public:
  explicit HostLinkEcho(Endpoint& endpoint);
  /// As HostLinkProbe's.
  Result<ProbeStep> step(ProbeTime now);

 private:
  Endpoint& endpoint_;
  std::vector<std::byte> piece_;
  uint64_t word_ = 0;
  ProbeTime answer_;
  std::optional<ProbeTime> began_;
  bool streams_ = false, owes_ = false, last_ = false;
  bool begun_ = false;  // an answer is partly written
  size_t nPieces_ = 0;
};

}  // namespace tutti

#include "src/calibrate/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/copy.hpp"
#include "src/calibrate/disturbance.hpp"
#include "src/calibrate/hand_over.hpp"
#include "src/calibrate/memory.hpp"

namespace tutti {
namespace {

/// What costs are fitted to.  Memory of the largest is still near both ends, as streams on near memory are: what lies
/// farther has figures of its own.
constexpr size_t kSizes[] = {8, 64, 1024, 16 * 1024, 128 * 1024, kNearBytes};
/// Where nothing larger than a kilobyte could be measured.
constexpr double kAnyGBps = 1000;

double squaredError(const LinearCost& cost, std::span<const CostSample> samples) {
  double sum = 0;
  for (const CostSample& s : samples) sum += std::pow(std::log(cost(s.bytes) / s.us), 2);
  return sum;
}

/// GB/s; the most that a figure in a file may be.
constexpr double kMostRate = 1e4;
/// Figures of a file must be in its range, whatever a clock said.
LinearCost inRange(LinearCost cost) {
  return {std::clamp(cost.latencyUs, 1e-3, 1e6), std::clamp(cost.bandwidthGBps, 1e-3, kMostRate)};
}

/// The rates of all protocols of a kind, or of none: they are compared with each other.
void measureStreams(const LinkProbes::Link& probes, int64_t end, Calibration* into) {
  ProtocolCosts costs;
  for (const Protocol protocol : kAllProtocols) {
    LinkCost& link = costs[protocol] = into->at(probes.key, protocol);
    const StreamProbe& probe = probes.protocols[static_cast<size_t>(protocol)].stream;
    if (!probe) continue;
    const bool late = nowNs() > end;
    if (late) into->complete = false;
    if (late) return;
    link.near = {probe(kNearBytes, false), probe(kNearBytes, true)};
    link.far = {probe(farBytes(false), false), probe(farBytes(true), true)};
    if (const FreshProbe& fresh = probes.protocols[static_cast<size_t>(protocol)].fresh)
      link.freshGBps = std::max(fresh(), 0.0);
    if (std::min({link.near.oneWay, link.near.bothWays, link.far.oneWay, link.far.bothWays}) < 1e-3) return;
  }
  for (const Protocol protocol : kAllProtocols) into->at(probes.key, protocol) = costs[protocol];
}

}  // namespace

LinearCost fitLinear(std::span<const CostSample> samples) {
  const auto [least, most] = std::minmax_element(
      samples.begin(), samples.end(), [](const CostSample& a, const CostSample& b) { return a.bytes < b.bytes; });
  LinearCost best = {least->us, std::max(most->bytes, 1.0) / (most->us * 1e3)};
  if (most->bytes <= least->bytes) {
    if (most->bytes < 1024) return inRange({least->us, kAnyGBps});
    return inRange({least->us * 1e-3, best.bandwidthGBps});
  }
  // Two parameters, a smooth valley, start at its ends: halving steps in their logarithms find the bottom.
  double error = squaredError(best, samples);
  for (double step = 2; step > 1.0005; step = 1 + (step - 1) * 0.7) {
    for (bool better = true; better;) {
      better = false;
      for (const auto& [latency, bandwidth] : {std::pair{step, 1.0}, {1 / step, 1.0}, {1.0, step}, {1.0, 1 / step}}) {
        const LinearCost next = {best.latencyUs * latency, best.bandwidthGBps * bandwidth};
        if (const double e = squaredError(next, samples); e < error * (1 - 1e-9)) {
          best = next;
          error = e;
          better = true;
        }
      }
    }
  }
  return inRange(best);
}

namespace {

/// Times by message size; fewer than there are sizes where `end` has passed.
std::vector<CostSample> samplesOf(const LinkProbe& probe, std::span<const size_t> sizes, uint64_t mostBytes,
                                  int64_t end, bool* complete) {
  std::vector<CostSample> samples;
  for (const size_t bytes : sizes) {
    if (bytes > mostBytes && !samples.empty()) break;
    if (nowNs() > end) *complete = false;
    if (!*complete) break;
    const double us = probe(bytes);
    if (us > 0) samples.push_back({static_cast<double>(bytes), us});
  }
  return samples;
}

/// As far as all sizes could be measured.
std::array<double, kMessageSizes.size()> aloneUsOf(std::span<const CostSample> samples) {
  std::array<double, kMessageSizes.size()> us = {};
  for (size_t i = 0; i < samples.size() && samples[i].bytes == static_cast<double>(kMessageSizes[i]); ++i) {
    us[i] = std::clamp(samples[i].us, 1e-3, 1e6);
  }
  return us;
}

/// Measures all protocols of a kind with one thread, which has both ends of every message.
void measureHere(const LinkProbes::Link& kind, int64_t end, Calibration* into) {
  for (const Protocol protocol : kAllProtocols) {
    const LinkProbes::Entry& entry = kind.protocols[static_cast<size_t>(protocol)];
    LinkCost& link = into->at(kind.key, protocol);
    if (!entry.here || !link.available) continue;
    const std::vector<CostSample> samples = samplesOf(entry.here, kSizes, entry.mostBytes, end, &into->complete);
    if (!samples.empty()) link = inProportion(link, fitLinear(samples));
  }
}

/// Measures single messages between two cores.
void measureMessages(const LinkProbes::Link& kind, int64_t end, Calibration* into) {
  for (const Protocol protocol : kAllProtocols) {
    const LinkProbes::Entry& entry = kind.protocols[static_cast<size_t>(protocol)];
    if (!entry.probe) continue;
    const std::vector<CostSample> samples = samplesOf(entry.probe, kSizes, entry.mostBytes, end, &into->complete);
    if (samples.empty()) continue;
    LinkCost& link = into->at(kind.key, protocol);
    link.available = true;
    link.cost = fitLinear(samples);
    link.mostBytes = std::max<uint64_t>(entry.mostBytes, 1);
    if (!entry.alone) continue;
    link.aloneUs = aloneUsOf(samplesOf(entry.alone, kMessageSizes, entry.mostBytes, end, &into->complete));
  }
}

}  // namespace

LinkCost inProportion(LinkCost link, const LinearCost& here) {
  const bool keepsHere = link.here.bandwidthGBps > 0;
  const LinearCost base = keepsHere ? link.here : link.cost;
  const double slower = here.latencyUs / base.latencyUs, faster = here.bandwidthGBps / base.bandwidthGBps;
  link.cost = inRange({link.cost.latencyUs * slower, link.cost.bandwidthGBps * faster});
  for (double* gbps : {&link.near.oneWay, &link.near.bothWays, &link.far.oneWay, &link.far.bothWays, &link.freshGBps})
    *gbps = std::min(*gbps * faster, kMostRate);
  if (keepsHere) link.here = here;
  return link;
}

LinkProbes::Entry& LinkProbes::at(const LinkProfile& link, Protocol protocol) {
  if (!has(link)) links.push_back({link.key, {}});
  return std::ranges::find(links, link.key, &Link::key)->protocols[static_cast<size_t>(protocol)];
}

namespace {

/// Copies the figures of inline messages and slots from the kind that uses the same memory for them.
void shareChannels(const LinkProbes::Link& kind, Calibration* into) {
  if (kind.sharesChannels.empty()) return;
  for (const Protocol protocol : {Protocol::Inline, Protocol::Slots})
    into->at(kind.key, protocol) = into->at(kind.sharesChannels, protocol);
}

}  // namespace

namespace {

/// Whether `usOf`, the time of something that copies, is clearly less if all copies go by the loop.  Both in turns, and
/// not when there is no time for that.
template <class F>
bool loopPays(int turns, int64_t end, F usOf) {
  constexpr double kClearly = 0.95;
  std::array<double, 2> best = {HUGE_VAL, HUGE_VAL};  // by memcpy, by the loop
  for (int turn = 0; turn < turns; ++turn) {
    for (const bool loop : {false, true}) {
      if (nowNs() > end) return false;
      setCopyLoops({loop, loop, loop});
      const double us = usOf();
      if (us <= 0) return false;
      best[loop] = std::min(best[loop], us);
    }
  }
  return best[1] < kClearly * best[0];
}

/// How two cores are best served, which one core alone does not show: what a copy meets is what the other core has
/// left, and a copy that leaves its output out of the caches looks as good as one that does not.
CopyLoops copyLoopsThatPay(const LinkProbes& probes, int64_t end) {
  CopyLoops loops{};
  const auto slots = std::ranges::find_if(probes.links, [](const LinkProbes::Link& link) {
    return link.protocols[static_cast<size_t>(Protocol::Slots)].stream != nullptr;
  });
  if (slots == probes.links.end()) return loops;
  const LinkProbes::Entry& entry = slots->protocols[static_cast<size_t>(Protocol::Slots)];
  const auto usOf = [&](size_t bytes) { return static_cast<double>(bytes) / 1e3 / entry.stream(bytes, true); };
  loops[0] = loopPays(3, end, [&] { return entry.probe(kCopyFootprints[0] / 2); });
  loops[1] = loopPays(2, end, [&] { return usOf(kCopyFootprints[1] / 2); });
  loops[2] = loopPays(1, end, [&] { return usOf(kCopyFootprints[2]); });
  return loops;
}

/// The kind whose streams are measured first; null: none has streams.
const LinkProbes::Link* firstWithStreams(const LinkProbes& probes) {
  const auto hasStreams = [](const LinkProbes::Link& link) {
    return std::ranges::any_of(link.protocols, [](const LinkProbes::Entry& entry) { return entry.stream != nullptr; });
  };
  const auto found = std::ranges::find_if(probes.links, hasStreams);
  return found == probes.links.end() ? nullptr : &*found;
}

/// `c` and what two cores show.  Nothing: other programs came and had more than `tooBusy` of the processors.
std::optional<Calibration> withTwoCores(Calibration c, const LinkProbes& probes, int budgetMs, int64_t lastEnd,
                                        double tooBusy) {
  const Disturbance disturbance;
  c.copyLoops = copyLoopsThatPay(probes, lastEnd);
  setCopyLoops(c.copyLoops);  // what follows is measured with copies as they will be
  const int64_t end = std::min(nowNs() + budgetMs * kMs, lastEnd);
  for (const LinkProbes::Link& kind : probes.links) measureMessages(kind, end, &c);
  if (const LinkProbes::Link* kind = firstWithStreams(probes)) measureStreams(*kind, lastEnd, &c);
  c.complete = c.complete && nowNs() < lastEnd;
  if (disturbance.share() <= tooBusy) return c;
  setCopyLoops({});
  return {};
}

}  // namespace

Calibration measureLater(Calibration first, const LinkProbes& probes, int budgetMs, double tooBusy) {
  const Disturbance disturbance;
  const int64_t end = nowNs() + 4 * budgetMs * kMs;
  ++first.times;
  Calibration c = first;
  setCopyLoops(c.copyLoops);  // streams are measured with copies as they will be
  for (const LinkProbes::Link& kind : probes.links)
    if (&kind != firstWithStreams(probes)) measureStreams(kind, end, &c);
  if (nowNs() < end) c.streamFromBytes = streamingPays(end);
  Calibration again;
  measureMemory(&again);
  takeBetterMemory(again, &c);
  for (const LinkProbes::Link& kind : probes.links) shareChannels(kind, &c);
  c.whole = c.complete && nowNs() < end && disturbance.share() <= tooBusy;
  return c.whole ? c : first;
}

Calibration measureCalibration(const MachineIdentity& machine, const LinkKinds& kinds, const LinkProbes& probes,
                               int budgetMs, double tooBusy) {
  const Disturbance disturbance;
  Calibration c = defaultCalibration(machine, kinds);
  const int64_t lastEnd = nowNs() + 4 * budgetMs * kMs;
  setCopyLoops({});
  for (const LinkProbes::Link& kind : probes.links) measureHere(kind, nowNs() + budgetMs * kMs, &c);
  c.handOverUs = measureHandOver();
  measureMemory(&c);
  std::optional<Calibration> more;
  if (disturbance.share() <= tooBusy) more = withTwoCores(c, probes, budgetMs, lastEnd, tooBusy);
  if (more) c = std::move(*more);
  if (!more) c.complete = false;
  if (probes.lacksThreads != nullptr && *probes.lacksThreads) c.complete = false;
  c.whole = !c.complete;  // what is cut is measured anew, not added to
  c.times = 1;
  c.disturbed = disturbance.share();
  for (const LinkProbes::Link& kind : probes.links) shareChannels(kind, &c);
  return c;
}

}  // namespace tutti

#include "src/calibrate/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/copy.hpp"
#include "src/base/private_pages.hpp"
#include "src/calibrate/disturbance.hpp"
#include "src/exec/reduce/reduce.hpp"

namespace tutti {
namespace {

/// What costs are fitted to.  Memory of the largest is still near both ends, as streams on near memory are: what lies
/// farther has figures of its own.
constexpr size_t kSizes[] = {8, 64, 1024, 16 * 1024, 128 * 1024, kNearBytes};
/// Where nothing larger than a kilobyte could be measured.
constexpr double kAnyGBps = 1000;

/// Best time of `call` in microseconds, over a few tries.
template <class F>
double bestUs(int tries, F call) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < tries; ++i) {
    const int64_t start = nowNs();
    call();
    best = std::min(best, static_cast<double>(nowNs() - start) / 1e3);
  }
  return std::max(best, 1e-3);
}

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
void measureStreams(const LinkProbes::Link& probes, int64_t end, int64_t lastEnd, Calibration* into) {
  if (nowNs() > end) into->complete = false;
  if (nowNs() > end) return;
  ProtocolCosts costs;
  for (const Protocol protocol : kAllProtocols) {
    LinkCost& link = costs[protocol] = into->at(probes.key, protocol);
    const StreamProbe& probe = probes.protocols[static_cast<size_t>(protocol)].stream;
    if (!probe) continue;
    if (nowNs() > lastEnd) into->complete = false;
    if (nowNs() > lastEnd) return;
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

/// What one more operand costs: sums instead of copies of what comes in messages, and so is near in any case.
double operandUs(int tries, std::span<std::byte> to, const std::byte* operand, const std::byte* message) {
  constexpr size_t kMessage = 128 * 1024;
  const Reduction sum = {.dtype = tuttiFloat32, .op = tuttiSum};
  const auto perMessage = [&](auto work) {
    return bestUs(tries, [&] {
      for (size_t at = 0; at < to.size(); at += kMessage) work(at);
    });
  };
  const double copyUs = perMessage([&](size_t at) { std::memcpy(to.data() + at, message, kMessage); });
  const double sumUs =
      perMessage([&](size_t at) { reducePair(sum, to.data() + at, operand + at, message, kMessage / 4); });
  return std::max(sumUs - copyUs, sumUs / 8);  // not nothing, whatever a clock said
}

// Past the cache from the smallest size at which that is clearly faster, and stays so for the larger ones.
uint64_t streamingPays(int64_t endNs) {
  constexpr size_t kMost = size_t{64} << 20;  // with its source, more than a guest may have of a shared cache
  const Result<PrivatePages> source = PrivatePages::take(kMost, "copies"), target = PrivatePages::take(kMost, "copies");
  if (!source.ok() || !target.ok()) return UINT64_MAX;
  const std::span from(source->data(), kMost), to(target->data(), kMost);
  // A page fault for each small page would take longer than the copies.
  for (const PrivatePages* pages : {&*source, &*target}) pages->useLargePages();
  std::memset(from.data(), 1, kMost);
  uint64_t least = UINT64_MAX;
  for (size_t bytes = kMost; bytes >= size_t{1} << 20; bytes /= 2) {
    const double streamUs = bestUs(2, [&] { copyPastCache(to.data(), from.data(), bytes); });
    const double plainUs = bestUs(2, [&] { std::memcpy(to.data(), from.data(), bytes); });
    if (streamUs > 0.8 * plainUs || nowNs() > endNs) break;
    least = 2 * bytes;  // input and output together
  }
  return least;
}

/// Two cores share the work of a call on so much memory: each copies its half of it.
double copyGBpsOn(size_t footprint, const std::byte* from, std::byte* to) {
  const size_t bytes = footprint / 4;
  const int tries = footprint > (8 << 20) ? 5 : 9;
  return static_cast<double>(bytes) / bestUs(tries, [&] { std::memcpy(to, from, bytes); }) / 1e3;
}

/// Memory of `bytes` each, at least a quarter of kFarFootprint.
void measureCopies(const std::byte* from, std::byte* to, size_t bytes, Calibration* into) {
  static_assert(kFarFootprint / 4 <= 8 << 20);
  into->copyGBps = copyGBpsOn(kNearFootprint, from, to);
  into->copyFarGBps = copyGBpsOn(std::min(kFarFootprint, 4 * bytes), from, to);
  const double slowing = std::log(into->copyFarGBps / into->copyGBps);
  double least = 0;
  for (size_t i = 0; i < kCacheFootprints.size(); ++i) {
    const double here = std::log(copyGBpsOn(kCacheFootprints[i], from, to) / into->copyGBps);
    // Where caches make no difference, nothing is far before all is.
    if (slowing < -0.05) least = std::clamp(here / slowing, least, 1.0);
    into->caches[i] = least;
  }
}

}  // namespace

void measureMemory(Calibration* into) {
  constexpr size_t kBytes = size_t{8} << 20;
  std::vector<std::byte> a(kBytes, std::byte{1});
  std::vector<std::byte> b(kBytes, std::byte{2});
  std::vector<std::byte> c(kBytes, std::byte{0});
  const auto gbps = [](size_t bytes, double us) { return static_cast<double>(bytes) / us / 1e3; };

  constexpr size_t kPiece = 512 * 1024;
  into->reduceGBps = gbps(kPiece, operandUs(9, std::span(c).first(kPiece), a.data(), b.data()));
  into->reduceFarGBps = gbps(kBytes, operandUs(3, c, a.data(), b.data()));
  measureCopies(a.data(), c.data(), kBytes, into);
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

/// `c` and what two cores show.  Nothing: other programs came and had more than `tooBusy` of the processors.
std::optional<Calibration> withTwoCores(Calibration c, const LinkProbes& probes, int budgetMs, int64_t lastEnd,
                                        double tooBusy) {
  const Disturbance disturbance;
  const int64_t end = std::min(nowNs() + budgetMs * kMs, lastEnd);
  for (const LinkProbes::Link& kind : probes.links) measureMessages(kind, end, &c);
  const int64_t streamEnd = std::min(nowNs() + budgetMs * kMs, lastEnd);
  for (const LinkProbes::Link& kind : probes.links) measureStreams(kind, streamEnd, lastEnd, &c);
  if (nowNs() < lastEnd) c.streamFromBytes = streamingPays(lastEnd);
  c.complete = c.complete && nowNs() < lastEnd;
  if (disturbance.share() > tooBusy) return {};
  return c;
}

/// A while later: the first time may have met a slow moment, or a core that was busy elsewhere.
void measureMemoryAgain(Calibration* c) {
  Calibration again;
  measureMemory(&again);
  takeBetterMemory(again, c);
}

}  // namespace

Calibration measureCalibration(const MachineIdentity& machine, const LinkKinds& kinds, const LinkProbes& probes,
                               int budgetMs, double tooBusy) {
  const Disturbance disturbance;
  Calibration c = defaultCalibration(machine, kinds);
  const int64_t lastEnd = nowNs() + 3 * budgetMs * kMs;
  for (const LinkProbes::Link& kind : probes.links) measureHere(kind, nowNs() + budgetMs * kMs, &c);
  measureMemory(&c);
  std::optional<Calibration> more;
  if (disturbance.share() <= tooBusy) more = withTwoCores(c, probes, budgetMs, lastEnd, tooBusy);
  if (more) c = std::move(*more);
  if (!more) c.complete = false;
  if (probes.lacksThreads != nullptr && *probes.lacksThreads) c.complete = false;
  if (nowNs() < lastEnd) measureMemoryAgain(&c);
  for (const LinkProbes::Link& kind : probes.links) shareChannels(kind, &c);
  c.times = 1;
  c.disturbed = disturbance.share();
  return c;
}

}  // namespace tutti

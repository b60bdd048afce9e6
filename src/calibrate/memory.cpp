#include "src/calibrate/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/copy.hpp"
#include "src/base/private_pages.hpp"
#include "src/exec/reduce/reduce.hpp"

namespace tutti {
namespace {

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

/// Through the caches, as whoever uses an output does.
void readAll(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at + sizeof sum <= bytes.size(); at += sizeof sum) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += word;
  }
  asm volatile("" : : "r"(sum));  // or the compiler leaves it out
}

/// Time of one more operand, in microseconds: that of a sum with a message less that of a copy of it.  Messages are
/// near memory in any case.
double operandUs(int tries, std::span<std::byte> to, const std::byte* operand, const std::byte* message) {
  constexpr size_t kMessage = 128 * 1024;
  const Reduction sum = {.dtype = tuttiFloat32, .op = tuttiSum};
  const auto perMessage = [&](auto work) {
    return bestUs(tries, [&] {
      for (size_t at = 0; at < to.size(); at += kMessage) work(at);
    });
  };
  const double copyUs = perMessage([&](size_t at) { copyCached(to.data() + at, message, kMessage, 2 * kMessage); });
  const double sumUs =
      perMessage([&](size_t at) { reducePair(sum, to.data() + at, operand + at, message, kMessage / 4); });
  return std::max(sumUs - copyUs, sumUs / 8);  // not nothing, whatever a clock said
}

/// Two cores share the work of a call on so much memory: each copies its half of it.
double copyGBpsOn(size_t footprint, const std::byte* from, std::byte* to) {
  const size_t bytes = footprint / 4;
  const int tries = footprint > (8 << 20) ? 3 : 9;
  return static_cast<double>(bytes) / bestUs(tries, [&] { copyCached(to, from, bytes, footprint); }) / 1e3;
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
    // Memory that slows nothing down counts as near up to the largest footprint.
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
  into->reduceFarGBps = gbps(kBytes, operandUs(2, c, a.data(), b.data()));
  measureCopies(a.data(), c.data(), kBytes, into);
}

uint64_t streamingPays(int64_t endNs) {
  constexpr size_t kMost = kMostStreamedFootprint / 2;
  const Result<PrivatePages> source = PrivatePages::take(kMost, "copies"), target = PrivatePages::take(kMost, "copies");
  if (!source.ok() || !target.ok()) return UINT64_MAX;
  const std::span from(source->data(), kMost), to(target->data(), kMost);
  // A page fault for each small page would take longer than the copies.
  for (const PrivatePages* pages : {&*source, &*target}) pages->useLargePages();
  std::memset(from.data(), 1, kMost);
  std::vector<double> ratios;
  for (size_t bytes = kMost; bytes >= size_t{1} << 20; bytes /= 2) {
    const auto usWith = [&](auto copy) { return bestUs(3, [&] { copy(), readAll(to.first(bytes)); }); };
    const double streamUs = usWith([&] { copyPastCache(to.data(), from.data(), bytes); });
    const double plainUs = usWith([&] { copyCached(to.data(), from.data(), bytes, 2 * bytes); });
    ratios.push_back(streamUs / plainUs);
    constexpr double kLostByFar = 1.3;
    if (ratios.back() > kLostByFar || nowNs() > endNs) break;
  }
  return streamedFrom(ratios);
}

uint64_t streamedFrom(std::span<const double> ratios) {
  constexpr double kNoise = 0.05;  // of all sizes together
  uint64_t least = UINT64_MAX, footprint = kMostStreamedFootprint;
  double most = kNoise, won = 0;
  for (const double ratio : ratios) {
    won -= std::log(ratio);
    if (won > most) {
      most = won;
      least = footprint;
    }
    footprint /= 2;
  }
  return least;
}

}  // namespace tutti

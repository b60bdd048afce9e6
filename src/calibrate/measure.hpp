// Measuring what a Calibration holds.
//
// Memory is measured here; links by callbacks, since only the communicator has endpoints to measure with.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <span>
#include <string_view>

#include "src/cost/calibration.hpp"

namespace tutti {

struct CostSample {
  double bytes = 0;
  double us = 0;
};

/// The LinearCost that fits best, every sample's error counted in proportion to itself (least squares of logarithms):
/// else the largest message would decide alone and the latency be anything.  At least one sample; all us > 0.  With
/// samples of one size only, the time is taken as latency below 1 KiB and as bandwidth above.
LinearCost fitLinear(std::span<const CostSample> samples);

/// One way in microseconds for a message of `bytes`, for the link and protocol it stands for.  Negative: could not be
/// measured.  Should take the best of a few tries and a few milliseconds in all.
using LinkProbe = std::function<double(size_t bytes)>;

/// GB/s each way while `bytes` in messages of a slot pass one way or both ways at once, the best of a few tries.
/// Negative: could not be measured.
using StreamProbe = std::function<double(size_t bytes, bool bothWays)>;

/// LinkCost::freshGBps.  Negative: could not be measured.
using FreshProbe = std::function<double()>;

struct LinkProbes {
  struct Entry {
    LinkProbe probe;     // empty: not there; the built-in figure stays
    LinkProbe alone;     // LinkCost::aloneUs; empty: as the cost says
    LinkProbe here;      // what both ends take of one core; empty: unknown
    StreamProbe stream;  // empty: long transfers go by the figures of single messages
    FreshProbe fresh;    // empty: what was just written is read as quickly as anything
    uint64_t mostBytes = 0;
  };
  struct Link {
    std::string_view key;             // LinkProfile::key
    std::string_view sharesChannels;  // key of an earlier kind whose inline and slots are the same memory; "": none
    std::array<Entry, kNumProtocols> protocols;
  };
  std::deque<Link> links;  // in the order in which they are measured
  bool has(const LinkProfile& link) const { return std::ranges::find(links, link.key, &Link::key) != links.end(); }
  /// Adds the kind if it is not there.
  Entry& at(const LinkProfile& link, Protocol protocol);
};

/// Part of the time of this process's processors that others have where messages between two cores are not measured.
inline constexpr double kTooBusy = 0.5;

/// The built-in figures of `kinds`, with what could be measured put in their place.
///
/// What one core takes comes first, as the least time of short pieces says it on a busy machine too: memory, and both
/// ends of a message.  The built-in figures of links are put into proportion to it.  Messages between two cores follow,
/// and the size from which stores pass the cache, by copies of up to 64 MiB (which this does not set for the process),
/// unless other programs have more than `tooBusy` of the processors: such figures would be of those programs.  Probing
/// stops after `budgetMs` for single messages (a probe that has begun is waited for), and no kind of link begins with
/// its streams after as much again; all ends after three times as much, and the last probe.  What was not reached keeps
/// its figure in proportion, and the calibration is not complete.
Calibration measureCalibration(const MachineIdentity& machine, const LinkKinds& kinds, const LinkProbes& probes,
                               int budgetMs = 200, double tooBusy = kTooBusy);
/// A link's built-in figures in proportion to what one core takes of its messages, `here`, instead of what the figures
/// themselves say of that (LinkCost::here, or where there is none, LinkCost::cost).
LinkCost inProportion(LinkCost builtIn, const LinearCost& here);

/// Bandwidths of copy and float sum on one core near and far, and how far memory of sizes between is.
void measureMemory(Calibration* into);

}  // namespace tutti

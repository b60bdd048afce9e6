// Measuring what a Calibration holds.
//
// Memory is measured by memory.hpp; links by callbacks, since only the communicator has endpoints to measure with.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
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
  std::deque<Link> links;                           // in the order in which they are measured
  std::shared_ptr<std::atomic<bool>> lacksThreads;  // set by a probe that got none; may be null
  bool has(const LinkProfile& link) const { return std::ranges::find(links, link.key, &Link::key) != links.end(); }
  /// Adds the kind if it is not there.
  Entry& at(const LinkProfile& link, Protocol protocol);
};

/// Measures what the first start on a machine needs, and keeps the built-in figures of `kinds` for the rest.
///
/// 1. One core alone: memory, and messages whose two ends one thread has. The least time of short pieces counts, which
///    a busy machine does not change. All built-in figures of links are scaled by it (inProportion).
/// 2. Two cores: how copies are made (setCopyLoops), which the process goes by from then on; messages; streams of the
///    first kind of link that has them.  This part is left out if other programs had more than `tooBusy` of the
///    processors before it, and thrown away if they had meanwhile.
///
/// Single messages may take `budgetMs` in all. Everything ends after four times as much; a probe that has begun is
/// waited for. A calibration that lacks something is not complete. One that is complete is not whole.
Calibration measureCalibration(const MachineIdentity& machine, const LinkKinds& kinds, const LinkProbes& probes,
                               int budgetMs = 200, double tooBusy = kTooBusy);
/// Measures what a later start adds to `first`, which is complete: streams of the other kinds, the size from which
/// stores pass the cache (copies of up to 64 MiB; the process's threshold stays), and memory once more, as the first
/// time may have met a slow moment. If time runs out, or other programs have more than `tooBusy` of the processors,
/// `first` is given back, counted once more.
Calibration measureLater(Calibration first, const LinkProbes& probes, int budgetMs = 200, double tooBusy = kTooBusy);
/// Scales a link's built-in figures to this machine.  here: what one core takes of a message's two ends, as measured.
/// The scale is `here` beside the built-in LinkCost::here, or beside LinkCost::cost if that is not known.
LinkCost inProportion(LinkCost builtIn, const LinearCost& here);

}  // namespace tutti

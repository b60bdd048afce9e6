// Transfers that share links: every link divides its bandwidth max-min fairly among the transfers on it, so no transfer
// can get more without taking from one that has no more than it (Bertsekas & Gallager, "Data Networks", section 6.5.2).
//
// Only what a change can touch is computed again: a link whose transfers together could not fill it bounds nobody and
// joins nothing, and transfers that no full link joins do not see each other.  Where very many transfers are joined in
// this way, only those on links where one came or went are computed again, beside others that keep what they have: what
// these leave elsewhere is taken up when something changes there.
//
// Times are picoseconds in whole numbers, so that what happens at the same time is seen to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::sim {

using Picoseconds = int64_t;
inline constexpr Picoseconds kMostTime = 2'000'000'000'000'000'000;  // 23 days: what takes longer is an error
inline Picoseconds fromUs(double us) { return static_cast<Picoseconds>(std::min(us * 1e6, 2.0 * kMostTime) + 0.5); }
inline double toUs(Picoseconds t) { return static_cast<double>(t) * 1e-6; }

/// One thread.
class Flows {
 public:
  /// While no more transfers than this are under way, all that a change can touch is computed again.
  static constexpr int32_t kMostExact = 1024;

  /// [link] GB/s, all above 0.
  explicit Flows(std::vector<double> capacityGBps, int32_t mostExact = kMostExact);

  /// When a transfer ends as things stand.  One that is told again replaces what was told before: only an ending with
  /// the present version counts.
  struct Ending {
    int32_t flow = 0;
    uint32_t version = 0;
    Picoseconds at = 0;
  };

  /// Begin a transfer of `bytes` > 0; `links` must live until it has finished.  Its id; ids are used again.
  int32_t start(std::span<const int32_t> links, double bytes, double mostGBps, Picoseconds now);
  /// Take away a transfer whose ending has come.
  void finish(int32_t flow);
  bool current(const Ending& e) const {
    const Flow& f = flows_[static_cast<size_t>(e.flow)];
    return f.active && f.version == e.version;
  }
  /// Divide bandwidth anew after starts and finishes at `now`.  The endings that are new; valid until the next call.
  std::span<const Ending> settle(Picoseconds now);
  bool settled() const { return newFlows_.empty() && dirtyLinks_.empty(); }

  double rateGBps(int32_t flow) const { return flows_[static_cast<size_t>(flow)].rate; }
  int32_t active() const { return active_; }

 private:
  struct Flow {
    std::span<const int32_t> links;
    std::vector<int32_t> positions;  // in the lists of the links
    double remaining = 0;            // bytes at time `since`
    double most = 0;
    double rate = 0;
    double next = 0;
    Picoseconds since = 0;
    uint32_t version = 0;
    uint32_t visit = 0;
    bool active = false;
    bool fixed = false;
  };
  struct Link {
    double capacity = 0;
    double demand = 0;  // what its transfers could take together
    double left = 0;
    int32_t unfixed = 0;
    uint32_t visit = 0;
    bool dirty = false;
    std::vector<int32_t> flows;
  };

  bool full(const Link& link) const { return link.demand > link.capacity * (1 + 1e-6); }
  void touch(int32_t link);
  void collect();
  void include(int32_t link, bool whole);
  void visitFlow(int32_t flow);
  void fill();
  void fix(int32_t flow, double rate);
  void apply(int32_t flow, Picoseconds now);

  int32_t mostExact_;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<int32_t> freeFlows_;
  std::vector<int32_t> newFlows_;
  std::vector<int32_t> dirtyLinks_;
  std::vector<int32_t> component_;       // flows to compute again
  std::vector<int32_t> componentLinks_;  // full links among theirs
  std::vector<std::pair<double, int32_t>> shares_;
  std::vector<Ending> endings_;
  uint32_t visit_ = 0;
  int32_t active_ = 0;
};

}  // namespace tutti::sim

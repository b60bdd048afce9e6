#include "src/plan/walk_cost.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

namespace tutti {
namespace {

/// A lane's clock, and where it is.  Lanes of a rank wait side by side; what they do themselves adds up in `work`.
struct LaneClock {
  size_t op = 0;
  int pass = 0;
  double us = 0;
};

class Walk {
 public:
  Walk(const std::vector<Schedule>& schedules, const Shape& shape, const CostModel& cost, double bytes)
      : schedules_(schedules), shape_(shape), cost_(cost), bytes_(bytes), workUs_(schedules.size()) {
    for (const Schedule& s : schedules) clocks_.emplace_back(s.lanes.size());
  }

  double run(int passes) {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < schedules_.size(); ++rank) {
        for (size_t l = 0; l < clocks_[rank].size(); ++l) moved = advance(rank, l, passes) || moved;
      }
    }
    double last = 0, work = 0;
    for (size_t rank = 0; rank < schedules_.size(); ++rank) {
      for (const LaneClock& clock : clocks_[rank]) last = std::max(last, clock.us);
      last = std::max(last, workUs_[rank]);
      work += workUs_[rank] / static_cast<double>(schedules_.size());
    }
    return std::max(last, cost_.ranksPerCore * work);
  }

 private:
  using Fifo = std::tuple<int32_t, int32_t, size_t>;  // from, to, lane

  /// As far as the lane comes now; whether that is any further.
  bool advance(size_t rank, size_t l, int passes) {
    const std::vector<Op>& ops = schedules_[rank].lanes[l].ops;
    LaneClock& clock = clocks_[rank][l];
    bool moved = false;
    while (!ops.empty() && clock.pass < passes && ready(rank, l, ops[clock.op])) {
      execute(rank, l, ops[clock.op], &clock);
      moved = true;
      if (++clock.op < ops.size()) continue;
      clock.op = 0;
      ++clock.pass;
    }
    return moved;
  }

  bool ready(size_t rank, size_t l, const Op& op) {
    return std::all_of(op.from.begin(), op.from.end(), [&](int32_t from) {
      return !arrivals_[{from, static_cast<int32_t>(rank), l}].empty();
    });
  }

  const LinearCost& link(int32_t a, int32_t b) const {
    const bool together =
        shape_.nodeOf.empty() || shape_.nodeOf[static_cast<size_t>(a)] == shape_.nodeOf[static_cast<size_t>(b)];
    return together ? cost_.intra : cost_.inter;
  }

  void execute(size_t rank, size_t l, const Op& op, LaneClock* clock) {
    const auto self = static_cast<int32_t>(rank);
    const auto busy = [&](double us) {
      clock->us += us;
      workUs_[rank] += us;
    };
    for (const int32_t from : op.from) {
      std::deque<double>& fifo = arrivals_[{from, self, l}];
      if (fifo.front() > clock->us) clock->us = fifo.front() + link(from, self).waitUs;
      fifo.pop_front();
    }
    const size_t operands = op.sources.size() + op.from.size();
    if (operands > 1) busy(static_cast<double>(operands - 1) * cost_.reduceUs(bytes_));
    // From Input to Output only calls out of place copy, which no algorithm's formula counts.
    const bool within = operands == 1 && op.from.empty() && op.to.empty();
    const bool home = within && op.sources[0].buffer == Buffer::Input && op.dst.buffer == Buffer::Output;
    if (within && !home) busy(cost_.copyUs(bytes_));
    for (const int32_t to : op.to) {
      const LinearCost& way = link(self, to);
      const double moving = op.token ? 0 : bytes_ / (way.bandwidthGBps * 1e3);
      arrivals_[{self, to, l}].push_back(clock->us + way.latencyUs + moving);
      busy(way.latencyUs * way.workShare + moving);
    }
  }

  const std::vector<Schedule>& schedules_;
  const Shape& shape_;
  const CostModel& cost_;
  double bytes_;
  std::vector<double> workUs_;
  std::vector<std::vector<LaneClock>> clocks_;
  std::map<Fifo, std::deque<double>> arrivals_;
};

}  // namespace

double walkUs(const std::vector<Schedule>& schedules, const Shape& shape, const CostModel& cost) {
  const Schedule& any = schedules.front();
  const bool vector = shape.collective == Collective::AllReduce || shape.collective == Collective::Broadcast ||
                      shape.collective == Collective::Reduce;
  const double chunk = static_cast<double>(shape.bytes) / (vector ? any.nChunks : 1) / any.nChannels;
  const double slices = std::max(1.0, std::ceil(chunk / static_cast<double>(std::max<size_t>(1, shape.slotBytes))));
  const double first = Walk(schedules, shape, cost, chunk / slices).run(1);
  if (slices < 2) return first;
  return first + (slices - 1) * (Walk(schedules, shape, cost, chunk / slices).run(2) - first);
}

}  // namespace tutti

// Recursive halving and doubling allreduce: reduce-scatter by halves, allgather by doubles.
//   steps 2 log2(n); bytes sent per rank 2(n-1)/n * S for n a power of two, in 2(n-1) chunks.
//   For other n let core be the largest power of two below.  Each of the n - core ranks beyond it shares with a
//   partner: they reduce half of the vector each, the partner gets the other half back and works in the core, and
//   hands over the result at the end: 3 steps more, S/2 + S more bytes.
//   Limits: none.
//   Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"

namespace tutti::allreduce_halving_doubling {
namespace {

Schedule build(const Shape& shape) {
  const int core = floorPowerOfTwo(shape.nRanks);
  const bool extra = shape.rank >= core;
  const int partner = extra ? shape.rank - core : shape.rank + core;
  const bool paired = partner < shape.nRanks;
  const std::vector<int> lower = range(0, core / 2);
  const std::vector<int> upper = range(core / 2, core);
  const std::vector<int> all = range(0, core), none;

  ScheduleBuilder b(shape, core);
  Blocks blocks = Blocks::ofAllReduce(b, core);
  if (paired) {
    b.phase("fold");
    exchange(blocks, partner, extra ? lower : upper, partner, extra ? upper : lower, Arrival::Reduce);
    exchange(blocks, partner, extra ? upper : none, partner, extra ? none : upper, Arrival::Store);
  }
  if (!extra) {
    Group group = everyone(shape);
    group.ranks.resize(core);
    b.phase("reduce-scatter");
    halvingReduceScatter(blocks, group, partPerPosition(core));
    b.phase("allgather");
    doublingAllGather(blocks, group, partPerPosition(core));
  }
  if (paired) {
    b.phase("unfold");
    exchange(blocks, partner, extra ? none : all, partner, extra ? all : none, Arrival::Store);
  }
  blocks.settleAll();
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double core = floorPowerOfTwo(s.nRanks);
  const double bytes = double(s.bytes);
  const double half = (core - 1) / core * bytes;
  double us = 2 * serialUs(cost.link, core - 1, half) + cost.reduceUs(half);
  if (core < s.nRanks) us += serialUs(cost.link, 1.5 * core + 1, 2 * bytes) + cost.reduceUs(bytes / 2);
  return elapsedUs(cost, us);
}

}  // namespace

extern constinit const Algorithm kAllReduceHalvingDoubling = {
    .collective = Collective::AllReduce,
    .name = "halvingdoubling",
    .summary = "recursive halving, then doubling; medium messages, best for powers of two",
    .costUs = costUs,
    .build = build,
    .joins = true,
    .exchanges = true,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_halving_doubling

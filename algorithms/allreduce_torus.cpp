// Torus allreduce: the ranks as a grid of 2 or 3 dimensions, a ring reduce-scatter along each, then ring allgathers
//   back.
//   steps 2 * sum(d_i - 1) for n = d_0 * d_1 [* d_2], as equal as n's factors allow; bytes sent per rank 2(n-1)/n * S
//   in 2(n-1) chunks; (n-1)/n * S reduced.
//   Neighbouring ranks lie along the first dimension, which moves the most bytes.
//   Limits: n must have so many factors.  For torus networks, and many ranks where a ring has too many steps.
//   Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience", CCPE
//   19(13), 2007, section on multidimensional meshes.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"
#include "algorithms/phases.hpp"
#include "src/base/text.hpp"

namespace tutti::allreduce_torus {
namespace {

struct Grid {
  std::vector<int> dims;  // dims[0] varies fastest with the rank
  int coordinate(int rank, int dim) const {
    for (int i = 0; i < dim; ++i) rank /= dims[i];
    return rank % dims[dim];
  }
};

// The line of ranks through `rank` along dim, and the chunks that its positions share out: those whose coordinates
// before dim are the rank's own.
void line(const Grid& grid, int nRanks, int rank, int dim, Group* group, Parts* parts) {
  std::vector<int> ranks;
  parts->assign(grid.dims[dim], {});
  for (int other = 0; other < nRanks; ++other) {
    bool onLine = true;
    bool shared = true;
    for (int i = 0; i < static_cast<int>(grid.dims.size()); ++i) {
      const bool same = grid.coordinate(other, i) == grid.coordinate(rank, i);
      if (i != dim && !same) onLine = false;
      if (i < dim && !same) shared = false;
    }
    if (onLine) ranks.push_back(other);
    if (shared) (*parts)[grid.coordinate(other, dim)].push_back(other);
  }
  *group = groupOf(std::move(ranks), rank);
}

Schedule build(const Shape& shape, int nDims) {
  const Grid grid{nearCube(shape.nRanks, nDims)};
  ScheduleBuilder b(shape, shape.nRanks);
  Blocks blocks = Blocks::ofAllReduce(b, shape.nRanks);
  std::vector<Group> groups(nDims);
  std::vector<Parts> parts(nDims);
  for (int dim = 0; dim < nDims; ++dim) {
    line(grid, shape.nRanks, shape.rank, dim, &groups[dim], &parts[dim]);
    b.phase(cat("reduce-scatter along dimension ", dim));
    ringReduceScatter(blocks, groups[dim], parts[dim]);
  }
  for (int dim = nDims - 1; dim >= 0; --dim) {
    b.phase(cat("allgather along dimension ", dim));
    ringAllGather(blocks, groups[dim], parts[dim]);
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = double(s.bytes) * (s.nRanks - 1) / s.nRanks;
  return elapsedUs(cost, 2 * serialUs(cost.link, s.nRanks - 1, moved) + cost.reduceUs(moved));
}

const char* lacksFactors(const Shape& s, int nDims, const char* need) {
  return nearCube(s.nRanks, nDims).empty() ? need : nullptr;
}

}  // namespace

extern constinit const Algorithm kAllReduceTorus2d = {
    .collective = Collective::AllReduce,
    .name = "torus2d",
    .summary = "rings along the rows and columns of a grid; torus networks, many ranks",
    .lacks = [](const Shape& s) { return lacksFactors(s, 2, "a number of ranks that is a product of two above 1"); },
    .costUs = costUs,
    .build = [](const Shape& s) { return build(s, 2); },
    .grid = [](const Shape& s) { return nearCube(s.nRanks, 2); },
    .joins = true,
    .sumsOnce = true,
};

extern constinit const Algorithm kAllReduceTorus3d = {
    .collective = Collective::AllReduce,
    .name = "torus3d",
    .summary = "rings along three dimensions; torus networks, many ranks",
    .lacks = [](const Shape& s) { return lacksFactors(s, 3, "a number of ranks that is a product of three above 1"); },
    .costUs = costUs,
    .build = [](const Shape& s) { return build(s, 3); },
    .grid = [](const Shape& s) { return nearCube(s.nRanks, 3); },
    .joins = true,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_torus

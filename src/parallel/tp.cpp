// The tensor-parallel handle, its splits and its regions.
#include "src/parallel/tp.hpp"

#include <algorithm>
#include <cstring>

using namespace tutti::parallel;

std::vector<int64_t> tuttiTp::leaves(int64_t total, int64_t unit) const {
  return evenCuts(total, unit, invariant() ? config.leaves : 1);
}

std::vector<int64_t> tuttiTp::leavesOfTokens(int64_t tokens) const {
  return evenCuts(tokens, 1, !invariant() ? 1 : config.tokenLeaves > 0 ? config.tokenLeaves : config.leaves);
}

std::vector<int64_t> tuttiTp::leafRuns() const { return evenCuts(config.leaves, 1, group.size()); }

std::vector<int64_t> tuttiTp::split(int64_t total, int64_t unit) const {
  if (!invariant()) return evenCuts(total, unit, group.size());
  const std::vector<int64_t> bounds = leaves(total, unit);
  std::vector<int64_t> cuts;
  for (const int64_t leaf : leafRuns()) cuts.push_back(bounds[static_cast<size_t>(leaf)]);
  return cuts;
}

int64_t tuttiTp::ownTokens(int64_t tokens) const {
  if (!sequence()) return tokens;
  const std::vector<int64_t> cuts = split(tokens, 1);
  return cuts[static_cast<size_t>(group.rank()) + 1] - cuts[static_cast<size_t>(group.rank())];
}

void tuttiTp::multiply(const tuttiMatmul_t& call, const std::vector<int64_t>& kLeaves) const {
  if (invariant()) {
    checkMatmul(&call);
    return matmulLeaves(call, kLeaves.data(), static_cast<int>(kLeaves.size()) - 1);
  }
  const tuttiResult_t result = kernels.matmul(kernels.context, &call);
  if (result != tuttiSuccess)
    fail(result, "the matrix product of the kernel table failed: ", tuttiParallelGetLastError());
}

namespace tutti::parallel {
namespace {

/// The place of a rank's part in a matrix that is cut along dim.
template <class T>
void keepPart(Matrix<T> whole, int dim, const int64_t* cuts, int rank, Matrix<T> part) {
  for (int64_t r = 0; r < part.rows; ++r) {
    const T* from = dim == 0 ? whole.row(cuts[rank] + r) : whole.row(r) + cuts[rank];
    std::copy(from, from + part.columns, part.row(r));
  }
}

template <class T>
void joinParts(Group& group, Matrix<T> part, int dim, const int64_t* cuts, Matrix<T> whole) {
  if (dim == 1) return gatherColumns<T>(group, {part.data, part.rows, part.columns, part.stride}, cuts, whole);
  std::copy(part.data, part.data + part.rows * part.columns, whole.row(cuts[group.rank()]));
  std::vector<int64_t> elements(cuts, cuts + group.size() + 1);
  for (int64_t& cut : elements) cut *= whole.columns;
  group.allGather(whole.data, elements.data(), dtypeOf<T>());
}

enum class Act { Same, Sum, Keep, Join, SumKeep };

/// What a region does, forward and backward.
Act actOf(tuttiRegion_t region, bool backward) {
  switch (region) {
    case tuttiRegionCopy: return backward ? Act::Sum : Act::Same;
    case tuttiRegionReduce: return backward ? Act::Same : Act::Sum;
    case tuttiRegionScatter: return backward ? Act::Join : Act::Keep;
    case tuttiRegionGather: return backward ? Act::Keep : Act::Join;
    case tuttiRegionGatherTokens: return backward ? Act::SumKeep : Act::Join;
    case tuttiRegionReduceScatter: return backward ? Act::Join : Act::SumKeep;
  }
  fail(tuttiInvalidArgument, "there is no region ", static_cast<int>(region));
}

/// Sums in layout-invariant mode follow the tree over ranks.
template <class T>
void sumOverRanks(tuttiTp& tp, const T* from, T* to, const int64_t* slices, bool keep) {
  Group& group = tp.group;
  const size_t count = static_cast<size_t>(slices[group.size()]);
  if (tp.invariant() && group.size() > 1) {
    const std::vector<int64_t> runs = evenCuts(group.size(), 1, group.size());
    const std::vector<const T*> parts{from};
    return keep ? group.treeReduceScatter(parts, to, runs.data(), slices)
                : group.treeAllReduce(parts, to, runs.data(), slices);
  }
  if (keep) return group.reduceScatter(from, to, slices, dtypeOf<T>());
  std::copy(from, from + count, to);
  group.allReduce(to, count, dtypeOf<T>(), tuttiSum);
}

template <class T>
void runRegion(tuttiTp& tp, Act act, const tuttiTensor_t& x, int dim, const int64_t* cuts, const tuttiTensor_t& y) {
  const Matrix<T> from = matrixOf<T>(x), to = matrixOf<T>(y);
  const int64_t count = elementsOf(x);
  switch (act) {
    case Act::Same: std::copy(from.data, from.data + count, to.data); return;
    case Act::Keep: keepPart(from, dim, cuts, tp.group.rank(), to); return;
    case Act::Join: joinParts(tp.group, from, dim, cuts, to); return;
    case Act::Sum: {
      const std::vector<int64_t> slices = evenCuts(count, 1, tp.group.size());
      std::vector<T> copy(from.data, from.data + count);
      sumOverRanks<T>(tp, copy.data(), to.data, slices.data(), false);
      return;
    }
    case Act::SumKeep: {
      std::vector<int64_t> slices(cuts, cuts + tp.group.size() + 1);
      for (int64_t& cut : slices) cut *= from.columns;
      sumOverRanks<T>(tp, from.data, to.data, slices.data(), true);
      return;
    }
  }
}

void checkRegion(const tuttiTp& tp, Act act, const tuttiTensor_t* x, int dim, const int64_t* cuts,
                 const tuttiTensor_t* y) {
  require(x != nullptr && y != nullptr, "x or y is NULL");
  require(x->nDims == 2 && y->nDims == 2, "x and y are matrices");
  require(dim == 0 || dim == 1, "a matrix has no dimension ", dim);
  int64_t whole[2] = {x->shape[0], x->shape[1]}, part[2] = {whole[0], whole[1]};
  if (act != Act::Same && act != Act::Sum) {
    require(act != Act::SumKeep || dim == 0, "sums are scattered by rows (dim 0)");
    require(cuts != nullptr, "cuts is NULL");
    const int n = tp.group.size(), rank = tp.group.rank();
    whole[dim] = cuts[n];
    part[dim] = cuts[rank + 1] - cuts[rank];
    checkCuts(cuts, n, whole[dim], "cuts");
  }
  const bool joins = act == Act::Join;
  const int64_t *in = joins ? part : whole, *out = act == Act::Keep || act == Act::SumKeep ? part : whole;
  checkMatrix(x, "x", in[0], in[1], x->dtype);
  checkMatrix(y, "y", out[0], out[1], x->dtype);
  checkContiguous(x, "x", in[0] * in[1], x->dtype);
  checkContiguous(y, "y", out[0] * out[1], x->dtype);
}

}  // namespace

template <class T>
void gatherColumns(Group& group, Matrix<const T> mine, const int64_t* cuts, Matrix<T> whole) {
  const int64_t rows = whole.rows;
  std::vector<T> blocks(static_cast<size_t>(rows * cuts[group.size()]));
  T* own = blocks.data() + rows * cuts[group.rank()];
  for (int64_t r = 0; r < rows; ++r) std::copy(mine.row(r), mine.row(r) + mine.columns, own + r * mine.columns);
  std::vector<int64_t> elements(cuts, cuts + group.size() + 1);
  for (int64_t& cut : elements) cut *= rows;
  group.allGather(blocks.data(), elements.data(), dtypeOf<T>());
  for (int p = 0; p < group.size(); ++p) {
    const int64_t width = cuts[p + 1] - cuts[p];
    const T* block = blocks.data() + elements[static_cast<size_t>(p)];
    for (int64_t r = 0; r < rows; ++r) std::copy(block + r * width, block + (r + 1) * width, whole.row(r) + cuts[p]);
  }
}
template void gatherColumns(Group&, Matrix<const float>, const int64_t*, Matrix<float>);
template void gatherColumns(Group&, Matrix<const double>, const int64_t*, Matrix<double>);

template <class T>
void addRowSums(Matrix<const T> x, const std::vector<int64_t>& rowLeaves, T* sum) {
  const int64_t nLeaves = static_cast<int64_t>(rowLeaves.size()) - 1;
  std::vector<T> leaves(static_cast<size_t>(nLeaves * x.columns));
  for (int64_t l = 0; l < nLeaves; ++l) {
    T* leaf = leaves.data() + l * x.columns;
    for (int64_t r = rowLeaves[static_cast<size_t>(l)]; r < rowLeaves[static_cast<size_t>(l) + 1]; ++r) {
      addInto(leaf, x.row(r), static_cast<size_t>(x.columns));
    }
  }
  treeSum(leaves.data(), nLeaves, static_cast<size_t>(x.columns));
  addInto(sum, leaves.data(), static_cast<size_t>(x.columns));
}
template void addRowSums(Matrix<const float>, const std::vector<int64_t>&, float*);
template void addRowSums(Matrix<const double>, const std::vector<int64_t>&, double*);

}  // namespace tutti::parallel

tuttiResult_t tuttiTpCreate(tuttiTp_t* tp, tuttiComm_t comm, const tuttiTpConfig_t* config) {
  return guarded([&] {
    require(tp != nullptr, "tp is NULL");
    *tp = nullptr;
    auto made = std::make_unique<tuttiTp>(comm);
    made->config = takeConfig(config, made->config, "config");
    const tuttiTpConfig_t& c = made->config;
    require(c.numerics == tuttiNumericsFast || c.numerics == tuttiNumericsLayoutInvariant, "numerics is ", c.numerics);
    require(c.tokenLeaves >= 0 && c.tokenLeaves <= 1024, "tokenLeaves is ", c.tokenLeaves, "; 0 to 1024");
    require(c.leaves >= 1 && c.leaves <= 1024, "leaves is ", c.leaves, "; 1 to 1024");
    require(c.tiles >= 1 && c.tiles <= 1024, "tiles is ", c.tiles, "; 1 to 1024");
    if (c.kernels != nullptr) {
      made->kernels = takeConfig(c.kernels, made->kernels, "kernels");
      require(made->kernels.matmul != nullptr, "the kernel table has no matmul");
    } else if (tuttiKernelsFast(&made->kernels) != tuttiSuccess) {
      fail(tuttiInternalError, tuttiParallelGetLastError());
    }
    made->config.kernels = nullptr;
    if (c.tiles > 1 && made->group.size() > 1 && !made->invariant()) made->worker = std::make_unique<Worker>();
    *tp = made.release();
  });
}

tuttiResult_t tuttiTpDestroy(tuttiTp_t tp) {
  return guarded([&] { delete tp; });
}

tuttiResult_t tuttiTpTraffic(tuttiTp_t tp, tuttiTraffic_t* traffic, int reset) {
  return guarded([&] {
    require(tp != nullptr, "tp is NULL");
    giveTraffic(tp->group.traffic, traffic);
    if (reset) tp->group.traffic = TUTTI_TRAFFIC_INITIALIZER;
  });
}

tuttiResult_t tuttiTpSplit(tuttiTp_t tp, int64_t total, int64_t unit, int64_t* cuts) {
  return guarded([&] {
    require(tp != nullptr && cuts != nullptr, "tp or cuts is NULL");
    const std::vector<int64_t> found = tp->split(total, unit);
    std::copy(found.begin(), found.end(), cuts);
  });
}

tuttiResult_t tuttiTpLeaves(tuttiTp_t tp, int64_t total, int64_t unit, int64_t* leafCuts) {
  return guarded([&] {
    require(tp != nullptr && leafCuts != nullptr, "tp or leafCuts is NULL");
    const std::vector<int64_t> found = evenCuts(total, unit, tp->config.leaves);
    std::copy(found.begin(), found.end(), leafCuts);
  });
}

tuttiResult_t tuttiTpCheaperSplit(tuttiTp_t tp, int64_t tokens, int64_t inputs, int64_t outputs, tuttiDataType_t dtype,
                                  int* column) {
  return guarded([&] {
    require(tp != nullptr && column != nullptr && tokens >= 0 && inputs >= 0 && outputs >= 0, "tp or column is NULL");
    double gather = static_cast<double>(inputs), scatter = static_cast<double>(outputs);
    const Group& g = tp->group;
    if (g.size() > 1) {
      tuttiEstimate_t a = TUTTI_ESTIMATE_INITIALIZER, b = TUTTI_ESTIMATE_INITIALIZER;
      const size_t n = static_cast<size_t>(g.size());
      const auto each = [&](int64_t features) { return (static_cast<size_t>(tokens * features) + n - 1) / n; };
      check(tuttiCommEstimate(g.comm(), tuttiCallAllGather, each(inputs), dtype, tuttiSum, 0, &a), g.comm());
      check(tuttiCommEstimate(g.comm(), tuttiCallReduceScatter, each(outputs), dtype, tuttiSum, 0, &b), g.comm());
      gather = a.timeUs;
      scatter = b.timeUs;
    }
    *column = gather <= scatter;
  });
}

tuttiResult_t tuttiTpRegion(tuttiTp_t tp, tuttiRegion_t region, int backward, const tuttiTensor_t* x, int dim,
                            const int64_t* cuts, const tuttiTensor_t* y) {
  return guarded([&] {
    require(tp != nullptr, "tp is NULL");
    const Act act = actOf(region, backward != 0);
    checkRegion(*tp, act, x, dim, cuts, y);
    withType(x->dtype, [&](auto zero) { runRegion<decltype(zero)>(*tp, act, *x, dim, cuts, *y); });
  });
}

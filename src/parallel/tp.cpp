// The tensor-parallel handle, its splits and its regions.
#include "src/parallel/tp.hpp"

#include <algorithm>

using namespace tutti::parallel;

std::vector<int64_t> tuttiTp::leaves(int64_t total, int64_t unit) const {
  return evenCuts(total, unit, invariant() ? config.leaves : 1);
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
    if (!device->onHost()) {
      return multiplyLeaves(*device, call, kLeaves.data(), static_cast<int>(kLeaves.size()) - 1);
    }
    return matmulLeaves(call, kLeaves.data(), static_cast<int>(kLeaves.size()) - 1);
  }
  if (kernels.matmul == nullptr) {
    checkMatmul(&call);
    return multiplyFast(*device, call);
  }
  const tuttiResult_t result = kernels.matmul(kernels.context, &call);
  if (result != tuttiSuccess)
    fail(result, "the matrix product of the kernel table failed: ", tuttiParallelGetLastError());
}

namespace tutti::parallel {
namespace {

/// The place of a rank's part in a matrix that is cut along dim.
template <class T>
void keepPart(Group& group, Matrix<T> whole, int dim, const int64_t* cuts, Matrix<T> part) {
  const int64_t first = cuts[group.rank()];
  const T* from = dim == 0 ? whole.row(first) : whole.data + first;
  copyMatrix(group.device(), part.data, part.stride, from, whole.stride, part.rows, part.columns);
}

template <class T>
void joinParts(Group& group, Matrix<T> part, int dim, const int64_t* cuts, Matrix<T> whole) {
  if (dim == 1) return gatherColumns<T>(group, {part.data, part.rows, part.columns, part.stride}, cuts, whole);
  copyBytes(group.device(), whole.row(cuts[group.rank()]), part.data,
            static_cast<size_t>(part.rows * part.columns) * sizeof(T));
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

/// Layout-invariant: one vector of a rank stands for its leaves, which therefore are one subtree.
void checkRegionLeaves(const tuttiTp& tp) {
  if (!tp.invariant() || tp.group.size() == 1) return;
  const std::vector<int64_t> runs = tp.leafRuns();
  for (size_t r = 0; r + 1 < runs.size(); ++r) {
    const size_t parts = subtreesOf(runs.back(), {runs[r], runs[r + 1]}).size();
    require(parts == 1, "a region's sum has one vector of each rank, and of ", runs.back(), " leaves over ",
            tp.group.size(), " ranks rank ", r, " has [", runs[r], ", ", runs[r + 1], "), the sum of which takes ",
            parts, " in layout-invariant mode: use tuttiTreeAllReduceTensors with leaves");
  }
}

/// Sums in layout-invariant mode follow the tree of the leaves.
template <class T>
void sumOverRanks(tuttiTp& tp, const T* from, T* to, const int64_t* slices, bool keep) {
  Group& group = tp.group;
  const size_t count = static_cast<size_t>(slices[group.size()]);
  if (tp.invariant() && group.size() > 1) {
    const std::vector<int64_t> runs = tp.leafRuns();
    const std::vector<const T*> parts{from};
    return keep ? group.treeReduceScatter(parts, to, runs.data(), slices)
                : group.treeAllReduce(parts, to, runs.data(), slices);
  }
  if (keep) return group.reduceScatter(from, to, slices, dtypeOf<T>());
  copyBytes(group.device(), to, from, count * sizeof(T));
  group.allReduce(to, count, dtypeOf<T>(), tuttiSum);
}

template <class T>
void runRegion(tuttiTp& tp, Act act, const tuttiTensor_t& x, int dim, const int64_t* cuts, const tuttiTensor_t& y) {
  const Matrix<T> from = matrixOf<T>(x), to = matrixOf<T>(y);
  const int64_t count = elementsOf(x);
  switch (act) {
    case Act::Same:
      if (to.data != from.data) copyBytes(*tp.device, to.data, from.data, static_cast<size_t>(count) * sizeof(T));
      return;
    case Act::Keep: keepPart(tp.group, from, dim, cuts, to); return;
    case Act::Join: joinParts(tp.group, from, dim, cuts, to); return;
    case Act::Sum: {
      const std::vector<int64_t> slices = evenCuts(count, 1, tp.group.size());
      Array<T> copy(*tp.device, static_cast<size_t>(count), Array<T>::Any);
      copyBytes(*tp.device, copy.data(), from.data, copy.size() * sizeof(T));
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
  if (act == Act::Sum || act == Act::SumKeep) checkRegionLeaves(tp);
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
  const int kind = kindOf(*tp.device);
  checkMatrix(x, "x", in[0], in[1], x->dtype, kind);
  checkMatrix(y, "y", out[0], out[1], x->dtype, kind);
  checkContiguous(x, "x", in[0] * in[1], x->dtype, kind);
  checkContiguous(y, "y", out[0] * out[1], x->dtype, kind);
}

}  // namespace

template <class T>
void gatherColumns(Group& group, Matrix<const T> mine, const int64_t* cuts, Matrix<T> whole) {
  const int64_t rows = whole.rows;
  Device& device = group.device();
  Array<T> blocks(device, static_cast<size_t>(rows * cuts[group.size()]), Array<T>::Any);
  T* own = blocks.data() + rows * cuts[group.rank()];
  copyMatrix(device, own, mine.columns, mine.data, mine.stride, rows, mine.columns);
  std::vector<int64_t> elements(cuts, cuts + group.size() + 1);
  for (int64_t& cut : elements) cut *= rows;
  group.allGather(blocks.data(), elements.data(), dtypeOf<T>());
  for (int p = 0; p < group.size(); ++p) {
    const int64_t width = cuts[p + 1] - cuts[p];
    const T* block = blocks.data() + elements[static_cast<size_t>(p)];
    copyMatrix(device, whole.data + cuts[p], whole.stride, block, width, rows, width);
  }
}
template void gatherColumns(Group&, Matrix<const float>, const int64_t*, Matrix<float>);
template void gatherColumns(Group&, Matrix<const double>, const int64_t*, Matrix<double>);

template <class T>
void addRowSums(Device& device, Matrix<const T> x, const std::vector<int64_t>& rowLeaves, T* sum) {
  const int64_t nLeaves = static_cast<int64_t>(rowLeaves.size()) - 1;
  const size_t columns = static_cast<size_t>(x.columns);
  Array<T> leaves(device, static_cast<size_t>(nLeaves) * columns, Array<T>::Any);
  for (size_t l = 0; l < static_cast<size_t>(nLeaves); ++l) {
    const int64_t first = rowLeaves[l];
    sumRows(device, leaves.data() + l * columns, x.row(first), x.stride, rowLeaves[l + 1] - first, x.columns);
  }
  treeSum(device, leaves.data(), nLeaves, columns);
  addVector<T>(device, sum, leaves.data(), columns);
}
template void addRowSums(Device&, Matrix<const float>, const std::vector<int64_t>&, float*);
template void addRowSums(Device&, Matrix<const double>, const std::vector<int64_t>&, double*);

namespace {

void joinTokens(tuttiTp& tp) {
  const tuttiTpConfig_t& c = tp.config;
  if (c.tokenComm == nullptr) return;
  tp.tokenGroup = Group(c.tokenComm, *tp.device);
  const int n = tp.tokenGroup.size();
  require(n == 1 || !tp.sequence(), "tokens are cut over the ", n, " ranks of tokenComm and the ", tp.group.size(),
          " of sequenceParallel: over one of them only");
  require(n == 1 || !tp.invariant() || c.sequence >= 1, "sequence is ", c.sequence,
          ": the tokens of a whole sequence, ", "of which ", n, " ranks have parts");
}

/// This library's own tables would follow device addresses.
void refuseHostKernels(const tuttiKernels_t& kernels) {
  for (const auto& give : {tuttiKernelsFast, tuttiKernelsInvariant}) {
    tuttiKernels_t own = TUTTI_KERNELS_INITIALIZER;
    if (give(&own) != tuttiSuccess) fail(tuttiInternalError, tuttiParallelGetLastError());
    if (own.matmul == kernels.matmul) {
      fail(tuttiInvalidUsage, "config.kernels is \"", own.name,
           "\", which computes on host memory alone; NULL stands for ", "the device's products");
    }
  }
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiTpCreate(tuttiTp_t* tp, tuttiComm_t comm, const tuttiTpConfig_t* config) {
  return guardedIf(tp != nullptr, "tp is NULL", [&] {
    *tp = nullptr;
    const auto c = takeConfig<tuttiTpConfig_t>(config, TUTTI_TP_CONFIG_INITIALIZER, "config");
    const int kind = kindOf(c.device);
    auto made = std::make_unique<tuttiTp>(deviceOf(comm, kind), comm);
    require(c.device == TUTTI_DEVICE_AUTO || kindOf(*made->device) == kind, "device is ", c.device,
            ", and the communicator computes elsewhere");
    made->config = c;
    require(c.numerics == tuttiNumericsFast || c.numerics == tuttiNumericsLayoutInvariant, "numerics is ", c.numerics);
    require(c.tokenLeaves == 0, "tokenLeaves is ", c.tokenLeaves, "; 0: a rank's part of the leaves is no one subtree ",
            "of their sum for all numbers of them; give the ranks that have the other tokens as tokenComm");
    require(c.leaves >= 1 && c.leaves <= 1024, "leaves is ", c.leaves, "; 1 to 1024");
    require(c.tiles >= 1 && c.tiles <= 1024, "tiles is ", c.tiles, "; 1 to 1024");
    if (c.kernels != nullptr) {
      made->kernels = takeConfig(c.kernels, made->kernels, "kernels");
      require(made->kernels.matmul != nullptr, "the kernel table has no matmul");
      if (!made->device->onHost()) refuseHostKernels(made->kernels);
    } else if (made->device->onHost() && tuttiKernelsFast(&made->kernels) != tuttiSuccess) {
      fail(tuttiInternalError, tuttiParallelGetLastError());
    }
    made->config.kernels = nullptr;
    joinTokens(*made);
    if (c.tiles > 1 && made->group.size() > 1 && !made->invariant()) {
      made->sender = std::make_unique<Sender>(*made->device, true);
    }
    *tp = made.release();
  });
}

tuttiResult_t tuttiTpDestroy(tuttiTp_t tp) {
  return guarded([&] { delete tp; });
}

tuttiResult_t tuttiTpTraffic(tuttiTp_t tp, tuttiTraffic_t* traffic, int reset) {
  return guardedIf(tp != nullptr, "tp is NULL", [&] {
    tuttiTraffic_t both = tp->group.traffic;
    addTraffic(both, tp->tokenGroup.traffic);
    giveTraffic(both, traffic);
    if (reset) tp->group.traffic = tp->tokenGroup.traffic = TUTTI_TRAFFIC_INITIALIZER;
  });
}

tuttiResult_t tuttiTpSplit(tuttiTp_t tp, int64_t total, int64_t unit, int64_t* cuts) {
  return guardedIf(tp != nullptr && cuts != nullptr, "tp or cuts is NULL", [&] {
    const std::vector<int64_t> found = tp->split(total, unit);
    std::copy(found.begin(), found.end(), cuts);
  });
}

tuttiResult_t tuttiTpLeaves(tuttiTp_t tp, int64_t total, int64_t unit, int64_t* leafCuts) {
  return guardedIf(tp != nullptr && leafCuts != nullptr, "tp or leafCuts is NULL", [&] {
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
  return guardedIf(tp != nullptr, "tp is NULL", [&] {
    const Act act = actOf(region, backward != 0);
    checkRegion(*tp, act, x, dim, cuts, y);
    withType(x->dtype, [&](auto zero) { runRegion<decltype(zero)>(*tp, act, *x, dim, cuts, *y); });
  });
}

// Linear layers whose weight is cut by outputs (column) or by inputs (row).
#include <algorithm>

#include "src/parallel/predict.hpp"
#include "src/parallel/tp.hpp"

using namespace tutti::parallel;

struct tuttiLinear {
  tuttiTp* tp;
  bool column;
  int64_t inputs, outputs;
  bool whole;
  std::vector<int64_t> cuts;    // of what is cut, per rank
  std::vector<int64_t> leaves;  // of what is cut; one in fast mode

  int64_t first() const { return cuts[static_cast<size_t>(tp->group.rank())]; }
  int64_t width() const { return cuts[static_cast<size_t>(tp->group.rank()) + 1] - first(); }
  /// The bounds of leaves [run), as offsets from its first item.
  std::vector<int64_t> within(LeafRange run) const {
    std::vector<int64_t> bounds(leaves.begin() + run.begin, leaves.begin() + run.end + 1);
    for (int64_t& b : bounds) b -= leaves[static_cast<size_t>(run.begin)];
    return bounds;
  }
  /// Where leaves `run` begin in what this rank holds, and how many items they are.
  std::pair<int64_t, int64_t> place(LeafRange run) const {
    if (!tp->invariant()) return {0, width()};
    const int64_t begin = leaves[static_cast<size_t>(run.begin)];
    return {begin - first(), leaves[static_cast<size_t>(run.end)] - begin};
  }
  std::vector<int64_t> boundsOf(LeafRange run) const {
    return tp->invariant() ? within(run) : std::vector<int64_t>{0, width()};
  }
};

namespace tutti::parallel {
namespace {

template <class T>
struct Operand {
  const T* data;
  int64_t stride;
};

template <class T>
void product(const tuttiLinear& l, bool ta, bool tb, bool accumulate, int64_t m, int64_t n, int64_t k, Operand<T> a,
             Operand<T> b, T* c, int64_t ldc, const std::vector<int64_t>& kLeaves) {
  l.tp->multiply({dtypeOf<T>(), ta, tb, accumulate, m, n, k, a.data, b.data, c, a.stride, b.stride, ldc}, kLeaves);
}

/// All tokens of x: x itself, or gathered into `room`.
template <class T>
Matrix<const T> allTokens(tuttiTp& tp, int64_t tokens, Matrix<const T> x, Array<T>& room) {
  if (!tp.sequence()) return x;
  std::vector<int64_t> cuts = tp.split(tokens, 1);
  for (int64_t& cut : cuts) cut *= x.columns;
  room = Array<T>(*tp.device, static_cast<size_t>(tokens * x.columns), Array<T>::Any);
  T* own = room.data() + cuts[static_cast<size_t>(tp.group.rank())];
  copyMatrix(*tp.device, own, x.columns, x.data, x.stride, x.rows, x.columns);
  tp.group.allGather(room.data(), cuts.data(), dtypeOf<T>());
  return {room.data(), tokens, x.columns, x.columns};
}

template <class T>
void addBias(Device& device, Matrix<T> y, const tuttiTensor_t* bias) {
  if (bias == nullptr) return;
  addMatrix(device, y.data, y.stride, static_cast<const T*>(bias->data), 0, y.rows, y.columns);
}

template <class T>
Matrix<const T> constant(const tuttiTensor_t& t) {
  const Matrix<T> m = matrixOf<T>(t);
  return {m.data, m.rows, m.columns, m.stride};
}

template <class T>
void columnForward(tuttiLinear& l, int64_t tokens, const tuttiTensor_t& x, const tuttiTensor_t& w,
                   const tuttiTensor_t* bias, const tuttiTensor_t& y) {
  Array<T> room, block;
  const Matrix<const T> all = allTokens<T>(*l.tp, tokens, constant<T>(x), room);
  const Matrix<T> out = matrixOf<T>(y);
  const bool gather = l.whole && l.tp->group.size() > 1;
  if (gather) block = Array<T>(*l.tp->device, static_cast<size_t>(tokens * l.width()), Array<T>::Any);
  const Matrix<T> mine = gather ? Matrix<T>{block.data(), tokens, l.width(), l.width()} : out;
  product<T>(l, false, true, false, tokens, l.width(), l.inputs, {all.data, all.stride},
             {static_cast<const T*>(w.data), w.strides[0]}, mine.data, mine.stride, {0, l.inputs});
  addBias(*l.tp->device, mine, bias);
  if (gather) gatherColumns<T>(l.tp->group, {mine.data, tokens, l.width(), l.width()}, l.cuts.data(), out);
}

/// dw += the sum over tokens of products of a row of dy and one of x; dbias += that of rows of dy.
template <class T>
void weightGradients(const tuttiLinear& l, int64_t tokens, Matrix<const T> dy, Matrix<const T> x,
                     const tuttiTensor_t* dw, const tuttiTensor_t* dbias) {
  if (dw != nullptr) {
    l.tp->addOverTokens(tokens, matrixOf<T>(*dw), [&](std::vector<int64_t> bounds, Matrix<T> to) {
      const int64_t first = bounds.front();
      for (int64_t& bound : bounds) bound -= first;
      product<T>(l, true, false, true, to.rows, to.columns, bounds.back(), {dy.row(first), dy.stride},
                 {x.row(first), x.stride}, to.data, to.stride, bounds);
    });
  }
  if (dbias != nullptr) {
    l.tp->addOverTokens(
        tokens, Matrix<T>{static_cast<T*>(dbias->data), 1, dy.columns, dy.columns},
        [&](const std::vector<int64_t>& bounds, Matrix<T> to) { addRowSums<T>(*l.tp->device, dy, bounds, to.data); });
  }
}

template <class T>
void columnBackward(tuttiLinear& l, int64_t tokens, const tuttiTensor_t& x, const tuttiTensor_t& w,
                    const tuttiTensor_t& dyTensor, const tuttiTensor_t* dx, const tuttiTensor_t* dw,
                    const tuttiTensor_t* dbias) {
  Array<T> room;
  Matrix<const T> dy = constant<T>(dyTensor);
  if (l.whole) dy = {dy.data + l.first(), tokens, l.width(), dy.stride};
  if (dx != nullptr) {
    const T* weight = static_cast<const T*>(w.data);
    l.tp->reduceProducts<T>(
        tokens, l.inputs, static_cast<T*>(dx->data), [&](LeafRange run, int64_t row0, int64_t row1, T* to) {
          const auto [at, n] = l.place(run);
          product<T>(l, false, false, false, row1 - row0, l.inputs, n, {dy.row(row0) + at, dy.stride},
                     {weight + at * w.strides[0], w.strides[0]}, to, l.inputs, l.boundsOf(run));
        });
  }
  Matrix<const T> all{};
  if (dw != nullptr) all = allTokens<T>(*l.tp, tokens, constant<T>(x), room);
  weightGradients<T>(l, tokens, dy, all, dw, dbias);
}

template <class T>
Matrix<const T> ownInputs(const tuttiLinear& l, const tuttiTensor_t& x) {
  Matrix<const T> m = constant<T>(x);
  if (l.whole) m = {m.data + l.first(), m.rows, l.width(), m.stride};
  return m;
}

template <class T>
void rowForward(tuttiLinear& l, int64_t tokens, const tuttiTensor_t& x, const tuttiTensor_t& w,
                const tuttiTensor_t* bias, const tuttiTensor_t& y) {
  const Matrix<const T> in = ownInputs<T>(l, x);
  const T* weight = static_cast<const T*>(w.data);
  l.tp->reduceProducts<T>(tokens, l.outputs, static_cast<T*>(y.data),
                          [&](LeafRange run, int64_t row0, int64_t row1, T* to) {
                            const auto [at, n] = l.place(run);
                            product<T>(l, false, true, false, row1 - row0, l.outputs, n, {in.row(row0) + at, in.stride},
                                       {weight + at, w.strides[0]}, to, l.outputs, l.boundsOf(run));
                          });
  addBias(*l.tp->device, matrixOf<T>(y), bias);
}

template <class T>
void rowBackward(tuttiLinear& l, int64_t tokens, const tuttiTensor_t& x, const tuttiTensor_t& w,
                 const tuttiTensor_t& dyTensor, const tuttiTensor_t* dx, const tuttiTensor_t* dw,
                 const tuttiTensor_t* dbias) {
  Array<T> room, block;
  const Matrix<const T> dy = allTokens<T>(*l.tp, tokens, constant<T>(dyTensor), room), in = ownInputs<T>(l, x);
  if (dx != nullptr) {
    const bool gather = l.whole && l.tp->group.size() > 1;
    if (gather) block = Array<T>(*l.tp->device, static_cast<size_t>(tokens * l.width()), Array<T>::Any);
    const Matrix<T> to = matrixOf<T>(*dx);
    T* mine = gather ? block.data() : to.data;
    product<T>(l, false, false, false, tokens, l.width(), l.outputs, {dy.data, dy.stride},
               {static_cast<const T*>(w.data), w.strides[0]}, mine, gather ? l.width() : to.stride, {0, l.outputs});
    if (gather) gatherColumns<T>(l.tp->group, {mine, tokens, l.width(), l.width()}, l.cuts.data(), to);
  }
  weightGradients<T>(l, tokens, dy, in, dw, dbias);
}

tuttiResult_t create(tuttiLinear_t* linear, tuttiTp_t tp, const tuttiLinearConfig_t* config, bool column) {
  return guardedIf(linear != nullptr && tp != nullptr, "linear or tp is NULL", [&] {
    *linear = nullptr;
    const auto c = takeConfig<tuttiLinearConfig_t>(config, TUTTI_LINEAR_CONFIG_INITIALIZER, "config");
    const int64_t cutItems = column ? c.outputs : c.inputs;
    require(c.inputs >= 1 && c.outputs >= 1, "a layer of ", c.inputs, " inputs and ", c.outputs, " outputs");
    require(c.unit >= 1 && cutItems % c.unit == 0, cutItems, column ? " outputs" : " inputs",
            " are not whole units of ", c.unit);
    auto made = std::make_unique<tuttiLinear>(
        tuttiLinear{tp, column, c.inputs, c.outputs, c.whole != 0, tp->split(cutItems, c.unit), {}});
    made->leaves = tp->leaves(cutItems, c.unit);
    require(!(c.whole && tp->sequence() && !column), "a row layer of whole inputs has no sequence-parallel form");
    if (c.cuts != nullptr) {
      checkCuts(c.cuts, tp->group.size(), cutItems, "cuts");
      std::copy(c.cuts, c.cuts + tp->group.size() + 1, made->cuts.begin());
      require(!tp->invariant() || made->cuts == tp->split(cutItems, c.unit),
              "layout-invariant sums are cut at their leaves only: leave cuts NULL");
    }
    *linear = made.release();
  });
}

/// Shapes of the layer's operands.
void checkOperands(const tuttiLinear& l, int64_t tokens, const tuttiTensor_t* x, const tuttiTensor_t* w,
                   const tuttiTensor_t* y, const char* xName, const char* yName) {
  require(x != nullptr && w != nullptr && y != nullptr, xName, ", w or ", yName, " is NULL");
  l.tp->checkTokens(tokens);
  const int64_t here = l.tp->ownTokens(tokens), part = l.width();
  const int kind = kindOf(*l.tp->device);
  if (l.column) {
    checkMatrix(x, xName, here, l.inputs, x->dtype, kind);
    checkMatrix(w, "w", part, l.inputs, x->dtype, kind);
    checkMatrix(y, yName, tokens, l.whole ? l.outputs : part, x->dtype, kind);
  } else {
    checkMatrix(x, xName, tokens, l.whole ? l.inputs : part, x->dtype, kind);
    checkMatrix(w, "w", l.outputs, part, x->dtype, kind);
    checkMatrix(y, yName, here, l.outputs, x->dtype, kind);
  }
}

void checkBias(const tuttiLinear& l, const tuttiTensor_t* bias, const char* what, tuttiDataType_t dtype) {
  if (bias != nullptr) checkContiguous(bias, what, l.column ? l.width() : l.outputs, dtype, kindOf(*l.tp->device));
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiColumnLinearCreate(tuttiLinear_t* linear, tuttiTp_t tp, const tuttiLinearConfig_t* config) {
  return create(linear, tp, config, true);
}
tuttiResult_t tuttiRowLinearCreate(tuttiLinear_t* linear, tuttiTp_t tp, const tuttiLinearConfig_t* config) {
  return create(linear, tp, config, false);
}
tuttiResult_t tuttiLinearDestroy(tuttiLinear_t linear) {
  return guarded([&] { delete linear; });
}
tuttiResult_t tuttiLinearCuts(tuttiLinear_t linear, int64_t* cuts) {
  return guardedIf(linear != nullptr && cuts != nullptr, "linear or cuts is NULL",
                   [&] { std::copy(linear->cuts.begin(), linear->cuts.end(), cuts); });
}

tuttiResult_t tuttiLinearForward(tuttiLinear_t linear, int64_t tokens, const tuttiTensor_t* x, const tuttiTensor_t* w,
                                 const tuttiTensor_t* bias, const tuttiTensor_t* y) {
  return guardedIf(linear != nullptr, "linear is NULL", [&] {
    checkOperands(*linear, tokens, x, w, y, "x", "y");
    checkBias(*linear, bias, "bias", x->dtype);
    if (!linear->column) checkContiguous(y, "y", elementsOf(*y), x->dtype, kindOf(*linear->tp->device));
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      (linear->column ? columnForward<T> : rowForward<T>)(*linear, tokens, *x, *w, bias, *y);
    });
  });
}

tuttiResult_t tuttiLinearBackward(tuttiLinear_t linear, int64_t tokens, const tuttiTensor_t* x, const tuttiTensor_t* w,
                                  const tuttiTensor_t* dy, const tuttiTensor_t* dx, const tuttiTensor_t* dw,
                                  const tuttiTensor_t* dbias) {
  return guardedIf(linear != nullptr, "linear is NULL", [&] {
    checkOperands(*linear, tokens, x, w, dy, "x", "dy");
    const int kind = kindOf(*linear->tp->device);
    if (dx != nullptr) {
      checkMatrix(dx, "dx", x->shape[0], x->shape[1], x->dtype, kind);
      if (linear->column) checkContiguous(dx, "dx", elementsOf(*x), x->dtype, kind);
    }
    if (dw != nullptr) checkMatrix(dw, "dw", w->shape[0], w->shape[1], x->dtype, kind);
    checkBias(*linear, dbias, "dbias", x->dtype);
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      (linear->column ? columnBackward<T> : rowBackward<T>)(*linear, tokens, *x, *w, *dy, dx, dw, dbias);
    });
  });
}

tuttiResult_t tuttiLinearPredict(tuttiLinear_t linear, int64_t tokens, tuttiDataType_t dtype, int passes,
                                 tuttiTraffic_t* traffic) {
  return guarded([&] {
    require(linear != nullptr && traffic != nullptr && traffic->size == sizeof(tuttiTraffic_t),
            "linear is NULL, or traffic does not begin from TUTTI_TRAFFIC_INITIALIZER");
    const tuttiTp& tp = *linear->tp;
    const Group& g = tp.group;
    const size_t me = static_cast<size_t>(g.rank());
    const uint64_t one = bytesOf(dtype), rows = static_cast<uint64_t>(tokens);
    const std::vector<int64_t> runs = tp.leafRuns();
    const size_t parts = subtreesOf(runs.back(), {runs[me], runs[me + 1]}).size();
    const auto sum = [&](int64_t features) {
      const std::vector<int64_t> slices = tp.sequence() ? tp.split(tokens, 1) : evenCuts(tokens, 1, g.size());
      const uint64_t row = static_cast<uint64_t>(features) * one;
      predictSum(*traffic, g, rows * row, static_cast<uint64_t>(slices[me + 1] - slices[me]) * row, tp.invariant(),
                 parts, !tp.sequence(), tp.sender == nullptr ? 1 : static_cast<uint64_t>(tp.config.tiles));
    };
    const auto gather = [&](int64_t features) {
      predictGather(*traffic, g, rows * static_cast<uint64_t>(features) * one);
    };
    const bool forward = (passes & 1) != 0, backward = (passes & 2) != 0;
    if (linear->column) {
      if (forward && tp.sequence()) gather(linear->inputs);
      if (forward && linear->whole) gather(linear->outputs);
      if (backward) sum(linear->inputs);
      if (backward && tp.sequence()) gather(linear->inputs);  // x again, for the gradient of the weight
    } else {
      if (forward) sum(linear->outputs);
      for (int calls = 0; backward && tp.sequence() && calls <= (passes & 4) / 4; ++calls) gather(linear->outputs);
      if (backward && linear->whole) gather(linear->inputs);
    }
  });
}

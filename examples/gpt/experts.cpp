#include "examples/gpt/experts.hpp"

#include <algorithm>
#include <cmath>

#include "examples/gpt/call.hpp"

namespace gpt {
namespace {

template <class T>
constexpr tuttiDataType_t kExpertType = sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64;

template <class T>
tuttiTensor_t matrixOf(std::vector<T>& v, int64_t columns) {
  return tuttiMatrixOf(v.data(), kExpertType<T>, static_cast<int64_t>(v.size()) / columns, columns, columns);
}

template <class T>
void addBias(T* rows, int64_t n, int64_t width, const T* bias) {
  for (int64_t i = 0; i < n * width; ++i) rows[i] += bias[i % width];
}
template <class T>
void addColumns(const T* rows, int64_t n, int64_t width, T* sums) {
  for (int64_t i = 0; i < n * width; ++i) sums[i % width] += rows[i];
}

/// The softmax of each row in place.
template <class T>
void softmax(std::vector<T>& rows, int64_t width) {
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    const T most = *std::max_element(row, row + width);
    T sum = 0;
    for (auto x = row; x != row + width; ++x) sum += * x = std::exp(*x - most);
    for (auto x = row; x != row + width; ++x) *x /= sum;
  }
}

}  // namespace

template <class T>
Experts<T>::Experts(const Shape& shape, tuttiComm_t comm, bool invariant) : shape_(shape), comm_(comm) {
  if (comm != nullptr) {
    callComm(tuttiCommUserRank(comm, &rank_), comm);
    callComm(tuttiCommCount(comm, &nRanks_), comm);
  }
  std::vector<int64_t> owners(static_cast<size_t>(nRanks_) + 1);
  call(tuttiSplitEven(shape.experts, 1, nRanks_, nullptr, owners.data()));
  begin_ = owners[static_cast<size_t>(rank_)];
  end_ = owners[static_cast<size_t>(rank_) + 1];
  kernels_ = TUTTI_KERNELS_INITIALIZER;
  call(invariant ? tuttiKernelsInvariant(&kernels_) : tuttiKernelsFast(&kernels_));
}

template <class T>
void Experts<T>::matmul(bool transposeA, bool transposeB, bool accumulate, int64_t m, int64_t n, int64_t k, const T* a,
                        const T* b, T* c) const {
  const tuttiMatmul_t product = {kExpertType<T>,     transposeA,         transposeB, accumulate, m, n, k, a, b, c,
                                 transposeA ? m : k, transposeB ? k : n, n};
  call(kernels_.matmul(kernels_.context, &product));
}

/// Each token's most probable experts, the first of equals.
template <class T>
void Experts<T>::route(Routed<T>& r, int64_t tokens) {
  const int64_t n = shape_.experts, choices = shape_.choices;
  r.ids.clear();
  r.weights.clear();
  std::vector<int32_t> order(static_cast<size_t>(n));
  for (int64_t t = 0; t < tokens; ++t) {
    const T* p = r.probabilities.data() + t * n;
    for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int32_t>(e);
    std::stable_sort(order.begin(), order.end(), [p](int32_t a, int32_t b) { return p[a] > p[b]; });
    for (size_t c = 0; c < static_cast<size_t>(choices); ++c) {
      r.ids.push_back(order[c]);
      r.weights.push_back(p[order[c]]);
    }
  }
  if (r.ep == nullptr) {
    tuttiEpConfig_t config = TUTTI_EP_CONFIG_INITIALIZER;
    config.experts = static_cast<int>(n);
    config.choices = static_cast<int>(choices);
    tuttiEp_t made = nullptr;
    call(tuttiEpCreate(&made, comm_, &config));
    r.ep.reset(made);
  }
  const tuttiTensor_t ids = tuttiMatrixOf(r.ids.data(), tuttiInt32, tokens, choices, choices);
  int64_t received = 0;
  call(tuttiEpRoute(r.ep.get(), &ids, &received, nullptr));
  r.from.resize(static_cast<size_t>((end_ - begin_) * nRanks_) + 1);  // never empty, for a rank without experts
  call(tuttiEpRowsFrom(r.ep.get(), r.from.data()));
  r.rows.resize(static_cast<size_t>(received * shape_.width));
  for (const int back : {0, 1, 0, 1}) {
    tuttiTraffic_t one = TUTTI_TRAFFIC_INITIALIZER;
    call(tuttiEpTraffic(r.ep.get(), shape_.width, kExpertType<T>, back, nullptr, &one));
    addTraffic(expected_, one);
  }
}

template <class T>
template <class Product>
void Experts<T>::eachExpert(const Routed<T>& r, const Product& product) const {
  int64_t at = 0;
  for (int64_t e = 0; e < end_ - begin_; ++e) {
    int64_t rows = 0;
    for (int s = 0; s < nRanks_; ++s) rows += r.from[static_cast<size_t>(e * nRanks_ + s)];
    product(e, at, rows);
    at += rows;
  }
}

template <class T>
void Experts<T>::forward(Routed<T>& r, const std::vector<T>& x, const ExpertViews<T>& v, std::vector<T>& y) {
  const int64_t h = shape_.width, f = shape_.expertWidth(), tokens = static_cast<int64_t>(x.size()) / h;
  r.probabilities.resize(static_cast<size_t>(tokens * shape_.experts));
  matmul(false, true, false, tokens, shape_.experts, h, x.data(), v.router, r.probabilities.data());
  softmax(r.probabilities, shape_.experts);
  route(r, tokens);
  std::vector<T> in = x, out(r.rows.size());
  const tuttiTensor_t tx = matrixOf(in, h), rows = matrixOf(r.rows, h), results = matrixOf(out, h);
  call(tuttiEpDispatch(r.ep.get(), &tx, &rows));
  const int64_t received = static_cast<int64_t>(r.rows.size()) / h;
  r.up.resize(static_cast<size_t>(received * f));
  r.gelu.resize(r.up.size());
  eachExpert(r, [&](int64_t e, int64_t at, int64_t n) {
    matmul(false, true, false, n, f, h, r.rows.data() + at * h, v.up + e * f * h, r.up.data() + at * f);
    addBias(r.up.data() + at * f, n, f, v.upBias + e * f);
  });
  const tuttiTensor_t before = matrixOf(r.up, f), after = matrixOf(r.gelu, f);
  call(tuttiGelu(&before, &after));
  eachExpert(r, [&](int64_t e, int64_t at, int64_t n) {
    matmul(false, true, false, n, h, f, r.gelu.data() + at * f, v.down + e * h * f, out.data() + at * h);
    addBias(out.data() + at * h, n, h, v.downBias + e * h);
  });
  y.resize(x.size());
  r.kept.resize(r.weights.size() * static_cast<size_t>(h));
  const tuttiTensor_t weights = matrixOf(r.weights, shape_.choices), ty = matrixOf(y, h);
  call(tuttiEpCombine(r.ep.get(), &results, &weights, &ty, r.kept.data()));
}

template <class T>
void Experts<T>::backward(Routed<T>& r, const std::vector<T>& dy, const ExpertViews<T>& v, std::vector<T>& dx) {
  const int64_t h = shape_.width, f = shape_.expertWidth(), tokens = static_cast<int64_t>(dy.size()) / h;
  const int64_t n = shape_.experts, choices = shape_.choices;
  std::vector<T> dout = dy, dweights(r.weights.size()), drows(r.rows.size());
  r.dy.resize(r.rows.size());
  r.dup.resize(r.up.size());
  const tuttiTensor_t td = matrixOf(dout, h), weights = matrixOf(r.weights, choices);
  const tuttiTensor_t tdy = matrixOf(r.dy, h), tdw = matrixOf(dweights, choices);
  call(tuttiEpCombineBackward(r.ep.get(), &td, &weights, r.kept.data(), &tdy, &tdw));
  eachExpert(r, [&](int64_t e, int64_t at, int64_t rows) {
    matmul(false, false, false, rows, f, h, r.dy.data() + at * h, v.down + e * h * f, r.dup.data() + at * f);
  });
  const tuttiTensor_t before = matrixOf(r.up, f), slope = matrixOf(r.dup, f);
  call(tuttiGeluBackward(&before, &slope, &slope));
  eachExpert(r, [&](int64_t e, int64_t at, int64_t rows) {
    matmul(false, false, false, rows, h, f, r.dup.data() + at * f, v.up + e * f * h, drows.data() + at * h);
  });
  dx.resize(dy.size());
  const tuttiTensor_t tdrows = matrixOf(drows, h), tdx = matrixOf(dx, h);
  call(tuttiEpDispatchBackward(r.ep.get(), &tdrows, &tdx));
  r.dlogits.assign(r.probabilities.size(), 0);
  for (int64_t t = 0; t < tokens; ++t) {  // of a softmax of which some entries are read
    const T* p = r.probabilities.data() + t * n;
    T* d = r.dlogits.data() + t * n;
    T mean = 0;
    for (int64_t c = t * choices; c < (t + 1) * choices; ++c) {
      d[r.ids[static_cast<size_t>(c)]] = dweights[static_cast<size_t>(c)];
      mean += r.weights[static_cast<size_t>(c)] * dweights[static_cast<size_t>(c)];
    }
    for (int64_t e = 0; e < n; ++e) d[e] = p[e] * (d[e] - mean);
  }
  std::vector<T> through(dx.size());
  matmul(false, false, false, tokens, h, n, r.dlogits.data(), v.router, through.data());
  for (size_t i = 0; i < dx.size(); ++i) dx[i] += through[i];
}

template <class T>
void Experts<T>::addRouter(Routed<T>& r, const std::vector<T>& x, T* gradient) {
  const int64_t h = shape_.width, tokens = static_cast<int64_t>(x.size()) / h;
  matmul(true, false, true, shape_.experts, h, tokens, r.dlogits.data(), x.data(), gradient);
}

template <class T>
void Experts<T>::addExperts(Routed<T>& r, int source, const ExpertViews<T>& g) {
  const int64_t h = shape_.width, f = shape_.expertWidth();
  eachExpert(r, [&](int64_t e, int64_t at, int64_t rows) {
    int64_t first = at, n = rows;
    if (source >= 0) {
      for (int s = 0; s < source; ++s) first += r.from[static_cast<size_t>(e * nRanks_ + s)];
      n = r.from[static_cast<size_t>(e * nRanks_ + source)];
    }
    const T *dy = r.dy.data() + first * h, *dup = r.dup.data() + first * f;
    matmul(true, false, true, h, f, n, dy, r.gelu.data() + first * f, g.down + e * h * f);
    matmul(true, false, true, f, h, n, dup, r.rows.data() + first * h, g.up + e * f * h);
    addColumns(dy, n, h, g.downBias + e * h);
    addColumns(dup, n, f, g.upBias + e * f);
  });
}

template class Experts<float>;
template class Experts<double>;

}  // namespace gpt

// Attention over the heads of one rank: scores of one head at a time, by the table's matrix product.
#include <cmath>
#include <limits>
#include <vector>

#include "src/parallel/loops.hpp"
#include "src/parallel/tensor.hpp"

namespace tutti::parallel {
namespace {

struct Call {
  tuttiAttention_t shape;
  tuttiKernels_t kernels;
  tuttiDataType_t dtype;

  void multiply(bool ta, bool tb, bool accumulate, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda,
                const void* b, int64_t ldb, void* c, int64_t ldc) const {
    const tuttiMatmul_t call{dtype, ta, tb, accumulate, m, n, k, a, b, c, lda, ldb, ldc};
    const tuttiResult_t result = kernels.matmul(kernels.context, &call);
    if (result != tuttiSuccess)
      fail(result, "the matrix product of the kernel table failed: ", tuttiParallelGetLastError());
  }
  /// How many keys query i sees: the first ones.
  int64_t visible(int64_t i) const {
    if (!shape.causal) return shape.keys;
    const int64_t n = shape.queryStart + i - shape.keyStart + 1;
    return n < 0 ? 0 : n < shape.keys ? n : shape.keys;
  }
};

Call checkedCall(const tuttiAttention_t* theirs, const tuttiKernels_t* kernels, const tuttiTensor_t* q) {
  require(theirs != nullptr && q != nullptr, "shape or q is NULL");
  Call call{};
  call.shape = takeConfig<tuttiAttention_t>(theirs, TUTTI_ATTENTION_INITIALIZER, "attention");
  tuttiAttention_t& s = call.shape;
  require(s.batch >= 0 && s.queries >= 0 && s.keys >= 0 && s.headDim >= 1 && s.kvHeads >= 0, "attention over ", s.batch,
          " sequences of ", s.queries, " queries and ", s.keys, " keys, heads of ", s.headDim);
  require(s.heads >= 0 && (s.kvHeads > 0 ? s.heads % s.kvHeads == 0 : s.heads == 0), s.heads,
          " query heads are not a multiple of ", s.kvHeads, " key heads");
  if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<double>(s.headDim));
  call.dtype = q->dtype;
  call.kernels = TUTTI_KERNELS_INITIALIZER;
  if (kernels != nullptr) {
    call.kernels = takeConfig(kernels, call.kernels, "kernels");
  } else if (tuttiKernelsFast(&call.kernels) != tuttiSuccess) {
    fail(tuttiInternalError, tuttiParallelGetLastError());
  }
  require(call.kernels.matmul != nullptr, "the kernel table has no matmul");
  return call;
}

/// The elements of head h of sequence b.
template <class T>
T* headOf(const tuttiTensor_t& t, int64_t firstRow, int64_t h, int64_t headDim) {
  return matrixOf<T>(t).row(firstRow) + h * headDim;
}

/// Scores of one head become probabilities of the visible keys; returns nothing, writes lse.
template <class T>
void softmaxRows(const Call& call, T* scores, T* lse, int64_t lseStride) {
  const int64_t keys = call.shape.keys;
  for (int64_t i = 0; i < call.shape.queries; ++i) {
    T* row = scores + i * keys;
    const int64_t seen = call.visible(i);
    T most = -std::numeric_limits<T>::infinity(), sum = 0;
    for (int64_t j = 0; j < seen; ++j) most = std::max(most, row[j] *= static_cast<T>(call.shape.scale));
    for (int64_t j = 0; j < seen; ++j) sum += row[j] = std::exp(row[j] - most);
    for (int64_t j = 0; j < seen; ++j) row[j] /= sum;
    for (int64_t j = seen; j < keys; ++j) row[j] = 0;
    lse[i * lseStride] = seen == 0 ? most : most + std::log(sum);
  }
}

template <class T>
void forward(const Call& call, const tuttiTensor_t& q, const tuttiTensor_t& k, const tuttiTensor_t& v,
             const tuttiTensor_t& out, T* lse) {
  const tuttiAttention_t& s = call.shape;
  std::vector<T> scores(static_cast<size_t>(s.queries * s.keys));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h * s.kvHeads / s.heads;
      call.multiply(false, true, false, s.queries, s.keys, s.headDim, headOf<T>(q, b * s.queries, h, s.headDim),
                    q.strides[0], headOf<T>(k, b * s.keys, kv, s.headDim), k.strides[0], scores.data(), s.keys);
      softmaxRows(call, scores.data(), lse + b * s.queries * s.heads + h, s.heads);
      call.multiply(false, false, false, s.queries, s.headDim, s.keys, scores.data(), s.keys,
                    headOf<T>(v, b * s.keys, kv, s.headDim), v.strides[0], headOf<T>(out, b * s.queries, h, s.headDim),
                    out.strides[0]);
    }
  }
}

/// Probabilities again, and the gradient of the scores: scores' = p * (dout v - sum(dout * out)) * scale.
template <class T>
void scoreGradients(const Call& call, const T* lse, const T* out, int64_t outStride, const T* dout, int64_t doutStride,
                    T* p, T* ds) {
  const tuttiAttention_t& s = call.shape;
  for (int64_t i = 0; i < s.queries; ++i) {
    T dot = 0;
    for (int64_t d = 0; d < s.headDim; ++d) dot += dout[i * doutStride + d] * out[i * outStride + d];
    const int64_t seen = call.visible(i);
    T *row = p + i * s.keys, *gradient = ds + i * s.keys;
    for (int64_t j = 0; j < seen; ++j) {
      row[j] = std::exp(row[j] * static_cast<T>(s.scale) - lse[i * s.heads]);
      gradient[j] = row[j] * (gradient[j] - dot) * static_cast<T>(s.scale);
    }
    for (int64_t j = seen; j < s.keys; ++j) row[j] = gradient[j] = 0;
  }
}

struct Gradients {
  const tuttiTensor_t *q, *k, *v, *out, *dout, *dq, *dk, *dv;
};

template <class T>
void backward(const Call& call, const Gradients& t, const T* lse) {
  const tuttiAttention_t& s = call.shape;
  std::vector<T> p(static_cast<size_t>(s.queries * s.keys)), ds(p.size());
  const auto product = [&](auto&&... arguments) { call.multiply(arguments...); };
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h * s.kvHeads / s.heads, d = s.headDim, rowQ = b * s.queries, rowK = b * s.keys;
      const bool again = h > 0 && (h - 1) * s.kvHeads / s.heads == kv;  // another query head of the same group
      const T *q = headOf<T>(*t.q, rowQ, h, d), *k = headOf<T>(*t.k, rowK, kv, d), *v = headOf<T>(*t.v, rowK, kv, d);
      const T *out = headOf<T>(*t.out, rowQ, h, d), *dout = headOf<T>(*t.dout, rowQ, h, d);
      product(false, true, false, s.queries, s.keys, d, q, t.q->strides[0], k, t.k->strides[0], p.data(), s.keys);
      product(false, true, false, s.queries, s.keys, d, dout, t.dout->strides[0], v, t.v->strides[0], ds.data(),
              s.keys);
      scoreGradients(call, lse + rowQ * s.heads + h, out, t.out->strides[0], dout, t.dout->strides[0], p.data(),
                     ds.data());
      product(false, false, false, s.queries, d, s.keys, ds.data(), s.keys, k, t.k->strides[0],
              headOf<T>(*t.dq, rowQ, h, d), t.dq->strides[0]);
      product(true, false, again, s.keys, d, s.queries, ds.data(), s.keys, q, t.q->strides[0],
              headOf<T>(*t.dk, rowK, kv, d), t.dk->strides[0]);
      product(true, false, again, s.keys, d, s.queries, p.data(), s.keys, dout, t.dout->strides[0],
              headOf<T>(*t.dv, rowK, kv, d), t.dv->strides[0]);
    }
  }
}

void checkOperands(const Call& call, const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                   const tuttiTensor_t* out, const tuttiTensor_t* lse) {
  const tuttiAttention_t& s = call.shape;
  const int64_t wide = s.heads * s.headDim, narrow = s.kvHeads * s.headDim;
  checkMatrix(q, "q", s.batch * s.queries, wide, call.dtype);
  checkMatrix(k, "k", s.batch * s.keys, narrow, call.dtype);
  checkMatrix(v, "v", s.batch * s.keys, narrow, call.dtype);
  checkMatrix(out, "out", s.batch * s.queries, wide, call.dtype);
  checkContiguous(lse, "lse", s.batch * s.queries * s.heads, call.dtype);
}

}  // namespace
}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiAttentionForward(const tuttiAttention_t* shape, const tuttiKernels_t* kernels,
                                    const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                                    const tuttiTensor_t* out, const tuttiTensor_t* lse) {
  return guarded([&] {
    const Call call = checkedCall(shape, kernels, q);
    checkOperands(call, q, k, v, out, lse);
    withType(call.dtype, [&](auto zero) {
      forward<decltype(zero)>(call, *q, *k, *v, *out, static_cast<decltype(zero)*>(lse->data));
    });
  });
}

tuttiResult_t tuttiAttentionBackward(const tuttiAttention_t* shape, const tuttiKernels_t* kernels,
                                     const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                                     const tuttiTensor_t* out, const tuttiTensor_t* lse, const tuttiTensor_t* dout,
                                     const tuttiTensor_t* dq, const tuttiTensor_t* dk, const tuttiTensor_t* dv) {
  return guarded([&] {
    const Call call = checkedCall(shape, kernels, q);
    const tuttiAttention_t& s = call.shape;
    checkOperands(call, q, k, v, out, lse);
    checkMatrix(dout, "dout", s.batch * s.queries, s.heads * s.headDim, call.dtype);
    checkMatrix(dq, "dq", s.batch * s.queries, s.heads * s.headDim, call.dtype);
    checkMatrix(dk, "dk", s.batch * s.keys, s.kvHeads * s.headDim, call.dtype);
    checkMatrix(dv, "dv", s.batch * s.keys, s.kvHeads * s.headDim, call.dtype);
    withType(call.dtype, [&](auto zero) {
      backward<decltype(zero)>(call, {q, k, v, out, dout, dq, dk, dv}, static_cast<decltype(zero)*>(lse->data));
    });
  });
}

// Attention over the heads of one rank: scores of one head at a time, on CUDA of as many as have room, by the table's
// or the device's matrix product.
#include "src/parallel/attention.hpp"

#include <algorithm>
#include <cmath>

#include "src/parallel/tensor.hpp"

namespace tutti::parallel {

Products::Products(const Device& device, const tuttiKernels_t* kernels) {
  if (kernels != nullptr) {
    table_ = takeConfig(kernels, table_, "kernels");
    require(table_.matmul != nullptr, "the kernel table has no matmul");
  } else if (device.onHost() && tuttiKernelsFast(&table_) != tuttiSuccess) {
    fail(tuttiInternalError, tuttiParallelGetLastError());
  }
  if (device.onHost()) return;
  tuttiKernels_t own = TUTTI_KERNELS_INITIALIZER, fast = own;
  if (tuttiKernelsInvariant(&own) != tuttiSuccess || tuttiKernelsFast(&fast) != tuttiSuccess) {
    fail(tuttiInternalError, tuttiParallelGetLastError());
  }
  way_ = kernels == nullptr             ? Way::Fast
         : table_.matmul == own.matmul  ? Way::Own
         : table_.matmul == fast.matmul ? Way::Fast
                                        : Way::Table;
}

void Products::multiply(Device& device, const tuttiMatmul_t& call, const Batch& batch) const {
  if (way_ == Way::Table) return multiplyByTable(table_, call, batch);
  checkMatmul(&call);
  return way_ == Way::Own ? device.multiply(call, batch) : device.multiplyFast(call, batch);
}

namespace {

// On CUDA heads are computed together as far as their scores have room in that.
constexpr int64_t kScoreBytes = int64_t{256} << 20;

/// Some query heads of one sequence that have different key heads: heads first + i * group of q, firstKey + i of k.
struct Heads {
  int64_t sequence, first, firstKey, count;
  bool again;  // others of the same key heads have been before
};

/// body(heads) for all heads of all sequences.
template <class Body>
void eachHeads(const tuttiAttention_t& s, int64_t atOnce, const Body& body) {
  const int64_t group = s.kvHeads == 0 ? 0 : s.heads / s.kvHeads;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t kv = 0; kv < s.kvHeads; kv += atOnce) {
      for (int64_t j = 0; j < group; ++j) {
        body(Heads{b, kv * group + j, kv, std::min(atOnce, s.kvHeads - kv), j > 0});
      }
    }
  }
}

/// Arguments of one call, and where its scores lie.
template <class T>
struct Call {
  Device& device;
  const tuttiAttention_t& shape;
  const Products& products;
  int64_t group, atOnce;
  Array<T> own;
  T* scores;  // and, behind them, their gradient

  Call(Device& on, const tuttiAttention_t& s, const Products& p, bool gradient)
      : device(on), shape(s), products(p), group(s.kvHeads == 0 ? 1 : s.heads / s.kvHeads), atOnce(1) {
    const int64_t bytes = (gradient ? 2 : 1) * s.queries * s.keys * static_cast<int64_t>(sizeof(T));
    if (device.onHost()) {
      own = Array<T>(device, static_cast<size_t>(bytes) / sizeof(T), Array<T>::Any);
      scores = own.data();
    } else {
      atOnce = std::clamp<int64_t>(kScoreBytes / std::max<int64_t>(bytes, 1), 1, std::max<int64_t>(s.kvHeads, 1));
      scores = static_cast<T*>(device.scratch(static_cast<size_t>(std::max<int64_t>(atOnce * bytes, 1))));
    }
  }
  T* gradients() const { return scores + atOnce * shape.queries * shape.keys; }

  struct Operand {
    const T* data;
    int64_t stride, step;  // from row to row, from head to head
  };
  Operand ofScores(const T* data) const { return {data, shape.keys, shape.queries * shape.keys}; }
  Operand ofQuery(const tuttiTensor_t& t, const Heads& h) const {
    return {matrixOf<T>(t).row(h.sequence * shape.queries) + h.first * shape.headDim, t.strides[0],
            group * shape.headDim};
  }
  Operand ofKey(const tuttiTensor_t& t, const Heads& h) const {
    return {matrixOf<T>(t).row(h.sequence * shape.keys) + h.firstKey * shape.headDim, t.strides[0], shape.headDim};
  }
  void multiply(const Heads& h, bool ta, bool tb, bool accumulate, int64_t m, int64_t n, int64_t k, const Operand& a,
                const Operand& b, const Operand& c) const {
    const tuttiMatmul_t call{dtype(),  ta,       tb,      accumulate, m, n, k, a.data, b.data, const_cast<T*>(c.data),
                             a.stride, b.stride, c.stride};
    products.multiply(device, call, {h.count, a.step, b.step, c.step});
  }
  kernels::ScoresCall rows(const Heads& h, T* lse) const {
    const tuttiAttention_t& s = shape;
    kernels::ScoresCall call{};
    call.scores = scores;
    call.lse = lse + h.sequence * s.queries * s.heads + h.first;
    call.heads = h.count;
    call.queries = s.queries;
    call.keys = s.keys;
    call.headDim = s.headDim;
    call.lseRow = s.heads;
    call.lseHead = group;
    call.causal = s.causal;
    call.shift = s.queryStart - s.keyStart + 1;
    call.scale = s.scale;
    return call;
  }
  static tuttiDataType_t dtype() { return sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64; }
};

template <class T>
void forward(const Call<T>& call, const AttentionOperands& t) {
  const tuttiAttention_t& s = call.shape;
  eachHeads(s, call.atOnce, [&](const Heads& h) {
    const auto scores = call.ofScores(call.scores);
    call.multiply(h, false, true, false, s.queries, s.keys, s.headDim, call.ofQuery(*t.q, h), call.ofKey(*t.k, h),
                  scores);
    call.device.template softmax<T>(call.rows(h, static_cast<T*>(t.lse->data)));
    call.multiply(h, false, false, false, s.queries, s.headDim, s.keys, scores, call.ofKey(*t.v, h),
                  call.ofQuery(*t.out, h));
  });
}

template <class T>
void backward(const Call<T>& call, const AttentionOperands& t, const AttentionGradients& d) {
  const tuttiAttention_t& s = call.shape;
  eachHeads(s, call.atOnce, [&](const Heads& h) {
    const auto p = call.ofScores(call.scores), ds = call.ofScores(call.gradients());
    const auto q = call.ofQuery(*t.q, h), k = call.ofKey(*t.k, h), v = call.ofKey(*t.v, h);
    const auto out = call.ofQuery(*t.out, h), dout = call.ofQuery(*d.dout, h);
    call.multiply(h, false, true, false, s.queries, s.keys, s.headDim, q, k, p);
    call.multiply(h, false, true, false, s.queries, s.keys, s.headDim, dout, v, ds);
    kernels::ScoresCall rows = call.rows(h, static_cast<T*>(t.lse->data));
    rows.gradient = call.gradients();
    rows.out = out.data;
    rows.outRow = out.stride;
    rows.outHead = out.step;
    rows.dout = dout.data;
    rows.doutRow = dout.stride;
    rows.doutHead = dout.step;
    call.device.template scoreGradients<T>(rows);
    call.multiply(h, false, false, false, s.queries, s.headDim, s.keys, ds, k, call.ofQuery(*d.dq, h));
    call.multiply(h, true, false, h.again, s.keys, s.headDim, s.queries, ds, q, call.ofKey(*d.dk, h));
    call.multiply(h, true, false, h.again, s.keys, s.headDim, s.queries, p, dout, call.ofKey(*d.dv, h));
  });
}

tuttiAttention_t checkedShape(const tuttiAttention_t* theirs) {
  require(theirs != nullptr, "shape is NULL");
  tuttiAttention_t s = takeConfig<tuttiAttention_t>(theirs, TUTTI_ATTENTION_INITIALIZER, "attention");
  require(s.batch >= 0 && s.queries >= 0 && s.keys >= 0 && s.headDim >= 1 && s.kvHeads >= 0, "attention over ", s.batch,
          " sequences of ", s.queries, " queries and ", s.keys, " keys, heads of ", s.headDim);
  require(s.heads >= 0 && (s.kvHeads > 0 ? s.heads % s.kvHeads == 0 : s.heads == 0), s.heads,
          " query heads are not a multiple of ", s.kvHeads, " key heads");
  if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<double>(s.headDim));
  return s;
}

void checkOperands(const tuttiAttention_t& s, const AttentionOperands& t, int kind) {
  const int64_t wide = s.heads * s.headDim, narrow = s.kvHeads * s.headDim;
  require(t.q != nullptr, "q is NULL");
  checkMatrix(t.q, "q", s.batch * s.queries, wide, t.q->dtype, kind);
  checkMatrix(t.k, "k", s.batch * s.keys, narrow, t.q->dtype, kind);
  checkMatrix(t.v, "v", s.batch * s.keys, narrow, t.q->dtype, kind);
  checkMatrix(t.out, "out", s.batch * s.queries, wide, t.q->dtype, kind);
  checkContiguous(t.lse, "lse", s.batch * s.queries * s.heads, t.q->dtype, kind);
}

}  // namespace

void attentionForward(Device& device, const tuttiAttention_t* shape, const Products& products,
                      const AttentionOperands& t) {
  const tuttiAttention_t s = checkedShape(shape);
  checkOperands(s, t, device.kind());
  withType(t.q->dtype, [&](auto zero) { forward(Call<decltype(zero)>(device, s, products, false), t); });
}

void attentionBackward(Device& device, const tuttiAttention_t* shape, const Products& products,
                       const AttentionOperands& t, const AttentionGradients& d) {
  const tuttiAttention_t s = checkedShape(shape);
  checkOperands(s, t, device.kind());
  checkMatrix(d.dout, "dout", s.batch * s.queries, s.heads * s.headDim, t.q->dtype, device.kind());
  checkMatrix(d.dq, "dq", s.batch * s.queries, s.heads * s.headDim, t.q->dtype, device.kind());
  checkMatrix(d.dk, "dk", s.batch * s.keys, s.kvHeads * s.headDim, t.q->dtype, device.kind());
  checkMatrix(d.dv, "dv", s.batch * s.keys, s.kvHeads * s.headDim, t.q->dtype, device.kind());
  withType(t.q->dtype, [&](auto zero) { backward(Call<decltype(zero)>(device, s, products, true), t, d); });
}

}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiAttentionForward(const tuttiAttention_t* shape, const tuttiKernels_t* kernels,
                                    const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                                    const tuttiTensor_t* out, const tuttiTensor_t* lse) {
  return guarded([&] {
    const std::shared_ptr<Device> device = deviceOf(nullptr, q == nullptr ? TUTTI_DEVICE_HOST : q->device);
    attentionForward(*device, shape, Products(*device, kernels), {q, k, v, out, lse});
  });
}

tuttiResult_t tuttiAttentionBackward(const tuttiAttention_t* shape, const tuttiKernels_t* kernels,
                                     const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                                     const tuttiTensor_t* out, const tuttiTensor_t* lse, const tuttiTensor_t* dout,
                                     const tuttiTensor_t* dq, const tuttiTensor_t* dk, const tuttiTensor_t* dv) {
  return guarded([&] {
    const std::shared_ptr<Device> device = deviceOf(nullptr, q == nullptr ? TUTTI_DEVICE_HOST : q->device);
    attentionBackward(*device, shape, Products(*device, kernels), {q, k, v, out, lse}, {dout, dq, dk, dv});
  });
}

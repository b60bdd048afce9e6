// Attention over the heads of one rank in tiles of queries and keys, so that its memory is not a matrix of all scores:
// forward with the running maximum and sum of each query, backward from the logarithm of the sum (Dao et al.,
// "FlashAttention", 2022; Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021).  Tiles are of one head,
// on CUDA of as many as have room, by the table's or the device's matrix product.
#include "src/parallel/attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/parallel/launch.hpp"
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
  method_ = kernels == nullptr             ? Method::Fast
            : table_.matmul == own.matmul  ? Method::Own
            : table_.matmul == fast.matmul ? Method::Fast
                                           : Method::Table;
}

void Products::multiply(Device& device, const tuttiMatmul_t& call, const Batch& batch) const {
  if (method_ == Method::Table) return multiplyByTable(table_, call, batch);
  checkMatmul(&call);
  return method_ == Method::Own ? multiplyInvariant(device, call, batch) : multiplyFast(device, call, batch);
}

namespace {

// On CUDA heads are computed together as far as their scores have room in that.
constexpr int64_t kScoreBytes = int64_t{256} << 20;

// Scores of a tile: on the host they stay in a core's own cache, on CUDA they fill the device.
struct TileShape {
  int64_t queries, keys;
};
constexpr TileShape kHostTile = {128, 512}, kCudaTile = {1024, 1024};

TileShape tileOf(const tuttiAttention_t& s, bool onHost) {
  const TileShape usual = onHost ? kHostTile : kCudaTile;
  return {s.queryTile > 0 ? s.queryTile : usual.queries, s.keyTile > 0 ? s.keyTile : usual.keys};
}

/// Rows [first, first + count) of the queries or keys: those at positions of one tile, which ends before `end`.
struct Tile {
  int64_t first, count, end;
};

/// Tiles are cut at positions in the sequence, so that a row meets the same ones whichever rank has which part of it.
std::vector<Tile> tilesOf(int64_t start, int64_t count, int64_t size) {
  std::vector<Tile> tiles;
  for (int64_t at = 0; at < count;) {
    const int64_t inside = ((start + at) % size + size) % size, n = std::min(size - inside, count - at);
    tiles.push_back({at, n, start + at - inside + size});
    at += n;
  }
  return tiles;
}

/// Elements of a tile's scores (and of their gradients), and of the state of its rows.
int64_t scoresOf(const tuttiAttention_t& s, const TileShape& tile) {
  return std::min(tile.queries, s.queries) * std::min(tile.keys, s.keys);
}
int64_t workOf(const tuttiAttention_t& s, const TileShape& tile, bool gradient) {
  return gradient ? 2 * scoresOf(s, tile) : scoresOf(s, tile) + 2 * std::min(tile.queries, s.queries);
}
/// Heads of a sequence that are computed together.
int64_t headsAtOnce(const tuttiAttention_t& s, int64_t bytes, bool onHost) {
  if (onHost) return 1;
  return std::clamp<int64_t>(kScoreBytes / std::max<int64_t>(bytes, 1), 1, std::max<int64_t>(s.kvHeads, 1));
}

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

/// Arguments of one call, its tiles, and where their scores lie.
template <class T>
struct Call {
  Device& device;
  const tuttiAttention_t& shape;
  const Products& products;
  TileShape tile;
  std::vector<Tile> queryTiles, keyTiles;
  std::vector<size_t> firstQueries;  // per tile of keys, the first tile of queries that sees one
  int64_t group, atOnce;
  Array<T> own;
  T *scores, *behind;  // gradients of scores, or the state of rows

  Call(Device& on, const tuttiAttention_t& s, const Products& p, bool gradient)
      : device(on),
        shape(s),
        products(p),
        tile(tileOf(s, on.onHost())),
        queryTiles(tilesOf(s.queryStart, s.queries, tile.queries)),
        keyTiles(tilesOf(s.keyStart, s.keys, tile.keys)),
        group(s.kvHeads == 0 ? 1 : s.heads / s.kvHeads) {
    const size_t bytes = attentionBytes(s, sizeof(T), device.onHost(), gradient);
    atOnce = headsAtOnce(s, workOf(s, tile, gradient) * static_cast<int64_t>(sizeof(T)), device.onHost());
    if (device.onHost()) {
      own = Array<T>(device, bytes / sizeof(T), Array<T>::Any);
      scores = own.data();
    } else {
      scores = static_cast<T*>(orThrow(device.scratch(std::max<size_t>(bytes, 1))));
      heldByThread().change(static_cast<int64_t>(bytes));  // until the call returns
      heldByThread().change(-static_cast<int64_t>(bytes));
    }
    behind = scores + atOnce * scoresOf(s, tile);
    for (const Tile& keys : keyTiles) firstQueries.push_back(firstToSee(keys));
  }

  /// Whether a query at any position of its tile sees a key of the other: not what this rank's part of a tile sees, for
  /// a tile that is passed by and one that is added as zeros may differ in the sign of a zero.
  bool visible(const Tile& queries, const Tile& keys) const {
    return shape.causal == 0 || shape.keyStart + keys.first < queries.end;
  }
  /// Tiles of queries that see one of keys are the last ones.
  size_t firstToSee(const Tile& keys) const {
    size_t i = 0;
    while (i < queryTiles.size() && !visible(queryTiles[i], keys)) ++i;
    return i;
  }

  struct Operand {
    const T* data;
    int64_t stride, step;  // from row to row, from head to head
    Operand from(int64_t row) const { return {data + row * stride, stride, step}; }
  };
  Operand ofScores(const T* data, const Tile& queries, const Tile& keys) const {
    return {data, keys.count, queries.count * keys.count};
  }
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
  kernels::ScoresCall rows(const Heads& h, const Tile& queries, const tuttiTensor_t& lse, const Operand& out) const {
    const tuttiAttention_t& s = shape;
    kernels::ScoresCall call{};
    call.scores = scores;
    call.lse = static_cast<T*>(lse.data) + (h.sequence * s.queries + queries.first) * s.heads + h.first;
    call.heads = h.count;
    call.queries = queries.count;
    call.headDim = s.headDim;
    call.lseRow = s.heads;
    call.lseHead = group;
    call.out = const_cast<T*>(out.data);
    call.outRow = out.stride;
    call.outHead = out.step;
    call.causal = s.causal;
    call.scale = s.scale;
    return call;
  }
  void setKeys(kernels::ScoresCall& call, const Tile& queries, const Tile& keys) const {
    call.keys = keys.count;
    call.shift = shape.queryStart + queries.first - shape.keyStart - keys.first + 1;
  }
  /// Rows [first, first + count) of each sequence become 0.
  void clearRows(const tuttiTensor_t& t, int64_t perSequence, int64_t first, int64_t count) const {
    if (t.shape[1] == 0 || count == 0) return;
    if (t.strides[0] == t.shape[1]) {
      for (int64_t b = 0; b < shape.batch; ++b) {
        zeroBytes(device, matrixOf<T>(t).row(b * perSequence + first),
                  static_cast<size_t>(count * t.shape[1]) * sizeof(T));
      }
      return;
    }
    const Array<T> zeros(device, static_cast<size_t>(t.shape[1]));
    for (int64_t b = 0; b < shape.batch; ++b) {
      copyMatrix<T>(device, matrixOf<T>(t).row(b * perSequence + first), t.strides[0], zeros.data(), 0, count,
                    t.shape[1]);
    }
  }
  static tuttiDataType_t dtype() { return sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64; }
};

template <class T>
void forwardTile(const Call<T>& call, const AttentionOperands& t, const Heads& h, const Tile& queries) {
  const int64_t d = call.shape.headDim;
  const auto q = call.ofQuery(*t.q, h).from(queries.first), out = call.ofQuery(*t.out, h).from(queries.first);
  kernels::ScoresCall rows = call.rows(h, queries, *t.lse, out);
  rows.state = call.behind;
  rows.first = 1;
  for (const Tile& keys : call.keyTiles) {
    if (!call.visible(queries, keys)) break;
    const auto scores = call.ofScores(call.scores, queries, keys);
    const auto k = call.ofKey(*t.k, h).from(keys.first), v = call.ofKey(*t.v, h).from(keys.first);
    call.multiply(h, false, true, false, queries.count, keys.count, d, q, k, scores);
    call.setKeys(rows, queries, keys);
    launch<T, Kernel::SoftmaxTile>(call.device, rows);
    call.multiply(h, false, false, rows.first == 0, queries.count, d, keys.count, scores, v, out);
    rows.first = 0;
  }
  if (rows.first != 0) {  // no key is to be seen: the state says so, out is 0
    rows.keys = 0;
    launch<T, Kernel::SoftmaxTile>(call.device, rows);
  }
  launch<T, Kernel::FinishRows>(call.device, rows);
}

template <class T>
void backwardTiles(const Call<T>& call, const AttentionOperands& t, const AttentionGradients& g, const Heads& h,
                   size_t index) {
  const Tile& queries = call.queryTiles[index];
  const int64_t d = call.shape.headDim;
  const auto q = call.ofQuery(*t.q, h).from(queries.first), out = call.ofQuery(*t.out, h).from(queries.first);
  const auto dout = call.ofQuery(*g.dout, h).from(queries.first), dq = call.ofQuery(*g.dq, h).from(queries.first);
  kernels::ScoresCall rows = call.rows(h, queries, *t.lse, out);
  rows.gradient = call.behind;
  rows.dout = dout.data;
  rows.doutRow = dout.stride;
  rows.doutHead = dout.step;
  for (size_t j = 0; j < call.keyTiles.size() && call.visible(queries, call.keyTiles[j]); ++j) {
    const Tile& keys = call.keyTiles[j];
    const auto p = call.ofScores(call.scores, queries, keys), ds = call.ofScores(call.behind, queries, keys);
    const auto k = call.ofKey(*t.k, h).from(keys.first), v = call.ofKey(*t.v, h).from(keys.first);
    const bool again = h.again || index > call.firstQueries[j];
    call.multiply(h, false, true, false, queries.count, keys.count, d, q, k, p);
    call.multiply(h, false, true, false, queries.count, keys.count, d, dout, v, ds);
    call.setKeys(rows, queries, keys);
    launch<T, Kernel::ScoreGradients>(call.device, rows);
    call.multiply(h, false, false, j > 0, queries.count, d, keys.count, ds, k, dq);
    call.multiply(h, true, false, again, keys.count, d, queries.count, ds, q, call.ofKey(*g.dk, h).from(keys.first));
    call.multiply(h, true, false, again, keys.count, d, queries.count, p, dout, call.ofKey(*g.dv, h).from(keys.first));
  }
}

template <class T>
void forward(const Call<T>& call, const AttentionOperands& t) {
  eachHeads(call.shape, call.atOnce, [&](const Heads& h) {
    for (const Tile& queries : call.queryTiles) forwardTile(call, t, h, queries);
  });
}

template <class T>
void backward(const Call<T>& call, const AttentionOperands& t, const AttentionGradients& d) {
  const tuttiAttention_t& s = call.shape;
  for (const Tile& queries : call.queryTiles) {
    if (call.keyTiles.empty() || !call.visible(queries, call.keyTiles[0])) {
      call.clearRows(*d.dq, s.queries, queries.first, queries.count);
    }
  }
  for (size_t j = 0; j < call.keyTiles.size(); ++j) {
    const Tile& keys = call.keyTiles[j];
    if (call.firstQueries[j] < call.queryTiles.size()) continue;
    call.clearRows(*d.dk, s.keys, keys.first, keys.count);
    call.clearRows(*d.dv, s.keys, keys.first, keys.count);
  }
  eachHeads(s, call.atOnce, [&](const Heads& h) {
    for (size_t i = 0; i < call.queryTiles.size(); ++i) backwardTiles(call, t, d, h, i);
  });
}

tuttiAttention_t checkedShape(const tuttiAttention_t* theirs) {
  require(theirs != nullptr, "shape is NULL");
  tuttiAttention_t s = takeConfig<tuttiAttention_t>(theirs, TUTTI_ATTENTION_INITIALIZER, "attention");
  require(s.batch >= 0 && s.queries >= 0 && s.keys >= 0 && s.headDim >= 1 && s.kvHeads >= 0, "attention over ", s.batch,
          " sequences of ", s.queries, " queries and ", s.keys, " keys, heads of ", s.headDim);
  require(s.heads >= 0 && (s.kvHeads > 0 ? s.heads % s.kvHeads == 0 : s.heads == 0), s.heads,
          " query heads are not a multiple of ", s.kvHeads, " key heads");
  require(s.queryTile >= 0 && s.keyTile >= 0, "tiles of ", s.queryTile, " queries and ", s.keyTile, " keys");
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

size_t attentionBytes(const tuttiAttention_t& s, size_t one, bool onHost, bool gradient) {
  const int64_t bytes = workOf(s, tileOf(s, onHost), gradient) * static_cast<int64_t>(one);
  return static_cast<size_t>(headsAtOnce(s, bytes, onHost) * bytes);
}

void attentionForward(Device& device, const tuttiAttention_t* shape, const Products& products,
                      const AttentionOperands& t) {
  const tuttiAttention_t s = checkedShape(shape);
  checkOperands(s, t, kindOf(device));
  withType(t.q->dtype, [&](auto zero) { forward(Call<decltype(zero)>(device, s, products, false), t); });
}

void attentionBackward(Device& device, const tuttiAttention_t* shape, const Products& products,
                       const AttentionOperands& t, const AttentionGradients& d) {
  const tuttiAttention_t s = checkedShape(shape);
  checkOperands(s, t, kindOf(device));
  checkMatrix(d.dout, "dout", s.batch * s.queries, s.heads * s.headDim, t.q->dtype, kindOf(device));
  checkMatrix(d.dq, "dq", s.batch * s.queries, s.heads * s.headDim, t.q->dtype, kindOf(device));
  checkMatrix(d.dk, "dk", s.batch * s.keys, s.kvHeads * s.headDim, t.q->dtype, kindOf(device));
  checkMatrix(d.dv, "dv", s.batch * s.keys, s.kvHeads * s.headDim, t.q->dtype, kindOf(device));
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

tuttiResult_t tuttiAttentionMemory(const tuttiAttention_t* shape, tuttiDataType_t dtype, int64_t device, int backward,
                                   size_t* bytes) {
  return guardedIf(bytes != nullptr, "bytes is NULL", [&] {
    checkComputed(dtype, "attention");
    const bool onHost = kindOf(device) == TUTTI_DEVICE_HOST;
    *bytes = attentionBytes(checkedShape(shape), bytesOf(dtype), onHost, backward != 0);
  });
}

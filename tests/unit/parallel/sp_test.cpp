// Attention over sequences whose tokens lie on different ranks, beside attention on one rank.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/sp.h"

using namespace tutti::test;

namespace {

constexpr int64_t kBatch = 2, kPositions = 13, kQueryHeads = 6, kKvHeads = 3, kDim = 4;

template <class T>
struct WholeAttention {
  std::vector<T> q = numbers<T>(kBatch * kPositions * kQueryHeads * kDim, 1),
                 k = numbers<T>(kBatch * kPositions * kKvHeads * kDim, 2);
  std::vector<T> v = numbers<T>(k.size(), 3), dout = numbers<T>(q.size(), 4);
  std::vector<T> out = std::vector<T>(q.size()), dq = out, dk = std::vector<T>(k.size()), dv = dk;
};

/// On one rank, without the layer.
template <class T>
WholeAttention<T> reference(bool causal, const tuttiKernels_t* kernels, int64_t queryTile = 0, int64_t keyTile = 0) {
  WholeAttention<T> w;
  std::vector<T> lse(kBatch * kPositions * kQueryHeads);
  tuttiAttention_t s = TUTTI_ATTENTION_INITIALIZER;
  s.batch = kBatch, s.queries = s.keys = kPositions, s.heads = kQueryHeads, s.kvHeads = kKvHeads, s.headDim = kDim;
  s.causal = causal;
  s.queryTile = queryTile, s.keyTile = keyTile;
  const int64_t rows = kBatch * kPositions;
  const auto wide = [&](std::vector<T>& x) { return matrix(x, rows, kQueryHeads * kDim); };
  const auto narrow = [&](std::vector<T>& x) { return matrix(x, rows, kKvHeads * kDim); };
  const tuttiTensor_t q = wide(w.q), k = narrow(w.k), v = narrow(w.v), out = wide(w.out), l = vector(lse);
  const tuttiTensor_t dout = wide(w.dout), dq = wide(w.dq), dk = narrow(w.dk), dv = narrow(w.dv);
  REQUIRE(tuttiAttentionForward(&s, kernels, &q, &k, &v, &out, &l) == tuttiSuccess);
  REQUIRE(tuttiAttentionBackward(&s, kernels, &q, &k, &v, &out, &l, &dout, &dq, &dk, &dv) == tuttiSuccess);
  return w;
}

/// Rows of this rank's tokens.
template <class T>
std::vector<T> rowsAt(const std::vector<T>& whole, const std::vector<int64_t>& positions) {
  const size_t columns = whole.size() / (kBatch * kPositions);
  std::vector<T> mine;
  for (size_t b = 0; b < kBatch; ++b) {
    for (const int64_t p : positions) {
      const T* row = whole.data() + (b * kPositions + static_cast<size_t>(p)) * columns;
      mine.insert(mine.end(), row, row + columns);
    }
  }
  return mine;
}

struct Spread {
  int ulysses, ring, tokens;
  bool gather, causal, overlap;
  int64_t queryTile = 0, keyTile = 0;
  int leaves = 0;
};

template <class T>
std::string run(const Spread& spread, const Rank& r, const WholeAttention<T>& all, const tuttiKernels_t* kernels,
                double allowed, bool keysElsewhere = false) {
  tuttiComm_t ulysses = nullptr, ring = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, r.rank / spread.ulysses, r.rank, &ulysses, nullptr));
  RANK_TRY(tuttiCommSplit(r.comm, r.rank % spread.ulysses, r.rank, &ring, nullptr));
  tuttiSpConfig_t c = TUTTI_SP_CONFIG_INITIALIZER;
  c.sequence = kPositions, c.batch = kBatch, c.heads = kQueryHeads, c.kvHeads = kKvHeads, c.headDim = kDim;
  c.causal = spread.causal;
  c.tokens = spread.tokens;
  c.gather = spread.gather;
  c.overlap = spread.overlap;
  c.kernels = kernels;
  c.queryTile = spread.queryTile, c.keyTile = spread.keyTile;
  c.leaves = spread.leaves;
  tuttiSp_t sp = nullptr;
  LAYER_TRY(tuttiSpCreate(&sp, spread.ulysses > 1 ? ulysses : nullptr, spread.ring > 1 ? ring : nullptr, &c));
  int64_t count = 0;
  LAYER_TRY(tuttiSpTokens(sp, &count, nullptr));
  std::vector<int64_t> positions(static_cast<size_t>(count));
  LAYER_TRY(tuttiSpTokens(sp, &count, positions.data()));
  size_t savedCount = 0;
  LAYER_TRY(tuttiSpSaved(sp, &savedCount));
  std::vector<T> q = rowsAt(all.q, positions), k = rowsAt(all.k, positions), v = rowsAt(all.v, positions);
  std::vector<T> dout = rowsAt(all.dout, positions), saved(savedCount), out(q.size()), dq(q.size()), dk(k.size()),
                 dv(k.size());
  const tuttiTensor_t tq = vector(q), tk = vector(k), tv = vector(v), to = vector(out), td = vector(dout);
  const tuttiTensor_t tdq = vector(dq), tdk = vector(dk), tdv = vector(dv);
  LAYER_TRY(tuttiSpForward(sp, &tq, &tk, &tv, &to, saved.data()));
  LAYER_TRY(tuttiSpBackward(sp, saved.data(), &td, &tdq, &tdk, &tdv));
  RANK_CHECK(apart(out, rowsAt(all.out, positions)) <= allowed);
  RANK_CHECK(apart(dq, rowsAt(all.dq, positions)) <= allowed);
  const double allowedOfKeys = keysElsewhere ? 1e-5 : allowed;
  RANK_CHECK(apart(dk, rowsAt(all.dk, positions)) <= allowedOfKeys);
  RANK_CHECK(apart(dv, rowsAt(all.dv, positions)) <= allowedOfKeys);
  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = TUTTI_TRAFFIC_INITIALIZER;
  LAYER_TRY(tuttiSpTraffic(sp, dtypeFor<T>(), &counted, &expected));
  RANK_CHECK(sameTraffic(counted, expected));
  size_t held = 0, formula = 0;
  LAYER_TRY(tuttiSpMemory(sp, dtypeFor<T>(), &held, &formula));
  RANK_CHECK(held == formula && held > 0);
  LAYER_TRY(tuttiSpDestroy(sp));
  RANK_TRY(tuttiCommDestroy(ulysses));
  RANK_TRY(tuttiCommDestroy(ring));
  return "";
}

}  // namespace

TEST_CASE(
    "Ulysses, rings of every kind, gathered keys and 2-D give what one rank gives, and move the formula's bytes") {
  const int contiguous = tuttiTokensContiguous, zigzag = tuttiTokensZigzag, striped = tuttiTokensStriped;
  for (const bool causal : {true, false}) {
    const WholeAttention<double> all = reference<double>(causal, nullptr);
    for (const Spread& spread : {Spread{1, 2, contiguous, false, causal, true},
                                 {1, 3, contiguous, false, causal, false},
                                 {1, 3, zigzag, false, causal, true},
                                 {1, 4, striped, false, causal, true},
                                 {1, 3, contiguous, true, causal, true},
                                 {2, 1, contiguous, false, causal, true},
                                 {4, 1, contiguous, false, causal, true},
                                 {2, 2, zigzag, false, causal, true},
                                 {1, 3, zigzag, false, causal, true, 2, 3},
                                 {1, 4, striped, false, causal, true, 3, 2},
                                 {2, 2, contiguous, true, causal, false}}) {
      CAPTURE(spread.ulysses, spread.ring, spread.tokens, spread.gather, causal);
      CHECK(onRanks(spread.ulysses * spread.ring,
                    [&](const Rank& r) { return run<double>(spread, r, all, nullptr, 1e-12); }) == "");
    }
  }
}

TEST_CASE("Ulysses has one rank's bits with invariant products") {
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  REQUIRE(tuttiKernelsInvariant(&kernels) == tuttiSuccess);
  const WholeAttention<float> all = reference<float>(true, &kernels);
  for (const int n : {2, 3}) {
    const Spread spread{n, 1, tuttiTokensContiguous, false, true, true};
    CHECK(onRanks(n, [&](const Rank& r) { return run<float>(spread, r, all, &kernels, 0); }) == "");
  }
}

TEST_CASE("tiles of scores: the same values whatever their size, and with leaves the same bits wherever tokens lie") {
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  REQUIRE(tuttiKernelsInvariant(&kernels) == tuttiSuccess);
  const int contiguous = tuttiTokensContiguous;
  for (const bool causal : {true, false}) {
    const WholeAttention<double> whole = reference<double>(causal, nullptr);
    for (const auto& [queryTile, keyTile] : {std::pair{1, 1}, {2, 5}, {5, 2}, {100, 4}}) {
      const WholeAttention<double> tiled = reference<double>(causal, nullptr, queryTile, keyTile);
      CAPTURE(causal, queryTile, keyTile);
      CHECK(apart(tiled.out, whole.out) < 1e-12);
      CHECK(apart(tiled.dq, whole.dq) < 1e-12);
      CHECK(apart(tiled.dk, whole.dk) < 1e-12);
      CHECK(apart(tiled.dv, whole.dv) < 1e-12);
    }
    // Ranks cut tokens at many places; tiles are cut elsewhere.  Gradients of queries are those of the whole call,
    // too; those of keys are sums over leaves, which another case compares among layouts.
    const WholeAttention<float> bits = reference<float>(causal, &kernels, 3, 2);
    const WholeAttention<float> other = reference<float>(causal, &kernels, 3, 5);
    CHECK(apart(other.out, bits.out) > 0);  // what follows would not hold for any tiles
    for (const Spread& spread : {Spread{1, 2, contiguous, false, causal, true, 3, 2, 2},
                                 {1, 3, contiguous, false, causal, true, 3, 2, 3},
                                 {2, 2, contiguous, false, causal, true, 3, 2, 2},
                                 {3, 1, contiguous, false, causal, true, 3, 2, 2},
                                 {1, 3, contiguous, false, causal, true, 3, 2, 10},
                                 {1, 5, contiguous, false, causal, true, 3, 2, 3},  // two ranks have no tokens
                                 {5, 1, contiguous, false, causal, true, 3, 2, 7},
                                 {3, 2, contiguous, false, causal, true, 3, 2, 8},
                                 {1, 3, contiguous, false, causal, true, 3, 2, 24}}) {  // more leaves than tokens
      CAPTURE(spread.ulysses, spread.ring, spread.leaves, causal);
      CHECK(onRanks(spread.ulysses * spread.ring,
                    [&](const Rank& r) { return run<float>(spread, r, bits, &kernels, 0, true); }) == "");
    }
  }
}

TEST_CASE("attention's memory does not grow with the square of tokens") {
  tuttiAttention_t s = TUTTI_ATTENTION_INITIALIZER;
  s.batch = 1, s.heads = 16, s.kvHeads = 8, s.headDim = 64;
  const auto memory = [&](int64_t tokens, int64_t device, bool backward) {
    s.queries = s.keys = tokens;
    size_t bytes = 0;
    REQUIRE(tuttiAttentionMemory(&s, tuttiFloat32, device, backward, &bytes) == tuttiSuccess);
    return bytes;
  };
  CHECK(memory(100, TUTTI_DEVICE_HOST, false) == 4 * 100 * (100 + 2));
  CHECK(memory(100, TUTTI_DEVICE_HOST, true) == 2 * 4 * 100 * 100);
  for (const int64_t tokens : {1024, 1 << 20}) {
    CHECK(memory(tokens, TUTTI_DEVICE_HOST, false) == 4 * 128 * (512 + 2));
    CHECK(memory(tokens, TUTTI_DEVICE_HOST, true) == 2 * 4 * 128 * 512);
    CHECK(memory(tokens, TUTTI_DEVICE_CUDA, true) == 8 * 2 * 4 * 1024 * 1024);  // eight heads of keys at once
  }
  s.headDim = 65536, s.kvHeads = 16, s.queryTile = 2048;
  CHECK(memory(1 << 20, TUTTI_DEVICE_CUDA, true) == size_t{256} << 20);
  s.keyTile = -1;
  size_t bytes = 0;
  CHECK(tuttiAttentionMemory(&s, tuttiFloat32, TUTTI_DEVICE_HOST, 0, &bytes) == tuttiInvalidArgument);
  CHECK(tuttiAttentionMemory(&s, tuttiInt8, TUTTI_DEVICE_HOST, 0, &bytes) == tuttiInvalidArgument);
}

TEST_CASE("zigzag and stripes balance a causal ring") {
  for (const auto& [tokens, low, high] : {std::tuple{int{tuttiTokensContiguous}, 0.53, 0.54},
                                          {int{tuttiTokensZigzag}, 0.99, 1.01},
                                          {int{tuttiTokensStriped}, 0.98, 1.01}}) {
    CHECK(onRanks(8, [&, tokens = tokens, low = low, high = high](const Rank& r) -> std::string {
            tuttiSpConfig_t c = TUTTI_SP_CONFIG_INITIALIZER;
            c.sequence = 8192, c.heads = c.kvHeads = 1, c.headDim = 1;
            c.tokens = tokens;
            tuttiSp_t sp = nullptr;
            LAYER_TRY(tuttiSpCreate(&sp, nullptr, r.comm, &c));
            double balance = 0;
            LAYER_TRY(tuttiSpBalance(sp, &balance));
            RANK_CHECK(balance > low && balance < high);  // contiguous: n / (2n - 1) = 0.533
            LAYER_TRY(tuttiSpDestroy(sp));
            return "";
          }) == "");
  }
  tuttiSp_t sp = nullptr;
  tuttiSpConfig_t c = TUTTI_SP_CONFIG_INITIALIZER;
  c.sequence = 4, c.heads = 3, c.kvHeads = 2, c.headDim = 1;
  CHECK(tuttiSpCreate(&sp, nullptr, nullptr, &c) == tuttiInvalidArgument);
  c.kvHeads = 3, c.gather = 1, c.tokens = tuttiTokensZigzag;
  CHECK(tuttiSpCreate(&sp, nullptr, nullptr, &c) == tuttiInvalidArgument);
}

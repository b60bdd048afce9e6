// Attention on CUDA memory, on one rank and over ranks that have other tokens, beside the host.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/sp.h"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int64_t kCudaBatch = 2, kCudaSequence = 13, kCudaHeads = 6, kCudaKvHeads = 3, kCudaDim = 5;

enum class Table { None, Own, Caller };

void takeAll(Place& place, std::initializer_list<tuttiTensor_t> tensors, Results* results) {
  for (const tuttiTensor_t& t : tensors) {
    const std::vector<float> part = place.read(t);
    results->insert(results->end(), part.begin(), part.end());
  }
}

/// The caller's own table: what it is called with is counted, and computed by the same call on the place.
struct Counted {
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  int calls = 0;
  Counted() {
    kernels.context = this;
    kernels.matmul = [](void* self, const tuttiMatmul_t*) {
      ++static_cast<Counted*>(self)->calls;
      return tuttiSuccess;
    };
  }
};

std::string runAttention(bool causal, bool own, int64_t tile, Place& place, Results* results) {
  tuttiAttention_t s = TUTTI_ATTENTION_INITIALIZER;
  s.batch = kCudaBatch, s.queries = 7, s.keys = 9, s.heads = kCudaHeads, s.kvHeads = kCudaKvHeads, s.headDim = kCudaDim;
  s.causal = causal, s.queryStart = 1, s.keyStart = 3;  // the first two queries see nothing
  s.queryTile = s.keyTile = tile;
  const int64_t rows = s.batch * s.queries, keyRows = s.batch * s.keys, wide = s.heads * s.headDim;
  const int64_t narrow = s.kvHeads * s.headDim;
  const tuttiTensor_t q = held(place, rows, wide, 1), k = held(place, keyRows, narrow, 2);
  const tuttiTensor_t v = held(place, keyRows, narrow, 3), out = held(place, rows, wide, 0),
                      dq = held(place, rows, wide, 0);
  const tuttiTensor_t dout = held(place, rows, wide, 4), dk = held(place, keyRows, narrow, 0),
                      dv = held(place, keyRows, narrow, 0);
  const tuttiTensor_t lse = place.hold(Results(static_cast<size_t>(rows * s.heads)));
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  LAYER_TRY((own ? tuttiKernelsInvariant : tuttiKernelsFast)(&kernels));
  LAYER_TRY(tuttiAttentionForward(&s, &kernels, &q, &k, &v, &out, &lse));
  LAYER_TRY(tuttiAttentionBackward(&s, &kernels, &q, &k, &v, &out, &lse, &dout, &dq, &dk, &dv));
  takeAll(place, {out, dq, dk, dv}, results);
  for (const float x : place.read(lse)) results->push_back(std::isinf(x) ? -77 : x);
  Counted table;
  s.queryTile = s.keyTile = 0;
  LAYER_TRY(tuttiAttentionForward(&s, &table.kernels, &q, &k, &v, &out, &lse));
  RANK_CHECK(table.calls == 2 * kCudaBatch * kCudaHeads);
  return "";
}

/// Rows of some tokens of a matrix of numbers.
tuttiTensor_t heldTokens(Place& place, int64_t columns, uint64_t seed, const std::vector<int64_t>& positions) {
  const Results whole = numbers<float>(static_cast<size_t>(kCudaBatch * kCudaSequence * columns), seed);
  Results mine;
  for (int64_t b = 0; b < kCudaBatch; ++b) {
    for (const int64_t p : positions) {
      const float* row = whole.data() + (b * kCudaSequence + p) * columns;
      mine.insert(mine.end(), row, row + columns);
    }
  }
  tuttiTensor_t t = held(place, kCudaBatch * static_cast<int64_t>(positions.size()), columns, 0);
  t.data = place.hold(mine).data;
  return t;
}

struct SequenceWay {
  int ulysses, ring, tokens;
  bool gather, overlap;
  int leaves;
};

/// Forward and backward of this rank's tokens.
std::string runSequence(const SequenceWay& way, const Rank& r, Place& place, Results* results) {
  tuttiComm_t ulysses = nullptr, ring = nullptr;
  if (way.ulysses > 1) RANK_TRY(tuttiCommSplit(r.comm, r.rank / way.ulysses, r.rank, &ulysses, nullptr));
  if (way.ring > 1) RANK_TRY(tuttiCommSplit(r.comm, r.rank % way.ulysses, r.rank, &ring, nullptr));
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  LAYER_TRY((way.leaves > 0 ? tuttiKernelsInvariant : tuttiKernelsFast)(&kernels));
  tuttiSpConfig_t c = TUTTI_SP_CONFIG_INITIALIZER;
  c.sequence = kCudaSequence, c.batch = kCudaBatch, c.heads = kCudaHeads, c.kvHeads = kCudaKvHeads;
  c.headDim = kCudaDim, c.tokens = way.tokens, c.gather = way.gather, c.overlap = way.overlap, c.leaves = way.leaves;
  c.kernels = &kernels;
  c.device = place.onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
  tuttiSp_t sp = nullptr;
  LAYER_TRY(tuttiSpCreate(&sp, ulysses, ring, &c));
  int64_t count = 0;
  LAYER_TRY(tuttiSpTokens(sp, &count, nullptr));
  std::vector<int64_t> positions(static_cast<size_t>(count));
  LAYER_TRY(tuttiSpTokens(sp, &count, positions.data()));
  size_t savedCount = 0;
  LAYER_TRY(tuttiSpSaved(sp, &savedCount));
  const int64_t wide = kCudaHeads * kCudaDim, narrow = kCudaKvHeads * kCudaDim;
  const tuttiTensor_t q = heldTokens(place, wide, 1, positions), k = heldTokens(place, narrow, 2, positions);
  const tuttiTensor_t v = heldTokens(place, narrow, 3, positions), dout = heldTokens(place, wide, 4, positions);
  const tuttiTensor_t out = held(place, q.shape[0], wide, 0), dq = held(place, q.shape[0], wide, 0);
  const tuttiTensor_t dk = held(place, q.shape[0], narrow, 0), dv = held(place, q.shape[0], narrow, 0);
  void* saved = place.hold(Results(savedCount)).data;
  for (int pass = 0; pass < 2; ++pass) {  // the second through memory that the first has used
    LAYER_TRY(tuttiSpForward(sp, &q, &k, &v, &out, saved));
    LAYER_TRY(tuttiSpBackward(sp, saved, &dout, &dq, &dk, &dv));
  }
  takeAll(place, {out, dq, dk, dv}, results);
  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = counted;
  LAYER_TRY(tuttiSpTraffic(sp, tuttiFloat32, &counted, &expected));
  for (int call = 0; call < tuttiNumCalls; ++call) RANK_CHECK(counted.bytes[call] == 2 * expected.bytes[call]);
  size_t heldBytes = 0, formula = 0;
  LAYER_TRY(tuttiSpMemory(sp, tuttiFloat32, &heldBytes, &formula));
  RANK_CHECK(heldBytes == formula);
  LAYER_TRY(tuttiSpDestroy(sp));
  if (ulysses != nullptr) RANK_TRY(tuttiCommDestroy(ulysses));
  if (ring != nullptr) RANK_TRY(tuttiCommDestroy(ring));
  return "";
}

}  // namespace

TEST_CASE("attention on CUDA is that of the host") {
  resetDriver("devices=1;delay=20");
  for (const bool causal : {true, false}) {
    for (const auto& [own, tile] : {std::pair{true, 0}, {true, 4}, {false, 0}, {false, 4}}) {
      CAPTURE(causal, own, tile);
      std::vector<Results> host, device;
      const Pass pass = [&, exact = own, size = tile](const Rank&, Place& place, Results* results) {
        return runAttention(causal, exact, size, place, results);
      };
      CHECK(runPass(1, 0, pass, &host) == "");
      CHECK(runPass(1, 1, pass, &device) == "");
      CHECK(apart(device[0], host[0]) < 2e-6);
      if (own && onFakeDriver()) CHECK(device[0] == host[0]);
    }
  }
  CHECK(driverComplaints() == "");
}

TEST_CASE("attention over ranks with other tokens on CUDA devices is that of the host") {
  const Variable driver = eachDriver("devices=2;delay=30");
  const int devices = hasDevices(2) ? 2 : 1;
  std::vector<Results> alone;
  const auto passOf = [](const SequenceWay& way) -> Pass {
    return [way](const Rank& r, Place& place, Results* results) { return runSequence(way, r, place, results); };
  };
  for (const SequenceWay& way :
       {SequenceWay{3, 1, tuttiTokensContiguous, false, true, 0},
        SequenceWay{1, 3, tuttiTokensContiguous, false, true, 0}, SequenceWay{1, 3, tuttiTokensZigzag, false, true, 0},
        SequenceWay{1, 2, tuttiTokensStriped, false, false, 0}, SequenceWay{1, 3, tuttiTokensContiguous, true, true, 0},
        SequenceWay{2, 2, tuttiTokensZigzag, false, true, 0}, SequenceWay{1, 2, tuttiTokensContiguous, false, true, 4},
        SequenceWay{2, 2, tuttiTokensContiguous, false, true, 4}}) {
    CAPTURE(way.ulysses, way.ring, way.tokens, way.gather, way.overlap, way.leaves);
    std::vector<Results> host, device;
    CHECK(runPass(way.ulysses * way.ring, 0, passOf(way), &host) == "");
    CHECK(runPass(way.ulysses * way.ring, devices, passOf(way), &device) == "");
    for (size_t r = 0; r < host.size(); ++r) {
      CHECK(apart(device[r], host[r]) < 4e-6);
      if (way.leaves > 0 && onFakeDriver()) CHECK(device[r] == host[r]);
    }
    if (way.leaves == 0) continue;
    // The first query's row of the first rank, in every division.
    if (alone.empty()) CHECK(runPass(1, 1, passOf({1, 1, tuttiTokensContiguous, false, true, 4}), &alone) == "");
    for (size_t i = 0; i < kCudaHeads * kCudaDim; ++i) CHECK(device[0][i] == alone[0][i]);
  }
  CHECK(driverComplaints() == "");
}

// Tensor-parallel layers beside the same layers on one rank, which are held against finite differences.
#include <catch2/catch.hpp>

#include <cstring>
#include <functional>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/sums.h"
#include "tutti/parallel/tp.h"

using namespace tutti::test;

namespace {

constexpr int64_t kTokens = 11, kInputs = 14, kOutputs = 10, kTreeLeaves = 4;

struct Way {
  bool column, invariant, sequence, whole;
  int tiles;
  bool uneven;
};

struct Whole {
  std::vector<float> x, w, bias, dy, y, dx, dw, dbias;
};

tuttiTpConfig_t configOf(const Way& way) {
  tuttiTpConfig_t c = TUTTI_TP_CONFIG_INITIALIZER;
  c.numerics = way.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.sequenceParallel = way.sequence;
  c.leaves = kTreeLeaves;
  c.tiles = way.tiles;
  return c;
}

std::string runLayer(const Way& way, tuttiComm_t comm, const int64_t* cuts, Whole& t, std::vector<int64_t>* usedCuts,
                     std::vector<int64_t>* tokenCuts, bool* bytesAgree) {
  tuttiTp_t tp = nullptr;
  tuttiLinear_t linear = nullptr;
  const tuttiTpConfig_t config = configOf(way);
  LAYER_TRY(tuttiTpCreate(&tp, comm, &config));
  tuttiLinearConfig_t shape = TUTTI_LINEAR_CONFIG_INITIALIZER;
  shape.inputs = kInputs;
  shape.outputs = kOutputs;
  shape.unit = 2;
  shape.cuts = cuts;
  shape.whole = way.whole;
  LAYER_TRY((way.column ? tuttiColumnLinearCreate : tuttiRowLinearCreate)(&linear, tp, &shape));
  int rank = 0, n = 1;
  if (comm != nullptr) {
    RANK_TRY(tuttiCommUserRank(comm, &rank));
    RANK_TRY(tuttiCommCount(comm, &n));
  }
  usedCuts->resize(static_cast<size_t>(n) + 1);
  tokenCuts->resize(static_cast<size_t>(n) + 1);
  LAYER_TRY(tuttiLinearCuts(linear, usedCuts->data()));
  LAYER_TRY(tuttiTpSplit(tp, kTokens, 1, tokenCuts->data()));
  const int64_t c0 = (*usedCuts)[static_cast<size_t>(rank)], c1 = (*usedCuts)[static_cast<size_t>(rank) + 1];
  const bool cutTokens = way.sequence && n > 1;
  const int64_t t0 = cutTokens ? (*tokenCuts)[static_cast<size_t>(rank)] : 0;
  const int64_t t1 = cutTokens ? (*tokenCuts)[static_cast<size_t>(rank) + 1] : kTokens;
  // This rank's parts.
  if (way.column) {
    t.x = rowsOf(t.x, kInputs, t0, t1);
    t.w = rowsOf(t.w, kInputs, c0, c1);
    t.bias = {t.bias.begin() + c0, t.bias.begin() + c1};
    if (!way.whole) t.dy = columnsOf(t.dy, kOutputs, c0, c1);
  } else {
    if (!way.whole) t.x = columnsOf(t.x, kInputs, c0, c1);
    t.w = columnsOf(t.w, kInputs, c0, c1);
    t.dy = rowsOf(t.dy, kOutputs, t0, t1);
  }
  const int64_t part = c1 - c0, here = t1 - t0;
  const int64_t xRows = way.column ? here : kTokens, xColumns = way.column || way.whole ? kInputs : part;
  const int64_t yRows = way.column ? kTokens : here, yColumns = !way.column || way.whole ? kOutputs : part;
  t.y.resize(static_cast<size_t>(yRows * yColumns));
  t.dx.resize(t.x.size());
  t.dw.resize(t.w.size());
  t.dbias.resize(t.bias.size());
  const tuttiTensor_t x = matrix(t.x, xRows, xColumns), y = matrix(t.y, yRows, yColumns);
  const tuttiTensor_t w = matrix(t.w, way.column ? part : kOutputs, way.column ? kInputs : part);
  const tuttiTensor_t dy = matrix(t.dy, yRows, yColumns), dx = matrix(t.dx, xRows, xColumns);
  tuttiTensor_t dw = w;
  dw.data = t.dw.data();
  const tuttiTensor_t bias = vector(t.bias), dbias = vector(t.dbias);
  LAYER_TRY(tuttiLinearForward(linear, kTokens, &x, &w, &bias, &y));
  LAYER_TRY(tuttiLinearBackward(linear, kTokens, &x, &w, &dy, &dx, &dw, &dbias));
  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = TUTTI_TRAFFIC_INITIALIZER;
  LAYER_TRY(tuttiTpTraffic(tp, &counted, 1));
  LAYER_TRY(tuttiLinearPredict(linear, kTokens, tuttiFloat32, 3, &expected));
  *bytesAgree = sameTraffic(counted, expected);
  LAYER_TRY(tuttiLinearDestroy(linear));
  LAYER_TRY(tuttiTpDestroy(tp));
  return "";
}

Whole operands() {
  Whole t;
  t.x = numbers<float>(kTokens * kInputs, 1);
  t.w = numbers<float>(kOutputs * kInputs, 2);
  t.bias = numbers<float>(kOutputs, 3);
  t.dy = numbers<float>(kTokens * kOutputs, 4);
  return t;
}

/// Parts of the whole result that this rank should have.
std::string compare(const Way& way, const Whole& mine, const Whole& all, int rank, const std::vector<int64_t>& cuts,
                    const std::vector<int64_t>& tokens) {
  const size_t r = static_cast<size_t>(rank);
  const int64_t c0 = cuts[r], c1 = cuts[r + 1];
  const int64_t t0 = way.sequence ? tokens[r] : 0, t1 = way.sequence ? tokens[r + 1] : kTokens;
  Whole e = all;
  if (way.column) {
    if (!way.whole) e.y = columnsOf(all.y, kOutputs, c0, c1);
    e.dx = rowsOf(all.dx, kInputs, t0, t1);
    e.dw = rowsOf(all.dw, kInputs, c0, c1);
    e.dbias = {all.dbias.begin() + c0, all.dbias.begin() + c1};
  } else {
    e.y = rowsOf(all.y, kOutputs, t0, t1);
    if (!way.whole) e.dx = columnsOf(all.dx, kInputs, c0, c1);
    e.dw = columnsOf(all.dw, kInputs, c0, c1);
  }
  const double allowed = way.invariant ? 0 : 1e-5;
  for (const auto& [got, expected, name] : {std::tuple{&mine.y, &e.y, "y"},
                                            {&mine.dx, &e.dx, "dx"},
                                            {&mine.dw, &e.dw, "dw"},
                                            {&mine.dbias, &e.dbias, "dbias"}}) {
    const double difference = apart(*got, *expected);
    if (!(difference <= allowed)) return std::string(name) + " differs by " + std::to_string(difference);
  }
  return "";
}

}  // namespace

TEST_CASE("linear layers cut over ranks give what one rank gives, and move the bytes that the formula says") {
  std::vector<Way> ways;
  for (const bool column : {true, false}) {
    for (const bool sequence : {false, true}) {
      for (const bool invariant : {false, true}) ways.push_back({column, invariant, sequence, false, 1, false});
    }
    ways.push_back({column, false, false, true, 1, false});
    ways.push_back({column, true, false, true, 1, false});
    ways.push_back({column, false, false, false, 3, false});
    ways.push_back({column, false, true, false, 1, true});
  }
  for (const Way& way : ways) {
    Whole all = operands();
    std::vector<int64_t> cuts, tokens;
    bool agree = false;
    REQUIRE(runLayer(way, nullptr, nullptr, all, &cuts, &tokens, &agree) == "");
    for (const int nRanks : {2, 3}) {
      const int64_t total = way.column ? kOutputs : kInputs;
      const std::vector<int64_t> odd =
          nRanks == 2 ? std::vector<int64_t>{0, 1, total} : std::vector<int64_t>{0, 7, 7, total};
      CAPTURE(way.column, way.invariant, way.sequence, way.whole, way.tiles, way.uneven, nRanks);
      CHECK(onRanks(nRanks, [&](const Rank& r) -> std::string {
              Whole mine = operands();
              std::vector<int64_t> used, tokenCuts;
              bool same = false;
              const std::string why =
                  runLayer(way, r.comm, way.uneven ? odd.data() : nullptr, mine, &used, &tokenCuts, &same);
              if (!why.empty()) return why;
              if (!same) return "other bytes than the formula's";
              return compare(way, mine, all, r.rank, used, tokenCuts);
            }) == "");
    }
  }
}

TEST_CASE("regions and their conjugates") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          tuttiTp_t tp = nullptr;
          LAYER_TRY(tuttiTpCreate(&tp, r.comm, nullptr));
          const int64_t cuts[] = {0, 1, 1, 4};
          const int64_t c0 = cuts[r.rank], c1 = cuts[r.rank + 1];
          std::vector<float> whole = numbers<float>(16, 1), joined(16), sum(16), expected = whole;
          for (float& x : expected) x *= 3;
          for (const int dim : {0, 1}) {
            std::vector<float> part = dim == 0 ? rowsOf(whole, 4, c0, c1) : columnsOf(whole, 4, c0, c1),
                               got(part.size());
            tuttiTensor_t w = matrix(whole, 4, 4), j = matrix(joined, 4, 4);
            tuttiTensor_t p = dim == 0 ? matrix(part, c1 - c0, 4) : matrix(part, 4, c1 - c0), g = p;
            g.data = got.data();
            LAYER_TRY(tuttiTpRegion(tp, tuttiRegionScatter, 0, &w, dim, cuts, &g));
            RANK_CHECK(got == part);
            for (const bool backward : {false, true}) {
              LAYER_TRY(
                  tuttiTpRegion(tp, backward ? tuttiRegionScatter : tuttiRegionGather, backward, &p, dim, cuts, &j));
              RANK_CHECK(joined == whole);
            }
            if (dim == 1) continue;
            for (const bool backward : {false, true}) {
              LAYER_TRY(tuttiTpRegion(tp, backward ? tuttiRegionGatherTokens : tuttiRegionReduceScatter, backward, &w,
                                      dim, cuts, &g));
              RANK_CHECK(apart(got, rowsOf(expected, 4, c0, c1)) < 1e-6);
            }
          }
          tuttiTensor_t w = matrix(whole, 4, 4), s = matrix(sum, 4, 4);
          LAYER_TRY(tuttiTpRegion(tp, tuttiRegionCopy, 0, &w, 0, nullptr, &s));
          RANK_CHECK(sum == whole);
          LAYER_TRY(tuttiTpRegion(tp, tuttiRegionCopy, 1, &w, 0, nullptr, &s));
          RANK_CHECK(apart(sum, expected) < 1e-6);
          LAYER_TRY(tuttiTpRegion(tp, tuttiRegionReduce, 0, &w, 0, nullptr, &s));
          RANK_CHECK(apart(sum, expected) < 1e-6);
          RANK_CHECK(tuttiTpRegion(tp, tuttiRegionGather, 0, &w, 0, cuts, &s) == tuttiInvalidArgument);
          int column = -1;
          LAYER_TRY(tuttiTpCheaperSplit(tp, 4096, 256, 4096, tuttiFloat32, &column));
          RANK_CHECK(column == 1);
          LAYER_TRY(tuttiTpCheaperSplit(tp, 4096, 4096, 256, tuttiFloat32, &column));
          RANK_CHECK(column == 0);
          LAYER_TRY(tuttiTpDestroy(tp));
          return "";
        }) == "");
}

namespace {

constexpr int64_t kVocabulary = 13, kEmbedding = 6;

struct Vocabulary {
  std::vector<float> table, out, dtable, logits, loss, dlogits;
};

std::string runVocabulary(bool invariant, bool sequence, tuttiComm_t comm, Vocabulary& v, std::vector<int64_t>& cuts,
                          std::vector<int64_t>& tokens) {
  tuttiTp_t tp = nullptr;
  const tuttiTpConfig_t config = configOf({true, invariant, sequence, false, 1, false});
  LAYER_TRY(tuttiTpCreate(&tp, comm, &config));
  int rank = 0, n = 1;
  if (comm != nullptr) {
    RANK_TRY(tuttiCommUserRank(comm, &rank));
    RANK_TRY(tuttiCommCount(comm, &n));
  }
  cuts.resize(static_cast<size_t>(n) + 1);
  tokens.resize(cuts.size());
  LAYER_TRY(tuttiTpSplit(tp, kVocabulary, 1, cuts.data()));
  LAYER_TRY(tuttiTpSplit(tp, kTokens, 1, tokens.data()));
  const size_t r = static_cast<size_t>(rank);
  const int64_t c0 = cuts[r], c1 = cuts[r + 1], t0 = sequence ? tokens[r] : 0, t1 = sequence ? tokens[r + 1] : kTokens;
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < kTokens; ++t) ids.push_back((t * 5) % kVocabulary);
  tuttiTensor_t id = tuttiVectorOf(ids.data(), tuttiInt32, kTokens);
  v.table = rowsOf(numbers<float>(kVocabulary * kEmbedding, 1), kEmbedding, c0, c1);
  std::vector<float> dout = rowsOf(numbers<float>(kTokens * kEmbedding, 2), kEmbedding, t0, t1);
  v.out.resize(dout.size());
  v.dtable.resize(v.table.size());
  v.logits = columnsOf(numbers<float>(kTokens * kVocabulary, 3), kVocabulary, c0, c1);
  v.dlogits.resize(v.logits.size());
  v.loss.resize(kTokens);
  tuttiTensor_t table = matrix(v.table, c1 - c0, kEmbedding), dtable = matrix(v.dtable, c1 - c0, kEmbedding);
  tuttiTensor_t out = matrix(v.out, t1 - t0, kEmbedding), d = matrix(dout, t1 - t0, kEmbedding);
  tuttiTensor_t logits = matrix(v.logits, kTokens, c1 - c0), dlogits = matrix(v.dlogits, kTokens, c1 - c0);
  tuttiTensor_t loss = vector(v.loss);
  LAYER_TRY(tuttiVocabEmbedding(tp, cuts.data(), &id, &table, &out));
  LAYER_TRY(tuttiVocabEmbeddingBackward(tp, cuts.data(), &id, &d, &dtable));
  LAYER_TRY(tuttiVocabCrossEntropy(tp, cuts.data(), &logits, &id, &loss, &dlogits, 0.5));
  ids[3] = kVocabulary;
  RANK_CHECK(tuttiVocabEmbedding(tp, cuts.data(), &id, &table, &out) == tuttiInvalidArgument);
  LAYER_TRY(tuttiTpDestroy(tp));
  return "";
}

}  // namespace

TEST_CASE("embedding and cross entropy over a vocabulary that does not divide") {
  for (const bool invariant : {false, true}) {
    Vocabulary all;
    std::vector<int64_t> none, nothing;
    REQUIRE(runVocabulary(invariant, false, nullptr, all, none, nothing) == "");
    for (const bool sequence : {false, true}) {
      for (const int nRanks : {2, 3}) {
        CAPTURE(invariant, sequence, nRanks);
        CHECK(onRanks(nRanks, [&](const Rank& r) -> std::string {
                Vocabulary mine;
                std::vector<int64_t> cuts, tokens;
                const std::string why = runVocabulary(invariant, sequence, r.comm, mine, cuts, tokens);
                if (!why.empty()) return why;
                const size_t me = static_cast<size_t>(r.rank);
                const double allowed = invariant ? 0 : 1e-5;
                const int64_t t0 = sequence ? tokens[me] : 0, t1 = sequence ? tokens[me + 1] : kTokens;
                RANK_CHECK(mine.out == rowsOf(all.out, kEmbedding, t0, t1));
                RANK_CHECK(mine.dtable == rowsOf(all.dtable, kEmbedding, cuts[me], cuts[me + 1]));
                RANK_CHECK(apart(mine.loss, all.loss) <= allowed);
                RANK_CHECK(apart(mine.dlogits, columnsOf(all.dlogits, kVocabulary, cuts[me], cuts[me + 1])) <= allowed);
                return "";
              }) == "");
      }
    }
  }
}

namespace {

/// d sum(weights * f(x)) / dx by central differences.
std::vector<double> slopes(std::vector<double>& x, const std::vector<double>& weights,
                           const std::function<std::vector<double>()>& f) {
  std::vector<double> found;
  for (double& value : x) {
    const double kept = value;
    double sides[2] = {0, 0};
    for (const int side : {0, 1}) {
      value = kept + (side == 0 ? -1e-5 : 1e-5);
      const std::vector<double> y = f();
      for (size_t i = 0; i < y.size(); ++i) sides[side] += weights[i] * y[i];
    }
    value = kept;
    found.push_back((sides[1] - sides[0]) / 2e-5);
  }
  return found;
}

}  // namespace

TEST_CASE("gradients of GELU, layer norm, cross entropy and attention are slopes") {
  std::vector<double> x = numbers<double>(24, 1), dy = numbers<double>(24, 2), dx(24), y(24);
  tuttiTensor_t tx = matrix(x, 4, 6), ty = matrix(y, 4, 6), tdy = matrix(dy, 4, 6), tdx = matrix(dx, 4, 6);
  const auto gelu = [&] {
    REQUIRE(tuttiGelu(&tx, &ty) == tuttiSuccess);
    return y;
  };
  REQUIRE(tuttiGeluBackward(&tx, &tdy, &tdx) == tuttiSuccess);
  CHECK(apart(dx, slopes(x, dy, gelu)) < 1e-7);

  std::vector<double> gamma = numbers<double>(6, 3), beta = numbers<double>(6, 4), dgamma(12), dbeta(12);
  tuttiTensor_t tg = vector(gamma), tb = vector(beta), tdg = matrix(dgamma, 2, 6), tdb = matrix(dbeta, 2, 6);
  const auto norm = [&] {
    REQUIRE(tuttiLayerNorm(&tx, &tg, &tb, &ty) == tuttiSuccess);
    return y;
  };
  const int64_t rows[] = {0, 1, 4};
  REQUIRE(tuttiLayerNormBackward(&tx, &tg, &tdy, rows, 2, &tdx, &tdg, &tdb) == tuttiSuccess);
  CHECK(apart(dx, slopes(x, dy, norm)) < 1e-6);
  for (size_t i = 0; i < 6; ++i) dgamma[i] += dgamma[i + 6], dbeta[i] += dbeta[i + 6];
  dgamma.resize(6), dbeta.resize(6);
  CHECK(apart(dgamma, slopes(gamma, dy, norm)) < 1e-6);
  CHECK(apart(dbeta, slopes(beta, dy, norm)) < 1e-6);

  tuttiTp_t tp = nullptr;
  REQUIRE(tuttiTpCreate(&tp, nullptr, nullptr) == tuttiSuccess);
  std::vector<double> loss(4), one(4, 1);
  std::vector<int32_t> targets = {5, 0, 3, 3};
  tuttiTensor_t tl = vector(loss), tt = tuttiVectorOf(targets.data(), tuttiInt32, 4);
  const int64_t vocabulary[] = {0, 6};
  const auto entropy = [&] {
    REQUIRE(tuttiVocabCrossEntropy(tp, vocabulary, &tx, &tt, &tl, &tdx, 1) == tuttiSuccess);
    return loss;
  };
  entropy();
  const std::vector<double> dlogits = dx;
  CHECK(apart(dlogits, slopes(x, one, entropy)) < 1e-7);
  CHECK(tuttiTpDestroy(tp) == tuttiSuccess);
}

TEST_CASE("attention: gradients are slopes, heads in groups, causal or not, also over a part of the keys") {
  for (const bool causal : {false, true}) {
    for (const int64_t queryStart : {0, 2}) {
      tuttiAttention_t s = TUTTI_ATTENTION_INITIALIZER;
      s.batch = 2, s.queries = 3, s.keys = 5, s.heads = 4, s.kvHeads = 2, s.headDim = 3;
      s.causal = causal;
      s.queryStart = queryStart;
      std::vector<double> q = numbers<double>(72, 1), k = numbers<double>(60, 2), v = numbers<double>(60, 3);
      std::vector<double> dout = numbers<double>(72, 4), out(72), lse(24), dq(72), dk(60), dv(60);
      tuttiTensor_t tq = matrix(q, 6, 12), tk = matrix(k, 10, 6), tv = matrix(v, 10, 6), to = matrix(out, 6, 12);
      tuttiTensor_t tl = vector(lse), td = matrix(dout, 6, 12);
      tuttiTensor_t tdq = matrix(dq, 6, 12), tdk = matrix(dk, 10, 6), tdv = matrix(dv, 10, 6);
      const auto forward = [&] {
        REQUIRE(tuttiAttentionForward(&s, nullptr, &tq, &tk, &tv, &to, &tl) == tuttiSuccess);
        return out;
      };
      forward();
      REQUIRE(tuttiAttentionBackward(&s, nullptr, &tq, &tk, &tv, &to, &tl, &td, &tdq, &tdk, &tdv) == tuttiSuccess);
      CAPTURE(causal, queryStart);
      CHECK(apart(dq, slopes(q, dout, forward)) < 1e-7);
      CHECK(apart(dk, slopes(k, dout, forward)) < 1e-7);
      CHECK(apart(dv, slopes(v, dout, forward)) < 1e-7);
    }
  }
}

// Sums over tokens that lie on several ranks: gradients of weights, and a program's own, in any number of leaves.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/sums.h"
#include "tutti/parallel/tp.h"

using namespace tutti::test;

namespace {

constexpr int64_t kIn = 5, kOut = 4, kWords = 7;

/// TokenGradients over all tokens: of a column and of a row layer, of a table, and of a vector that the program sums
/// itself.
struct TokenGradients {
  std::vector<float> column = std::vector<float>(kOut * kIn), columnBias = std::vector<float>(kOut);
  std::vector<float> row = column, rowBias = columnBias, table = std::vector<float>(kWords * kIn);
  std::vector<float> own = std::vector<float>(kIn);
  std::vector<const std::vector<float>*> all() const { return {&column, &columnBias, &row, &rowBias, &table, &own}; }
};

struct Case {
  int ranks, leaves;
  int64_t sequence;
  bool invariant;
};

tuttiTpConfig_t configOf(const Case& c, tuttiComm_t others) {
  tuttiTpConfig_t config = TUTTI_TP_CONFIG_INITIALIZER;
  config.numerics = c.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  config.leaves = c.leaves;
  config.tokenComm = others;
  config.sequence = c.sequence;
  return config;
}

std::string layers(tuttiTp_t tp, int64_t tokens, std::vector<float>& x, std::vector<float>& dy, TokenGradients& g) {
  for (const bool column : {true, false}) {
    tuttiLinear_t linear = nullptr;
    tuttiLinearConfig_t shape = TUTTI_LINEAR_CONFIG_INITIALIZER;
    shape.inputs = kIn, shape.outputs = kOut;
    LAYER_TRY((column ? tuttiColumnLinearCreate : tuttiRowLinearCreate)(&linear, tp, &shape));
    const std::unique_ptr<tuttiLinear, decltype(&tuttiLinearDestroy)> owner(linear, &tuttiLinearDestroy);
    std::vector<float> w = numbers<float>(kOut * kIn, 3), dx(x.size());
    const tuttiTensor_t tx = matrix(x, tokens, kIn), tw = matrix(w, kOut, kIn);
    const tuttiTensor_t tdy = matrix(dy, tokens, kOut), tdx = matrix(dx, tokens, kIn);
    const tuttiTensor_t dw = matrix(column ? g.column : g.row, kOut, kIn);
    const tuttiTensor_t dbias = vector(column ? g.columnBias : g.rowBias);
    LAYER_TRY(tuttiLinearBackward(linear, tokens, &tx, &tw, &tdy, &tdx, &dw, &dbias));
  }
  return "";
}

std::string run(const Case& c, tuttiComm_t others, int rank, TokenGradients& g) {
  tuttiTp_t tp = nullptr;
  const tuttiTpConfig_t config = configOf(c, others);
  LAYER_TRY(tuttiTpCreate(&tp, nullptr, &config));
  std::vector<int64_t> cuts(static_cast<size_t>(others == nullptr ? 1 : c.ranks) + 1);
  LAYER_TRY(tuttiTpTokens(tp, cuts.data()));
  const int64_t first = cuts[static_cast<size_t>(rank)], end = cuts[static_cast<size_t>(rank) + 1], n = end - first;
  const size_t all = static_cast<size_t>(c.sequence);
  std::vector<float> x = rowsOf(numbers<float>(all * kIn, 1), kIn, first, end);
  std::vector<float> dy = rowsOf(numbers<float>(all * kOut, 2), kOut, first, end);
  if (std::string why = layers(tp, n, x, dy, g); !why.empty()) return why;

  std::vector<int32_t> ids;
  for (int64_t t = first; t < end; ++t) ids.push_back(static_cast<int32_t>(t * t % kWords));
  const int64_t vocabulary[] = {0, kWords};
  const tuttiTensor_t id = tuttiVectorOf(ids.data(), tuttiInt32, n), dout = matrix(x, n, kIn);
  const tuttiTensor_t dtable = matrix(g.table, kWords, kIn);
  LAYER_TRY(tuttiVocabEmbeddingBackward(tp, vocabulary, &id, &dout, &dtable));

  int nLeaves = -1;
  std::vector<int64_t> rowCuts(static_cast<size_t>(c.leaves) + 1);
  LAYER_TRY(tuttiTpTokenLeaves(tp, n, 0, &nLeaves, rowCuts.data()));
  std::vector<float> leaves(static_cast<size_t>(nLeaves) * kIn);
  for (size_t l = 0; l < static_cast<size_t>(nLeaves); ++l) {
    for (int64_t i = rowCuts[l] * kIn; i < rowCuts[l + 1] * kIn; ++i) {
      leaves[l * kIn + static_cast<size_t>(i % kIn)] += x[static_cast<size_t>(i)];
    }
  }
  const tuttiTensor_t from = vector(leaves), sum = vector(g.own);
  LAYER_TRY(tuttiTpTokenSum(tp, 0, &from, &sum));

  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = TUTTI_TRAFFIC_INITIALIZER;
  LAYER_TRY(tuttiTpTraffic(tp, &counted, 1));
  for (const auto* gradient : g.all()) {
    LAYER_TRY(tuttiTpTokenPredict(tp, 1, static_cast<int64_t>(gradient->size()), tuttiFloat32, &expected));
  }
  RANK_CHECK(sameTraffic(counted, expected) && (expected.wireBytes > 0) == (c.ranks > 1 && others != nullptr));
  LAYER_TRY(tuttiTpDestroy(tp));
  return "";
}

}  // namespace

TEST_CASE("gradients over tokens are the same on any number of ranks that have them, in any number of leaves") {
  for (const bool invariant : {true, false}) {
    for (const int leaves : invariant ? std::vector<int>{1, 6, 24, 30} : std::vector<int>{6}) {
      for (const int64_t sequence : {int64_t{60}, int64_t{23}}) {
        TokenGradients all;
        REQUIRE(run({1, leaves, sequence, invariant}, nullptr, 0, all) == "");
        for (const int ranks : {3, 5, 7}) {
          CAPTURE(invariant, leaves, sequence, ranks);
          CHECK(onRanks(ranks, [&](const Rank& r) -> std::string {
                  TokenGradients mine;
                  const std::string why = run({ranks, leaves, sequence, invariant}, r.comm, r.rank, mine);
                  if (!why.empty()) return why;
                  const auto got = mine.all(), expected = all.all();
                  for (size_t i = 0; i < got.size(); ++i) {
                    const double difference = apart(*got[i], *expected[i]);
                    if (!(difference <= (invariant ? 0 : 1e-5))) {
                      return "gradient " + std::to_string(i) + " differs by " + std::to_string(difference);
                    }
                  }
                  return "";
                }) == "");
        }
      }
    }
  }
}

TEST_CASE("tokens that are not cut at leaves, and sums that one vector of a rank cannot stand for, are refused") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          const auto says = [](const char* sentence) {
            return std::strstr(tuttiParallelGetLastError(), sentence) != nullptr;
          };
          tuttiTp_t tp = nullptr;
          tuttiTpConfig_t config = configOf({3, 24, 60, true}, r.comm);
          config.tokenLeaves = 8;
          RANK_CHECK(tuttiTpCreate(&tp, nullptr, &config) == tuttiInvalidArgument && says("tokenLeaves is 8"));
          config.tokenLeaves = 0;
          config.sequence = 0;
          RANK_CHECK(tuttiTpCreate(&tp, nullptr, &config) == tuttiInvalidArgument && says("of which 3 ranks have"));
          config.sequence = 60;
          config.sequenceParallel = 1;
          RANK_CHECK(tuttiTpCreate(&tp, r.comm, &config) == tuttiInvalidArgument && says("the 3 ranks of tokenComm"));
          config.sequenceParallel = 0;

          // 24 leaves of 60 tokens are 12 of 3 and 12 of 2: ranks have 24, 20 and 16, not 20 each.
          LAYER_TRY(tuttiTpCreate(&tp, nullptr, &config));
          int64_t cuts[4];
          LAYER_TRY(tuttiTpTokens(tp, cuts));
          RANK_CHECK(cuts[1] == 24 && cuts[2] == 44 && cuts[3] == 60);
          TokenGradients g;
          const int64_t wrong = r.rank == 1 ? 21 : 20;
          std::vector<float> x(static_cast<size_t>(wrong * kIn)), dy(static_cast<size_t>(wrong * kOut));
          const char* sentences[] = {"of 60 tokens in 24 leaves it has [0, 24)", "it has [24, 44)", "it has [44, 60)"};
          RANK_CHECK(layers(tp, wrong, x, dy, g).find(sentences[r.rank]) != std::string::npos);
          std::vector<int32_t> ids(static_cast<size_t>(wrong));
          const int64_t vocabulary[] = {0, kWords};
          const tuttiTensor_t id = tuttiVectorOf(ids.data(), tuttiInt32, wrong), dout = matrix(x, wrong, kIn);
          const tuttiTensor_t dtable = matrix(g.table, kWords, kIn);
          RANK_CHECK(tuttiVocabEmbeddingBackward(tp, vocabulary, &id, &dout, &dtable) == tuttiInvalidArgument);
          int nLeaves = 0;
          std::vector<int64_t> rowCuts(25);
          RANK_CHECK(tuttiTpTokenLeaves(tp, wrong, 1, &nLeaves, rowCuts.data()) == tuttiInvalidArgument);
          LAYER_TRY(tuttiTpDestroy(tp));

          config.leaves = 30, config.tokenComm = nullptr;
          LAYER_TRY(tuttiTpCreate(&tp, r.comm, &config));
          std::vector<float> sum(6);
          const tuttiTensor_t s = matrix(sum, 3, 2);
          RANK_CHECK(tuttiTpRegion(tp, tuttiRegionReduce, 0, &s, 0, nullptr, &s) == tuttiInvalidArgument);
          RANK_CHECK(says("of 30 leaves over 3 ranks rank 0 has [0, 10), the sum of which takes 2"));
          RANK_CHECK(tuttiTpRegion(tp, tuttiRegionCopy, 1, &s, 0, nullptr, &s) == tuttiInvalidArgument);
          LAYER_TRY(tuttiTpRegion(tp, tuttiRegionCopy, 0, &s, 0, nullptr, &s));
          LAYER_TRY(tuttiTpDestroy(tp));
          return "";
        }) == "");
}

TEST_CASE("a region's sum follows the tree of the leaves, whatever their number on each rank") {
  struct Row {
    int leaves, ranks;
  };
  for (const Row& row : {Row{8, 2}, {24, 3}, {6, 5}}) {
    const size_t count = 6, nLeaves = static_cast<size_t>(row.leaves);
    const std::vector<float> leaves = numbers<float>(nLeaves * count, 1);
    std::vector<float> all(count);
    const int64_t one[] = {0, row.leaves};
    REQUIRE(tuttiTreeAllReduce(leaves.data(), all.data(), count, tuttiFloat32, one, nullptr) == tuttiSuccess);
    CAPTURE(row.leaves, row.ranks);
    CHECK(onRanks(row.ranks, [&](const Rank& r) -> std::string {
            std::vector<int64_t> cuts(static_cast<size_t>(row.ranks) + 1), rows(cuts.size());
            LAYER_TRY(tuttiSplitEven(row.leaves, 1, row.ranks, nullptr, cuts.data()));
            LAYER_TRY(tuttiSplitEven(3, 1, row.ranks, nullptr, rows.data()));
            const size_t me = static_cast<size_t>(r.rank);
            const int64_t mine[] = {0, cuts[me + 1] - cuts[me]};
            std::vector<float> x(count), sum(count), part(static_cast<size_t>(rows[me + 1] - rows[me]) * 2);
            LAYER_TRY(tuttiTreeAllReduce(leaves.data() + static_cast<size_t>(cuts[me]) * count, x.data(), count,
                                         tuttiFloat32, mine, nullptr));
            tuttiTp_t tp = nullptr;
            tuttiTpConfig_t config = configOf({1, row.leaves, 0, true}, nullptr);
            LAYER_TRY(tuttiTpCreate(&tp, r.comm, &config));
            const tuttiTensor_t from = matrix(x, 3, 2), to = matrix(sum, 3, 2);
            const tuttiTensor_t own = matrix(part, rows[me + 1] - rows[me], 2);
            LAYER_TRY(tuttiTpRegion(tp, tuttiRegionReduce, 0, &from, 0, nullptr, &to));
            RANK_CHECK(sum == all);
            LAYER_TRY(tuttiTpRegion(tp, tuttiRegionReduceScatter, 0, &from, 0, rows.data(), &own));
            RANK_CHECK(part == rowsOf(all, 2, rows[me], rows[me + 1]));
            LAYER_TRY(tuttiTpDestroy(tp));
            return "";
          }) == "");
  }
}

// Splits, grids, sums and matrix products.
#include <catch2/catch.hpp>

#include <cstring>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/grid.h"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/sums.h"

using namespace tutti::test;

TEST_CASE("splits are even, keep units together, and follow weights") {
  struct Row {
    int64_t total, unit;
    std::vector<double> weights;
    std::vector<int64_t> cuts;
  };
  const std::vector<Row> rows = {{10, 1, {}, {0, 4, 7, 10}},        {9, 4, {}, {0, 4, 8, 9}},
                                 {2, 1, {}, {0, 1, 2, 2}},          {0, 1, {}, {0, 0, 0, 0}},
                                 {12, 1, {1, 2, 3}, {0, 2, 6, 12}}, {8, 2, {0, 1, 0}, {0, 0, 8, 8}}};
  for (const Row& row : rows) {
    std::vector<int64_t> cuts(4);
    const double* weights = row.weights.empty() ? nullptr : row.weights.data();
    REQUIRE(tuttiSplitEven(row.total, row.unit, 3, weights, cuts.data()) == tuttiSuccess);
    CHECK(cuts == row.cuts);
  }
  int64_t cuts[3];
  const double none[] = {0, 0};
  CHECK(tuttiSplitEven(4, 1, 2, none, cuts) == tuttiInvalidArgument);
  CHECK(std::string(tuttiParallelGetLastError()).find("all weights are 0") != std::string::npos);
}

TEST_CASE("a grid's groups are those of Llama's example, partition the world, and carry sums") {
  CHECK(onRanks(8, [](const Rank& r) -> std::string {
          tuttiGrid_t grid = nullptr, experts = nullptr;
          LAYER_TRY(tuttiGridCreate(&grid, r.comm, "tp=2,cp=2,dp=0", nullptr));
          int members[8], count = 0, at = -1;
          LAYER_TRY(tuttiGridMembers(grid, "dp", 1, members, 8, &count));
          RANK_CHECK(count == 2 && members[0] == 1 && members[1] == 5);
          LAYER_TRY(tuttiGridMembers(grid, "dp-cp", 0, members, 8, &count));
          RANK_CHECK(count == 4 && members[1] == 2 && members[2] == 4);
          LAYER_TRY(tuttiGridRankAt(grid, "tp=1,cp=0,dp=1", &at));
          RANK_CHECK(at == 5);
          for (const char* axes : {"tp", "cp-dp", "tp-cp-dp"}) {
            tuttiComm_t comm = nullptr, again = nullptr;
            LAYER_TRY(tuttiGridGroup(grid, axes, &comm));
            LAYER_TRY(tuttiGridGroup(grid, axes, &again));
            RANK_CHECK(comm == again);
            int64_t sum = r.rank, expected = 0;
            RANK_TRY(tuttiAllReduce(&sum, &sum, 1, tuttiInt64, tuttiSum, comm, nullptr));
            LAYER_TRY(tuttiGridMembers(grid, axes, -1, members, 8, &count));
            for (int i = 0; i < count; ++i) expected += members[i];
            int own = -1, coordinate = -2;
            RANK_TRY(tuttiCommUserRank(comm, &own));
            LAYER_TRY(tuttiGridCoordinate(grid, axes, -1, &coordinate));
            RANK_CHECK(sum == expected && own == coordinate);
          }
          LAYER_TRY(tuttiGridView(&experts, grid, "tp=2,ep=4", "tp"));
          LAYER_TRY(tuttiGridDestroy(experts));
          RANK_CHECK(tuttiGridView(&experts, grid, "ep=4,tp=2", "tp") == tuttiInvalidArgument);
          for (const char* bad : {"tp=3,dp=0", "tp=2", "tp=2,tp=4", "tp=0,dp=0", "tp=2,dp=x", "", "t p=8", "tp=16"}) {
            tuttiGrid_t none = nullptr;
            RANK_CHECK(tuttiGridCreate(&none, r.comm, bad, nullptr) == tuttiInvalidArgument && none == nullptr);
          }
          RANK_CHECK(tuttiGridGroup(grid, "pp", nullptr) == tuttiInvalidArgument);
          LAYER_TRY(tuttiGridDestroy(grid));
          return "";
        }) == "");
}

TEST_CASE("a grid says which axis is misplaced") {
  CHECK(onRanks(4, [](const Rank& r) -> std::string {
          const int byNode[] = {0, 0, 1, 1}, astray[] = {0, 1, 0, 1};
          for (const bool good : {true, false}) {
            tuttiGridConfig_t config = TUTTI_GRID_CONFIG_INITIALIZER;
            config.nodeOfRank = good ? byNode : astray;
            tuttiGrid_t grid = nullptr;
            LAYER_TRY(tuttiGridCreate(&grid, r.comm, "tp=2,dp=2", &config));
            const char* report = nullptr;
            LAYER_TRY(tuttiGridCheck(grid, &report));
            RANK_CHECK(good == (*report == '\0'));
            RANK_CHECK(good || std::strstr(report, "axis tp leaves its node (rank 0 on node 0, rank 1 on node 1)"));
            LAYER_TRY(tuttiGridDestroy(grid));
          }
          tuttiGrid_t grid = nullptr;  // asked of the hosts: all of these ranks are on one
          LAYER_TRY(tuttiGridCreate(&grid, r.comm, "tp=2,dp=2", nullptr));
          const char* report = nullptr;
          LAYER_TRY(tuttiGridCheck(grid, &report));
          RANK_CHECK(*report == '\0');
          LAYER_TRY(tuttiGridDestroy(grid));
          return "";
        }) == "");
}

namespace {

/// All leaves on one rank.
std::vector<float> oneRankSum(std::vector<float>& leaves, int64_t nLeaves, size_t count) {
  std::vector<float> out(count);
  const int64_t cuts[] = {0, nLeaves};
  REQUIRE(tuttiTreeAllReduce(leaves.data(), out.data(), count, tuttiFloat32, cuts, nullptr) == tuttiSuccess);
  return out;
}

}  // namespace

TEST_CASE("a sum has the same bits wherever its leaves lie") {
  constexpr size_t kCount = 37;
  for (const int64_t nLeaves : {1, 7, 8, 13}) {
    std::vector<float> leaves = numbers<float>(static_cast<size_t>(nLeaves) * kCount, 5);
    const std::vector<float> expected = oneRankSum(leaves, nLeaves, kCount);
    std::vector<float> naive(kCount);
    for (size_t i = 0; i < leaves.size(); ++i) naive[i % kCount] += leaves[i];
    CHECK(apart(expected, naive) < 1e-5);
    if (nLeaves == 13) CHECK(expected != naive);  // or the test would not see a wrong order
    for (const int nRanks : {2, 3, 4}) {
      for (const bool lopsided : {false, true}) {
        const std::string complaint = onRanks(nRanks, [&](const Rank& r) -> std::string {
          std::vector<int64_t> cuts(static_cast<size_t>(nRanks) + 1), slices(cuts.size());
          LAYER_TRY(tuttiSplitEven(nLeaves, 1, nRanks, nullptr, cuts.data()));
          if (lopsided) {  // rank 0 has none, rank 1 all but the last rank's
            for (int i = 1; i < nRanks; ++i) cuts[static_cast<size_t>(i)] = i == 1 ? 0 : nLeaves;
          }
          LAYER_TRY(tuttiSplitEven(kCount, 1, nRanks, nullptr, slices.data()));
          const size_t me = static_cast<size_t>(r.rank);
          const float* mine = leaves.data() + static_cast<size_t>(cuts[me]) * kCount;
          std::vector<float> out(kCount), slice(kCount);
          LAYER_TRY(tuttiTreeAllReduce(mine, out.data(), kCount, tuttiFloat32, cuts.data(), r.comm));
          RANK_CHECK(out == expected);
          LAYER_TRY(tuttiTreeReduceScatter(mine, slice.data(), tuttiFloat32, cuts.data(), slices.data(), r.comm));
          RANK_CHECK(std::memcmp(slice.data(), expected.data() + slices[me],
                                 static_cast<size_t>(slices[me + 1] - slices[me]) * sizeof(float)) == 0);
          return "";
        });
        CAPTURE(nLeaves, nRanks, lopsided);
        CHECK(complaint == "");
      }
    }
  }
}

TEST_CASE("norms and hashes do not depend on who holds what") {
  std::vector<float> whole = numbers<float>(1001, 3);
  tuttiTensor_t all = vector(whole);
  double norm = 0;
  uint64_t hash = 0;
  REQUIRE(tuttiSumOfSquares(&all, 1, nullptr, &norm) == tuttiSuccess);
  REQUIRE(tuttiTensorHash(&all, 7, 0, &hash) == tuttiSuccess);
  double plain = 0;
  for (const float x : whole) plain += static_cast<double>(x) * x;
  CHECK(std::abs(norm - plain) < 1e-9 * plain);
  CHECK(onRanks(3, [&](const Rank& r) -> std::string {
          const int64_t cuts[] = {0, 5, 900, 1001};
          const int64_t first = cuts[r.rank];
          tuttiTensor_t mine = tuttiVectorOf(whole.data() + first, tuttiFloat32, cuts[r.rank + 1] - first);
          double sum = 0;
          uint64_t part = 0;
          LAYER_TRY(tuttiSumOfSquares(&mine, 1, r.comm, &sum));
          RANK_CHECK(sum == norm);
          LAYER_TRY(tuttiTensorHash(&mine, 7, first, &part));
          RANK_TRY(tuttiAllReduce(&part, &part, 1, tuttiUint64, tuttiSum, r.comm, nullptr));
          RANK_CHECK(part == hash);
          return "";
        }) == "");
  std::swap(whole[1], whole[2]);
  uint64_t other = 0;
  REQUIRE(tuttiTensorHash(&all, 7, 0, &other) == tuttiSuccess);
  CHECK(other != hash);
  whole[4] = INFINITY;
  REQUIRE(tuttiSumOfSquares(&all, 1, nullptr, &norm) == tuttiSuccess);
  CHECK(std::isinf(norm));
}

namespace {

template <class T>
std::vector<T> naiveProduct(const tuttiMatmul_t& m) {
  const T *a = static_cast<const T*>(m.a), *b = static_cast<const T*>(m.b);
  std::vector<T> c(static_cast<size_t>(m.m * m.n));
  for (int64_t i = 0; i < m.m; ++i) {
    for (int64_t j = 0; j < m.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < m.k; ++p) {
        sum += static_cast<double>(m.transposeA ? a[p * m.lda + i] : a[i * m.lda + p]) *
               static_cast<double>(m.transposeB ? b[j * m.ldb + p] : b[p * m.ldb + j]);
      }
      c[static_cast<size_t>(i * m.n + j)] = static_cast<T>(sum);
    }
  }
  return c;
}

template <class T>
void checkProducts(const tuttiKernels_t& kernels) {
  for (const auto& [m, n, k] :
       std::vector<std::tuple<int, int, int>>{{1, 1, 1}, {7, 33, 19}, {13, 16, 64}, {5, 3, 0}}) {
    for (int form = 0; form < 8; ++form) {
      const bool ta = form & 1, tb = form & 2, accumulate = form & 4;
      const int64_t lda = (ta ? m : k) + 2, ldb = (tb ? k : n) + 1, ldc = n + 3;
      auto a = numbers<T>(static_cast<size_t>(lda * (ta ? k : m) + 1), 1);
      auto b = numbers<T>(static_cast<size_t>(ldb * (tb ? n : k) + 1), 2);
      std::vector<T> c(static_cast<size_t>(ldc * m), T(1));
      const tuttiMatmul_t call{dtypeFor<T>(), ta, tb, accumulate, m, n, k, a.data(), b.data(), c.data(), lda, ldb, ldc};
      REQUIRE(kernels.matmul(kernels.context, &call) == tuttiSuccess);
      std::vector<T> expected = naiveProduct<T>(call), got = columnsOf(c, ldc, 0, n),
                     beyond = columnsOf(c, ldc, n, ldc);
      for (T& x : expected) x += accumulate ? T(1) : T(0);
      CAPTURE(kernels.name, m, n, k, form);
      CHECK(apart(got, expected) < (sizeof(T) == 4 ? 1e-5 : 1e-13));
      CHECK(beyond == std::vector<T>(beyond.size(), T(1)));
    }
  }
}

}  // namespace

TEST_CASE("both kernel tables multiply, in every form") {
  for (const auto load : {tuttiKernelsFast, tuttiKernelsInvariant}) {
    tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
    REQUIRE(load(&kernels) == tuttiSuccess);
    checkProducts<float>(kernels);
    checkProducts<double>(kernels);
    tuttiMatmul_t bad{tuttiFloat32, 0, 0, 0, 2, 2, 2, nullptr, nullptr, nullptr, 2, 2, 2};
    CHECK(kernels.matmul(kernels.context, &bad) == tuttiInvalidArgument);
  }
}

TEST_CASE("an invariant product has the same bits in any piece of it") {
  constexpr int64_t kM = 23, kN = 70, kK = 50;
  auto a = numbers<float>(kM * kK, 1), b = numbers<float>(kK * kN, 2);
  std::vector<float> whole(kM * kN), piece(kM * kN);
  const int64_t leaves[] = {0, 20, 30, 50};
  tuttiMatmul_t call{tuttiFloat32, 0, 0, 0, kM, kN, kK, a.data(), b.data(), whole.data(), kK, kN, kN};
  REQUIRE(tuttiMatmulLeaves(&call, leaves, 3) == tuttiSuccess);
  for (const auto& [r0, r1, c0, c1] :
       std::vector<std::array<int64_t, 4>>{{0, 1, 0, 1}, {3, 20, 17, 70}, {22, 23, 5, 6}}) {
    tuttiMatmul_t part = call;
    part.m = r1 - r0;
    part.n = c1 - c0;
    part.a = a.data() + r0 * kK;
    part.b = b.data() + c0;
    part.c = piece.data();
    part.ldc = kN;
    REQUIRE(tuttiMatmulLeaves(&part, leaves, 3) == tuttiSuccess);
    for (int64_t i = r0; i < r1; ++i) {
      CHECK(std::memcmp(piece.data() + (i - r0) * kN, whole.data() + i * kN + c0,
                        static_cast<size_t>(c1 - c0) * sizeof(float)) == 0);
    }
  }
}

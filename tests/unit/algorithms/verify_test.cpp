// Every algorithm is proven for every number of ranks up to 64, in place and out of place, for several roots and
// arrangements of ranks on nodes, with one slot per link.
#include <catch2/catch.hpp>
#include <iostream>

#include "src/schedule/verifier.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti {
namespace {

std::vector<int> rootsOf(Collective collective, int nRanks) {
  std::vector<int> roots{0};
  if (!isRooted(collective)) return roots;
  if (nRanks > 1) roots.push_back(nRanks - 1);
  if (nRanks > 2) roots.push_back(nRanks / 2);
  return roots;
}

// "" or what is wrong.
std::string prove(const Algorithm& algorithm, const Shape& shape, int* proofs) {
  ++*proofs;
  const std::string complaint = verify(buildAll(algorithm, shape), {.slots = 1});
  return complaint.empty() ? "" : describe(algorithm, shape) + ": " + complaint;
}

TEST_CASE("every algorithm does what its collective promises for every rank count up to 64", "[thorough]") {
  int proofs = 0;
  for (const Algorithm* algorithm : algorithms()) {
    std::string complaint;
    for (int nRanks = 1; nRanks <= 64 && complaint.empty(); ++nRanks) {
      if (!test::kThorough && nRanks > 17 && nRanks != 33 && nRanks != 64) continue;
      for (int root : rootsOf(algorithm->collective, nRanks)) {
        for (bool inPlace : {false, true}) {
          const Shape shape{.collective = algorithm->collective, .nRanks = nRanks, .root = root, .inPlace = inPlace};
          if (algorithm->supports(shape) && complaint.empty()) complaint = prove(*algorithm, shape, &proofs);
        }
      }
    }
    CHECK(complaint == "");
  }
  std::cout << proofs << " sets of schedules verified on one node\n";
}

TEST_CASE("algorithms that know nodes work for every arrangement of ranks on nodes", "[thorough]") {
  int proofs = 0;
  for (const Algorithm* algorithm : algorithms()) {
    const std::string_view name = algorithm->name;
    if (name != "hierarchical" && name != "ring" && name != "chain") continue;
    std::string complaint;
    for (int nRanks = 1; nRanks <= 64 && complaint.empty(); ++nRanks) {
      const bool sample = nRanks <= 20 || nRanks % 11 == 0 || nRanks % 16 == 0 || nRanks % 16 == 15;
      if (name == "hierarchical" ? !sample : nRanks % 7 != 0) continue;
      if (!test::kThorough && nRanks > 12 && nRanks != 49) continue;
      for (const std::vector<int>& nodeOf : nodeShapes(nRanks)) {
        for (bool inPlace : {false, true}) {
          for (size_t bytes : {size_t{8}, size_t{64} << 20}) {  // small and large shards go different ways
            if (bytes > 8 && algorithm->collective != Collective::AllReduce) continue;
            const Shape shape{.collective = algorithm->collective,
                              .nRanks = nRanks,
                              .root = nRanks / 2,
                              .inPlace = inPlace,
                              .bytes = bytes,
                              .nodeOf = nodeOf};
            if (algorithm->supports(shape) && complaint.empty()) complaint = prove(*algorithm, shape, &proofs);
          }
        }
      }
    }
    CHECK(complaint == "");
  }
  std::cout << proofs << " sets of schedules verified on several nodes\n";
}

TEST_CASE("algorithms that cut large messages in pieces are right for every number of pieces") {
  int proofs = 0;
  struct Row {
    Collective collective;
    const char* name;
  };
  for (const Row& row :
       {Row{Collective::AllReduce, "tree"}, Row{Collective::AllGather, "pat"}, Row{Collective::ReduceScatter, "pat"},
        Row{Collective::Broadcast, "circulant"}, Row{Collective::Reduce, "circulant"}}) {
    const Algorithm* algorithm = findAlgorithm(row.collective, row.name);
    REQUIRE(algorithm != nullptr);
    for (int nRanks : {1, 2, 3, 5, 7, 8, 9, 16, 17, 23, 33, 64}) {
      for (size_t bytes : {0, 1, 100, 300, 999, 1000, 1001, 2500, 4000, 9000, 17000, 100000}) {
        for (bool inPlace : {false, true}) {
          const Shape shape{.collective = row.collective,
                            .nRanks = nRanks,
                            .root = isRooted(row.collective) ? nRanks / 3 : 0,
                            .inPlace = inPlace,
                            .bytes = bytes,
                            .slotBytes = 1000};
          const std::string complaint = prove(*algorithm, shape, &proofs);
          if (!complaint.empty()) FAIL_CHECK(complaint);
        }
      }
    }
  }
  std::cout << proofs << " sets of schedules in pieces verified\n";
}

}  // namespace
}  // namespace tutti

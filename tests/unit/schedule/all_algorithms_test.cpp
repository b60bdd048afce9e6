// Every pass over every algorithm that there is, with every kind of shape: verified before, verified after.
#include <catch2/catch.hpp>

#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "src/base/text.hpp"
#include "src/schedule/passes.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti;

namespace {

using Schedules = std::vector<Schedule>;

Schedules buildAll(const Algorithm& a, Shape shape) {
  Schedules all;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) all.push_back(a.build(shape));
  return all;
}

template <class Pass>
Schedules each(const Schedules& schedules, Pass pass) {
  Schedules result;
  for (const Schedule& s : schedules) result.push_back(pass(s));
  return result;
}

bool rooted(Collective c) {
  return c == Collective::Broadcast || c == Collective::Reduce || c == Collective::Gather || c == Collective::Scatter;
}

int nodesOf(const Shape& shape) { return shape.nodeOf.back() + 1; }

/// Those that the algorithm supports.
std::vector<Shape> shapesOf(const Algorithm& a, int nRanks, bool inPlace, const std::vector<size_t>& messageBytes) {
  std::vector<Shape> shapes;
  for (const size_t bytes : messageBytes) {
    for (const int ranksPerNode : {nRanks, 4}) {
      Shape shape{.collective = a.collective, .nRanks = nRanks, .inPlace = inPlace, .bytes = 1 << 20};
      if (rooted(a.collective)) shape.root = nRanks / 2;
      shape.messageBytes = bytes;
      for (int r = 0; r < nRanks; ++r) shape.nodeOf.push_back(r / ranksPerNode);
      if (a.supports(shape)) shapes.push_back(shape);
    }
  }
  return shapes;
}

/// All algorithms on a number of ranks, in place and not, with a root in the middle, on one node and on several, for
/// every size of messages.  check(schedules) returns a complaint or "".  Shapes that make no difference to an algorithm
/// give the same schedules, which are checked once.
template <class Check>
void forAllAlgorithms(int nRanks, Check check, const std::vector<size_t>& messageBytes = {0}) {
  for (const Algorithm* a : algorithms()) {
    for (const bool inPlace : {false, true}) {
      std::vector<Schedules> seen;
      for (const Shape& shape : shapesOf(*a, nRanks, inPlace, messageBytes)) {
        Schedules schedules = buildAll(*a, shape);
        if (std::find(seen.begin(), seen.end(), schedules) != seen.end()) continue;
        const std::string complaint = check(schedules);
        seen.push_back(std::move(schedules));
        if (complaint.empty()) continue;
        FAIL_CHECK(collectiveKey(a->collective)
                   << " " << a->name << " on " << nRanks << " ranks, " << nodesOf(shape) << " nodes, messages of "
                   << shape.messageBytes << " bytes" << (inPlace ? ", in place: " : ": ") << complaint);
      }
    }
  }
}

const std::vector<int> kRankCounts =
    test::kThorough ? std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33} : std::vector<int>{1, 2, 3, 5, 8, 9};

}  // namespace

TEST_CASE("fused schedules of all algorithms verify", "[thorough]") {
  for (const int n : kRankCounts) forAllAlgorithms(n, [](const Schedules& s) { return verify(each(s, fuse)); });
}

TEST_CASE("schedules of all algorithms verify with messages of several chunks, also fused, replicated and direct",
          "[thorough]") {
  const auto twice = [](const Schedule& s) { return replicate(s, 2); };
  for (const int n : kRankCounts) {
    forAllAlgorithms(n,
                     [&](const Schedules& s) {
                       const Schedules fused = each(s, fuse);
                       return verify(s, {.slots = 1}) + verify(fused) + verify(each(fused, twice)) +
                              verify(markDirect(each(s, fuseForDirect))) + verify(markOrigins(fused));
                     },
                     {300'000, size_t{8} << 20, size_t{1} << 40});
  }
}

TEST_CASE("replicated schedules of all algorithms verify, and fuse") {
  const auto twice = [](const Schedule& s) { return replicate(s, 2); };
  for (const int n : {2, 5, 8}) {
    forAllAlgorithms(n,
                     [&](const Schedules& s) { return verify(each(s, twice)) + verify(each(each(s, twice), fuse)); });
  }
}

TEST_CASE("schedules of all algorithms verify with direct sends", "[thorough]") {
  for (const int n : kRankCounts) {
    forAllAlgorithms(n, [](const Schedules& s) {
      return verify(markDirect(s)) + verify(markDirect(each(s, fuse))) + verify(markDirect(each(s, fuseForDirect)));
    });
  }
}

TEST_CASE("reproducible schedules of all algorithms follow the reduction tree", "[thorough]") {
  for (const int n : kRankCounts) {
    forAllAlgorithms(n, [](const Schedules& s) { return verify(makeReproducible(s), {.slots = 1, .tree = true}); });
  }
}

TEST_CASE("reproducible schedules stay so under the other passes") {
  for (const int n : {3, 6, 8, 11}) {
    forAllAlgorithms(n, [](const Schedules& s) {
      const Schedules fused = each(makeReproducible(s), fuse);
      const auto three = [](const Schedule& one) { return replicate(one, 3); };
      return verify(fused, {.tree = true}) + verify(markDirect(each(fused, three)), {.tree = true});
    });
  }
}

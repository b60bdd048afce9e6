// With more than one slot, the chunks of one step travel together: log-round algorithms take about log n latencies.
#include <catch2/catch.hpp>

#include "src/schedule/passes.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/unit/algorithms/count.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti {
namespace {

std::vector<Schedule> hoisted(std::vector<Schedule> schedules, int slots) {
  for (Schedule& s : schedules) s = hoistSends(s, slots);
  return schedules;
}

TEST_CASE("hoisted schedules are proven with the slots they ask for, before and after fusing") {
  for (const Algorithm* a : algorithms()) {
    for (int n : {1, 2, 3, 5, 8, 13, 22}) {
      for (bool inPlace : {false, true}) {
        const Shape shape{
            .collective = a->collective, .nRanks = n, .inPlace = inPlace, .bytes = 1 << 20, .nodeOf = nodeShapes(n)[1]};
        if (!a->supports(shape)) continue;
        const std::vector<Schedule> plain = buildAll(*a, shape);
        std::vector<Schedule> fused = plain;
        for (Schedule& s : fused) s = fuse(s);
        INFO(describe(*a, shape));
        CHECK(verify(hoisted(plain, 2)) == "");
        CHECK(verify(hoisted(plain, 5)) == "");
        CHECK(verify(hoisted(fused, 4)) == "");
      }
    }
  }
}

TEST_CASE("with enough slots a step with several chunks waits once") {
  struct Row {
    Collective collective;
    const char* name;
    int waitsPerRound;
  };
  for (const Row& row :
       {Row{Collective::AllReduce, "circulant", 2}, Row{Collective::AllReduce, "halvingdoubling", 2},
        Row{Collective::AllGather, "bruck", 1}, Row{Collective::AllGather, "circulant", 1},
        Row{Collective::AllGather, "pat", 1}, Row{Collective::AllGather, "recursivedoubling", 1},
        Row{Collective::ReduceScatter, "circulant", 1}, Row{Collective::ReduceScatter, "recursivehalving", 1},
        Row{Collective::AllToAll, "bruck2", 1}, Row{Collective::AllToAll, "hypercube", 1}}) {
    const Algorithm* a = findAlgorithm(row.collective, row.name);
    const std::vector<Schedule> plain = buildAll(*a, {.collective = row.collective, .nRanks = 16, .bytes = 64});
    INFO(row.name);
    CHECK(count(hoisted(plain, 16)).waits == 4 * row.waitsPerRound);
    CHECK(count(hoisted(plain, 4)).waits < count(plain).waits);
    CHECK(count(hoisted(plain, 4)).waits > count(hoisted(plain, 16)).waits);
  }
}

TEST_CASE("hoisting leaves alone what is in step already") {
  for (const char* name : {"pairwise", "direct"}) {
    const Shape shape{.collective = Collective::AllToAll, .rank = 3, .nRanks = 8};
    Schedule plain = findAlgorithm(shape.collective, name)->build(shape);
    CHECK(hoistSends(plain, 4).lanes == plain.lanes);
    CHECK(hoistSends(plain, 1) == plain);
  }
}

}  // namespace
}  // namespace tutti

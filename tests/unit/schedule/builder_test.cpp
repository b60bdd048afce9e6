#include <catch2/catch.hpp>

#include "src/schedule/builder.hpp"
#include "src/schedule/reduction_tree.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/unit/schedule/ops_of.hpp"

using namespace tutti;

namespace {}  // namespace

TEST_CASE("working in Output reads Input where nothing has been written, and copies what was never touched") {
  struct Row {
    bool inPlace;
    const char* ops;
  };
  const auto row = GENERATE(values<Row>({
      {false,
       "send in[0] -> 1; recvReduce in[1] + rank 1 => out[1]; send out[1] -> 1; copy in[0] => out[0]; "
       "copy in[2] => out[2]; "},
      {true, "send out[0] -> 1; recvReduce out[1] + rank 1 => out[1]; send out[1] -> 1; "},
  }));
  ScheduleBuilder b({.nRanks = 2, .inPlace = row.inPlace}, 3);
  b.workInOutput();
  b.send(1, out(0));
  b.recvReduce(1, out(1));
  b.send(1, out(1));
  CHECK(opsOf(b.finish()) == row.ops);
}

TEST_CASE("working in Output without an Output is working in scratch") {
  ScheduleBuilder b({.collective = Collective::Reduce, .rank = 1, .nRanks = 3}, 2);
  b.workInOutput();
  b.recvReduce(2, out(1));
  b.recvReduce(2, out(1));
  b.send(0, out(1));
  b.send(0, out(0));
  const Schedule s = b.finish();
  CHECK(opsOf(s) ==
        "recvReduce in[1] + rank 2 => scratch[0]; recvReduce scratch[0] + rank 2 => scratch[0]; "
        "send scratch[0] -> 0; send in[0] -> 0; ");
  CHECK(s.nScratch == 1);
}

TEST_CASE("working in Output of a broadcast is about its root") {
  for (const int rank : {0, 1}) {
    ScheduleBuilder b({.collective = Collective::Broadcast, .rank = rank, .nRanks = 2}, 1);
    b.workInOutput();
    if (rank == 0) b.send(1, out(0));
    if (rank == 1) b.recv(0, out(0));
    CHECK(opsOf(b.finish()) == (rank == 0 ? "send in[0] -> 1; copy in[0] => out[0]; " : "recv rank 0 => out[0]; "));
  }
}

TEST_CASE("copies of a chunk onto itself are not in the schedule") {
  struct Row {
    Collective collective;
    Chunk source, dst;
  };
  const auto row = GENERATE(values<Row>({{Collective::AllReduce, in(1), out(1)},
                                         {Collective::AllGather, in(0), out(1)},
                                         {Collective::ReduceScatter, in(1), out(0)},
                                         {Collective::AllToAll, in(2), out(2)},
                                         {Collective::Gather, in(0), out(1)},
                                         {Collective::Scatter, in(1), out(0)},
                                         {Collective::Broadcast, in(0), out(0)},
                                         {Collective::Reduce, in(0), out(0)}}));
  for (const bool inPlace : {false, true}) {
    ScheduleBuilder b({.collective = row.collective, .rank = 1, .nRanks = 3, .root = 1, .inPlace = inPlace}, 2);
    b.copy(row.source, row.dst);
    b.copy(row.dst, row.dst);
    CHECK(b.finish().lanes[0].ops.size() == (inPlace ? 0 : 1));
  }
}

TEST_CASE("phases name the ops that follow, lane by lane") {
  ScheduleBuilder b({.nRanks = 2}, 1, 2);
  b.phase("empty").phase("first").send(1, in(0));
  b.phase("second").recv(1, out(0));
  b.lane(1).phase("other").send(1, in(0));
  const Schedule s = b.finish();
  CHECK(s.lanes[0].phases == std::vector<Phase>{{"first", 0}, {"second", 1}});
  CHECK(s.lanes[1].phases == std::vector<Phase>{{"other", 0}});
  CHECK(toString(s) ==
        "rank 0 of 2, allreduce, 1 chunks, 0 scratch, 1 channels\n"
        "lane 0\n  first\n    0: send in[0] -> 1\n  second\n    1: recv rank 1 => out[0]\n"
        "lane 1\n  other\n    0: send in[0] -> 1\n");
}

TEST_CASE("the reduction tree splits at the largest power of two") {
  struct Row {
    RankInterval node;
    int mid;
  };
  const auto row = GENERATE(
      values<Row>({{{0, 2}, 1}, {{0, 3}, 2}, {{0, 4}, 2}, {{0, 6}, 4}, {{4, 6}, 5}, {{0, 64}, 32}, {{0, 65}, 64}}));
  CHECK(treeSplit(row.node) == row.mid);
  CHECK(treeParent({row.node.lo, row.mid}, row.node.hi) == row.node);
  CHECK(treeParent({row.mid, row.node.hi}, row.node.hi) == row.node);
}

TEST_CASE("only nodes of the reduction tree have a parent in it") {
  CHECK(isTreeNode({0, 6}, 6));
  CHECK(isTreeNode({4, 6}, 6));
  CHECK_FALSE(isTreeNode({1, 3}, 6));
  CHECK_FALSE(isTreeNode({2, 6}, 6));
  CHECK(treeParent({0, 6}, 6).size() == 0);
}

// Good and bad schedules by hand: what the verifier accepts, and that it names what is wrong.
#include <catch2/catch.hpp>

#include "src/schedule/builder.hpp"
#include "src/schedule/verifier.hpp"

using namespace tutti;

namespace {

using Schedules = std::vector<Schedule>;

/// The schedules that `write(builder, rank)` makes for every rank.
template <class Write>
Schedules schedulesOf(Shape shape, int nChunks, int nLanes, Write write) {
  Schedules all;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) {
    ScheduleBuilder b(shape, nChunks, nLanes);
    write(b, shape.rank);
    all.push_back(b.finish());
  }
  return all;
}

Shape shapeOf(Collective c, int nRanks, bool inPlace = false) {
  return {.collective = c, .nRanks = nRanks, .inPlace = inPlace};
}

/// Reduce of two ranks to rank 0.
void reduceToZero(ScheduleBuilder& b, int rank) {
  if (rank == 0) {
    b.recvReduce(1, in(0), out(0));
  } else {
    b.send(0, in(0));
  }
}

/// A collective of two ranks with one chunk, whose schedules `write` makes, and what the verifier has to say.
template <class Write>
std::string complaint(Collective c, Write write, bool inPlace = false, int nChunks = 1, int nLanes = 1) {
  return verify(schedulesOf(shapeOf(c, 2, inPlace), nChunks, nLanes, write));
}

#define CHECK_COMPLAINT(text, part)                    \
  do {                                                 \
    const std::string complaint_ = text;               \
    CAPTURE(complaint_);                               \
    CHECK(complaint_.find(part) != std::string::npos); \
  } while (0)

}  // namespace

TEST_CASE("right schedules of every collective are accepted") {
  CHECK(complaint(Collective::Reduce, reduceToZero).empty());
  CHECK(complaint(Collective::Reduce, reduceToZero, true).empty());
  CHECK(complaint(Collective::AllReduce, [](auto& b, int r) {
          b.send(1 - r, in(0));
          b.recvReduce(1 - r, in(0), out(0));
        }).empty());
  CHECK(complaint(Collective::Broadcast, [](auto& b, int r) {
          if (r == 0) b.send(1, in(0)), b.copy(in(0), out(0));
          if (r == 1) b.recv(0, out(0));
        }).empty());
  for (const bool inPlace : {false, true}) {
    CHECK(complaint(
              Collective::AllGather,
              [](auto& b, int r) {
                b.copy(in(0), out(r));
                b.send(1 - r, in(0));
                b.recv(1 - r, out(1 - r));
              },
              inPlace)
              .empty());
    CHECK(complaint(
              Collective::ReduceScatter,
              [](auto& b, int r) {
                b.send(1 - r, in(1 - r));
                b.recvReduce(1 - r, in(r), out(0));
              },
              inPlace)
              .empty());
    CHECK(complaint(
              Collective::AllToAll,
              [](auto& b, int r) {
                b.copy(in(r), out(r));
                b.send(1 - r, in(1 - r));
                b.recv(1 - r, out(1 - r));
              },
              inPlace)
              .empty());
    CHECK(complaint(
              Collective::Gather,
              [](auto& b, int r) {
                if (r == 0) b.copy(in(0), out(0)), b.recv(1, out(1));
                if (r == 1) b.send(0, in(0));
              },
              inPlace)
              .empty());
    CHECK(complaint(
              Collective::Scatter,
              [](auto& b, int r) {
                if (r == 0) b.send(1, in(1)), b.copy(in(0), out(0));
                if (r == 1) b.recv(0, out(0));
              },
              inPlace)
              .empty());
  }
  CHECK(complaint(Collective::Barrier, [](auto& b, int r) {
          b.sendToken(1 - r);
          b.recvToken(1 - r);
        }).empty());
}

TEST_CASE("a wrong final value is named") {
  CHECK_COMPLAINT(complaint(Collective::AllGather,
                            [](auto& b, int r) {
                              b.send(1 - r, in(0));
                              b.copy(in(0), out(1 - r));
                              b.recv(1 - r, out(r));
                            }),
                  "rank 0: out[0] ends with chunk 0 of rank 1, not chunk 0 of rank 0");
  CHECK_COMPLAINT(complaint(Collective::AllReduce, [](auto& b, int) { b.copy(in(0), out(0)); }),
                  "rank 0: out[0] ends with chunk 0 of rank 0, not chunk 0 of all ranks");
  CHECK_COMPLAINT(complaint(Collective::AllReduce, [](auto&, int) {}), "rank 0: out[0] was never written");
}

TEST_CASE("a deadlock says who waits for whom") {
  CHECK_COMPLAINT(complaint(Collective::AllReduce,
                            [](auto& b, int r) {
                              b.recvReduce(1 - r, in(0), out(0));
                              b.send(1 - r, in(0));
                            }),
                  "deadlock: rank 0 lane 0 op 0 (recvReduce in[0] + rank 1 => out[0]) waits for a message from rank 1; "
                  "rank 1 lane 0 op 0 (recvReduce in[0] + rank 0 => out[0]) waits for a message from rank 0; and so "
                  "round from rank 0");
  const auto twoThenTwo = [](auto& b, int r) {
    for (const int c : {0, 1}) b.send(1 - r, in(c));
    for (const int c : {0, 1}) b.recvReduce(1 - r, in(c), out(c));
  };
  CHECK_COMPLAINT(complaint(Collective::AllReduce, twoThenTwo, false, 2), "waits for room in the FIFO to rank 1");
  CHECK(verify(schedulesOf(shapeOf(Collective::AllReduce, 2), 2, 1, twoThenTwo), {.slots = 2}).empty());
  CHECK_COMPLAINT(complaint(Collective::Reduce,
                            [](auto& b, int r) {
                              if (r == 0) b.recvReduce(1, in(0), out(0));
                            }),
                  "waits for a message from rank 1; rank 1 has finished");
}

TEST_CASE("a message that nobody takes is an error") {
  CHECK_COMPLAINT(complaint(Collective::Reduce,
                            [](auto& b, int r) {
                              reduceToZero(b, r);
                              if (r == 1) b.send(0, in(0));
                            }),
                  "lane 0: 1 message(s) from rank 1 to rank 0 left at the end");
}

TEST_CASE("reads and reductions that make no sense are errors") {
  CHECK_COMPLAINT(complaint(Collective::AllReduce, [](auto& b, int r) { b.send(1 - r, out(0)); }),
                  "reads out[0], which was never written");
  CHECK_COMPLAINT(complaint(
                      Collective::AllReduce,
                      [](auto& b, int r) {
                        b.send(1 - r, in(0));
                        b.recvReduce(1 - r, in(1), out(1));
                      },
                      false, 2),
                  "do not belong together: chunk 1 of rank 1 with chunk 0 of rank 0");
  CHECK_COMPLAINT(complaint(Collective::AllReduce,
                            [](auto& b, int r) {
                              b.send(1 - r, in(0));
                              b.recvReduce(1 - r, in(0), out(0));
                              b.reduce(out(0), in(0), out(0));
                            }),
                  "rank 1 would contribute twice: combines chunk 0 of ranks 0-1 with chunk 0 of rank 1");
  CHECK_COMPLAINT(complaint(Collective::AllGather, [](auto& b, int) { b.reduce(in(0), in(0), out(0)); }),
                  "no operator");
}

TEST_CASE("Input belongs to the caller, but for what is Output too") {
  const auto writesInput = [](auto& b, int r) {
    b.send(1 - r, in(0));
    b.recvReduce(1 - r, in(0), in(0));
    b.copy(in(0), out(0));
  };
  CHECK_COMPLAINT(complaint(Collective::AllReduce, writesInput), "writes to in[0], which is the caller's");
  CHECK(complaint(Collective::AllReduce, writesInput, true).empty());
  CHECK_COMPLAINT(complaint(
                      Collective::ReduceScatter, [](auto& b, int r) { b.copy(in(r), in(1 - r)); }, true),
                  "rank 0 lane 0 op 0 (copy in[0] => in[1]): writes to in[1]");
}

TEST_CASE("indices, peers and the forms of ops are checked before anything runs") {
  struct Row {
    Op op;
    const char* part;
  };
  const auto row = GENERATE(values<Row>({
      {{.sources = {in(1)}, .dst = out(0), .hasDst = true}, "in[1] is out of range: this rank has 1 chunks there"},
      {{.sources = {in(0)}, .dst = scratch(0), .hasDst = true}, "scratch[0] is out of range"},
      {{.sources = {in(0)}, .dst = out(-1), .hasDst = true}, "out[-1] is out of range"},
      {{.to = {2}, .sources = {in(0)}}, "there is no rank 2"},
      {{.to = {-1}, .sources = {in(0)}}, "there is no rank -1"},
      {{.to = {0}, .sources = {in(0)}}, "cannot exchange messages with itself"},
      {{.to = {1, 1}, .sources = {in(0)}}, "names rank 1 twice"},
      {{.from = {1, 1}, .dst = out(0), .hasDst = true}, "names rank 1 twice"},
      {{.dst = out(0), .hasDst = true}, "has no operand"},
      {{.sources = {in(0)}}, "does nothing with its value"},
      {{.to = {1}, .token = true}, "a token outside of a Barrier"},
      {{.from = {1}, .dst = out(0), .hasDst = true, .direct = true}, "direct is for"},
  }));
  Schedules all = schedulesOf(shapeOf(Collective::AllReduce, 2), 1, 1, [](auto&, int) {});
  all[0].lanes[0].ops.push_back(row.op);
  CHECK_COMPLAINT(verify(all), row.part);
}

TEST_CASE("schedules that do not belong together are refused") {
  const Schedules good = schedulesOf(shapeOf(Collective::Reduce, 2), 1, 1, reduceToZero);
  Schedules all = good;
  all[1].rank = 0;
  CHECK_COMPLAINT(verify(all), "schedule 1 is of rank 0");
  all = good;
  all.pop_back();
  CHECK_COMPLAINT(verify(all), "is for 2 ranks, but there are 1 schedules");
  all = good;
  all[1].nChunks = 2;
  CHECK_COMPLAINT(verify(all), "different collectives, roots or numbers of chunks");
  all = good;
  for (Schedule& s : all) s.nChannels = 2;
  CHECK_COMPLAINT(verify(all), "1 lanes are not divisible into 2 channels");
  CHECK_COMPLAINT(verify({}), "no schedules");
}

TEST_CASE("lanes may not share a chunk that one of them writes, unless they are of different channels") {
  const auto halves = [](auto& b, int r) {
    for (const int c : {0, 1}) {
      b.lane(c).send(1 - r, in(c));
      b.lane(c).recvReduce(1 - r, in(c), out(c));
    }
  };
  CHECK(complaint(Collective::AllReduce, halves, false, 2, 2).empty());
  const auto same = [](auto& b, int r) {
    for (const int lane : {0, 1}) {
      b.lane(lane).send(1 - r, in(0));
      b.lane(lane).recvReduce(1 - r, in(0), out(0));
    }
  };
  CHECK_COMPLAINT(complaint(Collective::AllReduce, same, false, 1, 2),
                  "rank 0 lane 1 op 1 (recvReduce in[0] + rank 1 => out[0]): out[0] is shared between lanes");
  Schedules channels = schedulesOf(shapeOf(Collective::AllReduce, 2), 1, 2, same);
  for (Schedule& s : channels) s.nChannels = 2;
  CHECK(verify(channels).empty());
  // Scratch belongs to one channel.
  for (Schedule& s : channels) {
    s.nScratch = 1;
    for (Lane& lane : s.lanes) lane.ops.push_back({.sources = {in(0)}, .dst = scratch(0), .hasDst = true});
  }
  CHECK_COMPLAINT(verify(channels), "scratch[0] is shared between lanes");
}

TEST_CASE("each lane has FIFOs of its own") {
  // The message of lane 0 is not lane 1's.
  CHECK_COMPLAINT(complaint(
                      Collective::Reduce,
                      [](auto& b, int r) {
                        if (r == 0) b.lane(1).recvReduce(1, in(0), out(0));
                        if (r == 1) b.lane(0).send(0, in(0));
                      },
                      false, 1, 2),
                  "lane 0: 1 message(s) from rank 1 to rank 0 left at the end");
}

TEST_CASE("a direct send borrows its source until it has been taken") {
  Schedules exchange = schedulesOf(shapeOf(Collective::AllReduce, 2, true), 1, 1, [](auto& b, int r) {
    b.send(1 - r, out(0));
    b.recvReduce(1 - r, out(0));
  });
  CHECK(verify(exchange).empty());
  exchange[0].lanes[0].ops[0].direct = true;
  CHECK(verify(exchange).empty());
  exchange[1].lanes[0].ops[0].direct = true;
  CHECK_COMPLAINT(verify(exchange), "waits until its direct op 0 has been taken");
}

TEST_CASE("rank order and the reduction tree are required on demand") {
  const auto chain = [](auto& b, int r) {  // ((0 1) 2) 3
    if (r == 0) b.send(1, in(0));
    const Chunk received = b.newScratch();
    if (r > 0) b.recv(r - 1, received);
    if (r > 0) b.reduce(received, in(0), received);
    if (r == 1 || r == 2) b.send(r + 1, received);
    if (r == 3) b.send(0, received);
    if (r == 0) b.recv(3, out(0));
  };
  const Schedules inOrder = schedulesOf(shapeOf(Collective::Reduce, 4), 1, 1, chain);
  CHECK(verify(inOrder).empty());
  CHECK(verify(inOrder, {.ordered = true}).empty());
  CHECK_COMPLAINT(verify(inOrder, {.tree = true}),
                  "does not follow the reduction tree: combines chunk 0 of ranks 0-1 with chunk 0 of rank 2");
  const Schedules backwards = schedulesOf(shapeOf(Collective::Reduce, 2), 1, 1, [](auto& b, int r) {
    if (r == 0) b.recv(1, out(0)), b.reduce(out(0), in(0), out(0));
    if (r == 1) b.send(0, in(0));
  });
  CHECK(verify(backwards).empty());
  CHECK_COMPLAINT(verify(backwards, {.ordered = true}), "combines out of rank order");
}

TEST_CASE("a barrier holds every rank until all have come") {
  CHECK_COMPLAINT(complaint(Collective::Barrier,
                            [](auto& b, int r) {
                              if (r == 0) b.sendToken(1);
                              if (r == 1) b.recvToken(0);
                            }),
                  "rank 0 can leave the barrier before rank 1 has come to it");
  CHECK_COMPLAINT(complaint(Collective::Barrier, [](auto& b, int r) { b.recvToken(1 - r); }), "deadlock");
  // What a rank hears after it has sent does not travel with what it sent before.
  const auto tooEarly = schedulesOf(shapeOf(Collective::Barrier, 3), 1, 1, [](auto& b, int r) {
    b.sendToken((r + 1) % 3);
    b.recvToken((r + 2) % 3);
  });
  CHECK_COMPLAINT(verify(tooEarly), "rank 0 can leave the barrier before rank 1 has come to it");
}

namespace {

/// AllReduce of two chunks between two ranks, in messages of two chunks, and a change to rank 1's schedule.
template <class Change>
std::string complaintAboutJoined(Change change) {
  Shape shape{.collective = Collective::AllReduce, .nRanks = 2, .bytes = 64};
  shape.messageBytes = 64;
  Schedules all = schedulesOf(shape, 2, 1, [](ScheduleBuilder& b, int rank) {
    b.step();
    for (int c = 0; c < 2; ++c) b.send(1 - rank, in(c));
    for (int c = 0; c < 2; ++c) b.recvReduce(1 - rank, in(c), out(c));
  });
  change(all[1].lanes[0].ops);
  return verify(all);
}

}  // namespace

TEST_CASE("messages of several chunks are proven, and mistakes in them are found") {
  using Ops = std::vector<Op>;
  CHECK(complaintAboutJoined([](Ops& ops) {
          REQUIRE(ops.size() == 4);
          CHECK((!ops[0].joined && ops[1].joined && !ops[2].joined && ops[3].joined));
        }) == "");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { ops[1].joined = false; }),
                  "takes 2 chunk(s) from rank 1, whose message has 1");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { ops[3].joined = false; }),
                  "takes 1 chunk(s) from rank 0, whose message has 2");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { std::swap(ops[2].sources, ops[3].sources); }),
                  "do not belong together");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { ops[0].joined = true; }), "is joined to nothing");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { ops[2].joined = true; }), "is joined to an op with other peers");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { ops[0].direct = true; }), "cannot be part of a message");
  CHECK_COMPLAINT(complaintAboutJoined([](Ops& ops) { ops[3].sources[0] = out(0); }), "of the same message writes");
}

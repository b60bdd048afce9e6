// What estimates cost: the closed formulas of the algorithms, in a clean linear model; and what no formula knows.
#include "src/plan/estimates.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "src/exec/plan.hpp"
#include "src/plan/machine_levels.hpp"
#include "src/schedule/builder.hpp"
#include "src/schedule/passes.hpp"
#include "transport/ncclnet/entry.hpp"
#include "transport/shm/entry.hpp"
#include "transport/table.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti {
namespace {

constexpr double kAlpha = 2, kGBps = 5, kReduceGBps = 20;
constexpr double kBeta = 1 / (kGBps * 1e3), kGamma = 1 / (kReduceGBps * 1e3);

/// alpha + bytes * beta a message, all of it on the way: two ends that are never busy.
sim::Prices linear() {
  sim::Prices prices;
  prices.copied[0] = prices.copied[1] = {.latencyUs = kAlpha, .receiveUsPerByte = kBeta};
  prices.reduceUsPerByte = kGamma;
  return prices;
}

Shape shapeOf(Collective collective, int nRanks, size_t bytes) {
  return {.collective = collective, .nRanks = nRanks, .inPlace = true, .bytes = bytes, .slotBytes = size_t{1} << 40};
}

sim::Bound boundOf(Collective collective, const char* name, const Shape& shape, bool classes) {
  const Algorithm* algorithm = findAlgorithm(collective, name);
  sim::ProgramSource question{
      .name = name, .build = algorithm->build, .shape = shape, .options = {.bundled = true}, .switchesUs = {}};
  question.together = 1;
  auto roles = classes ? sim::classRoles(question) : sim::allRoles(question);
  REQUIRE(roles.status().message() == "");
  return sim::bind(std::move(*roles), {});
}

/// The first estimate, of all ranks and, where there are, of classes.
double estimatedUs(Collective collective, const char* name, int nRanks, size_t bytes, size_t messageBytes = 0) {
  Shape shape = shapeOf(collective, nRanks, bytes);
  shape.messageBytes = messageBytes;
  const sim::Bound all = boundOf(collective, name, shape, false);
  const double chunk = all.roles.programs[0]->chunkBytes;
  const auto estimated = sim::estimate(all, linear(), chunk, 1);
  const auto byClasses = sim::estimate(boundOf(collective, name, shape, true), linear(), chunk, 1);
  REQUIRE((estimated.ok() && byClasses.ok()));
  CHECK(byClasses->firstUs == Approx(estimated->firstUs));
  return estimated->firstUs;
}

/// What a ring does with its first chunk.
std::vector<Schedule> firstChunkOfRing(Shape shape) {
  std::vector<Schedule> all;
  const int n = shape.nRanks;
  for (shape.rank = 0; shape.rank < n; ++shape.rank) {
    ScheduleBuilder b(shape, /*nChunks=*/1);
    b.workInOutput();
    const int next = (shape.rank + 1) % n, prev = (shape.rank + n - 1) % n;
    if (shape.rank > 0) b.recvReduce(prev, out(0));
    b.send(next, out(0));
    if (shape.rank < n - 1) b.recv(prev, out(0));
    if (shape.rank < n - 2) b.send(next, out(0));
    all.push_back(b.finish());
  }
  return all;
}

/// Ops that send, receive or combine in plans of a call on so many floats.
size_t boundOps(const std::vector<Schedule>& all, size_t elements) {
  size_t ops = 0;
  for (const Schedule& s : all) {
    const auto plan = bindPlan(s, evenLayout(s, elements, sizeof(float)), sizeof(float), size_t{1} << 20,
                               [](int, int) { return Result<Endpoint*>(nullptr); });
    REQUIRE(plan.status().message() == "");
    for (const BoundLane& lane : (*plan)->lanes) ops += lane.ops.size();
  }
  return ops;
}

int ceilLog(int n) { return static_cast<int>(std::ceil(std::log2(n) - 1e-9)); }

Calibration figures() { return defaultCalibration({"test cpu", 8, "test"}, linkKinds()); }

PlanRequest request(Collective collective, int nodes, int perNode, size_t bytes) {
  PlanRequest r;
  r.shape = {.collective = collective, .nRanks = nodes * perNode, .bytes = bytes};
  if (perNode > 1) r.links.intra = kShmProcesses;
  if (nodes > 1) {
    r.links.inter = kTcpRemote;
    for (int i = 0; i < nodes * perNode; ++i) r.shape.nodeOf.push_back(i / perNode);
  }
  return r;
}

double costUs(const PlanRequest& r, const char* name, Protocol protocol = Protocol::Slots) {
  Estimates estimates;
  const auto us = estimates.cost(r, figures(), {*findAlgorithm(r.shape.collective, name), protocol, {}});
  REQUIRE(us.status().message() == "");
  return us->us;
}

}  // namespace

TEST_CASE("the estimate of a schedule costs what its closed formula says") {
  const int n = GENERATE(2, 3, 4, 8, 13, 16);
  const size_t bytes = GENERATE(size_t{0}, size_t{1000}, size_t{1} << 24);
  CAPTURE(n, bytes);
  const double part = double(bytes) * (n - 1) / n, blocks = double(bytes) * (n - 1);
  const auto allReduce = [&](const char* name) { return estimatedUs(Collective::AllReduce, name, n, bytes); };
  CHECK(allReduce("ring") == Approx(2 * (n - 1) * kAlpha + part * (2 * kBeta + kGamma)));
  CHECK(estimatedUs(Collective::AllGather, "ring", n, bytes) == Approx((n - 1) * kAlpha + blocks * kBeta));
  CHECK(estimatedUs(Collective::ReduceScatter, "ring", n, bytes) ==
        Approx((n - 1) * kAlpha + blocks * (kBeta + kGamma)));
  CHECK(estimatedUs(Collective::AllGather, "direct", n, bytes) == Approx(kAlpha + blocks * kBeta));
  CHECK(estimatedUs(Collective::AllToAll, "direct", n, bytes) ==
        Approx(kAlpha + blocks * kBeta).margin(double(bytes) / 1e7 + 1e-9));
  CHECK(allReduce("twoshot") == Approx(2 * kAlpha + part * (2 * kBeta + kGamma)));
  if (std::has_single_bit(unsigned(n))) {
    CHECK(allReduce("recursivedoubling") == Approx(ceilLog(n) * (kAlpha + double(bytes) * (kBeta + kGamma))));
  }
  // Blocks that share a step are as many messages, or one if they fit.
  CHECK(allReduce("circulant") == Approx(2 * (n - 1) * kAlpha + part * (2 * kBeta + kGamma)));
  CHECK(estimatedUs(Collective::AllReduce, "circulant", n, bytes, size_t{1} << 40) ==
        Approx(2 * ceilLog(n) * kAlpha + part * (2 * kBeta + kGamma)));
}

TEST_CASE("operands that come together cost what the pass that combines them takes of each") {
  const int n = GENERATE(3, 4, 8);
  const double bytes = 1 << 20;
  const Shape shape = shapeOf(Collective::Reduce, n, size_t{1} << 20);
  auto roles = sim::allRoles({.name = "direct",
                              .build = findAlgorithm(Collective::Reduce, "direct")->build,
                              .shape = shape,
                              .options = {},
                              .switchesUs = {}});
  REQUIRE(roles.ok());
  const sim::Bound bound = sim::bind(std::move(*roles), {});
  sim::Prices prices = linear();
  const auto us = [&] {
    const auto estimated = sim::estimate(bound, prices, bytes, 1);
    REQUIRE(estimated.ok());
    CHECK(sim::loadOf(bound, prices, bytes).busyUs <= estimated->busyUs * (1 + 1e-9));
    return estimated->firstUs;
  };
  const double one = kAlpha + bytes * (kBeta + kGamma);  // the first message and the root's own part
  CHECK(us() == Approx(one + (n - 2) * bytes * (sim::kFurtherOperands * kBeta + kGamma)));
  for (const double further : {0.5 * kBeta, 2 * kGamma, 3 * kBeta}) {
    prices.copied[0].furtherUsPerByte = further;
    CHECK(us() == Approx(one + (n - 2) * bytes * further));
  }
}

TEST_CASE("messages of several chunks are compared where two fit a slot, cheaper where messages are dear, and said") {
  const auto rowsOf = [](const PlanRequest& r) {
    const auto choice = plan(r, figures());
    REQUIRE(choice.ok());
    size_t joined = 0;
    for (const Candidate& row : choice->table) joined += row.joined ? 1 : 0;
    const bool said = explain(r, *choice).find("chunks joined") != std::string::npos;
    CHECK(said == (joined > 0));
    return joined;
  };
  PlanRequest r = request(Collective::AllReduce, 1, 8, 64 << 10);
  r.links.intra = kTcpLocal;
  r.wholeTable = true;
  CHECK(rowsOf(r) == 0);
  r.joinBytes = r.shape.slotBytes;
  CHECK(rowsOf(r) > 0);
  r.shape.bytes = 8 * r.shape.slotBytes;  // a chunk fills a slot
  CHECK(rowsOf(r) == 0);
  r.shape.bytes = 64 << 10;
  r.shape.commutative = false;  // partial results travel as they are
  CHECK(rowsOf(r) == 0);
  r.shape.commutative = true;
  r.overrides.algorithm[static_cast<size_t>(Collective::AllReduce)] = findAlgorithm(Collective::AllReduce, "circulant");
  for (const int nRanks : {8, 24}) {  // rewritten all; by classes
    r.shape.nRanks = nRanks;
    r.overrides.joined = std::nullopt;
    const auto chosen = plan(r, figures());
    r.overrides.joined = false;
    const auto single = plan(r, figures());
    r.overrides.joined = true;
    const auto joined = plan(r, figures());
    REQUIRE((chosen.ok() && single.ok() && joined.ok()));
    CHECK((chosen->joined && joined->joined && !single->joined));
    CHECK(joined->costUs < 0.85 * single->costUs);
    CHECK(chosen->costUs == Approx(joined->costUs));
  }
}

TEST_CASE("ranks of a host that are known from its first one do what their own schedules say") {
  int compared = 0;
  for (const Algorithm* a : algorithms()) {
    Shape shape = shapeOf(a->collective, 32, 100'000);
    for (int rank = 0; rank < shape.nRanks; ++rank) shape.nodeOf.push_back(rank / 4);
    if (!a->supports(shape)) continue;
    sim::ProgramSource question{
        .name = a->name, .build = a->build, .shape = shape, .options = {.bundled = true}, .switchesUs = {}};
    if (a->grid != nullptr) question.grid = a->grid(shape);
    question.symmetryOnly = true;
    auto quick = sim::classRoles(question);
    if (!quick.ok()) continue;
    CAPTURE(a->name, collectiveName(a->collective));
    const auto all = sim::allRoles(question);
    REQUIRE(all.ok());
    ++compared;
    for (size_t local = 0; local < 4; ++local) {
      CHECK(quick->programs[local]->edges == all->programs[local]->edges);
      CHECK(*quick->programs[local]->lanes == *all->programs[local]->lanes);
    }
  }
  CHECK(compared > 20);
}

TEST_CASE("slices overlap along a chain, ranks that share cores take turns, hosts share their wire") {
  PlanRequest r = request(Collective::Broadcast, 1, 8, size_t{8} << 20);
  const double piped = costUs(r, "chain");
  r.shape.slotBytes = size_t{1} << 30;
  CHECK(piped < costUs(r, "chain"));
  r.shape.slotBytes = 128 * 1024;
  r.links.ranksPerCore = 8;
  CHECK(costUs(r, "chain") > 3 * piped);
  // A ring enters each host once; direct messages of eight ranks all leave by one wire.
  const PlanRequest hosts = request(Collective::AllGather, 2, 8, size_t{1} << 20);
  const double wireUs = (1 << 20) / (figures().at(kTcpRemote, Protocol::Slots).cost.bandwidthGBps * 1e3);
  CHECK(costUs(hosts, "ring") < 18 * wireUs);
  CHECK(costUs(hosts, "direct") > 60 * wireUs);
}

TEST_CASE("what a call with a root costs alone counts for more through memory than by system calls") {
  LinkProfile byCalls = kShmProcesses;
  byCalls.systemCalls = true;  // at the same figures
  const auto times = [&](Collective collective, const char* name) {
    PlanRequest r = request(collective, 1, 4, 64 * 1024);
    const double memoryUs = costUs(r, name);
    r.links.intra = byCalls;
    return memoryUs / costUs(r, name);
  };
  CHECK(times(Collective::Reduce, "chain") > 1.3);  // in a row each rank works on another call
  CHECK(times(Collective::AllGather, "ring") == Approx(1));
}

TEST_CASE("the fullest core decides, not the mean of all") {
  // Inner ranks of a binomial tree are the even ones, which share a core; along skips they are spread.
  PlanRequest r = request(Collective::Reduce, 1, 8, 64 * 1024);
  r.links.ranksPerCore = 4;
  CHECK(costUs(r, "circulant") < 0.9 * costUs(r, "binomial"));
}

TEST_CASE("ranks of hosts that are parts of one machine share all of its cores") {
  PlanRequest r = request(Collective::AllGather, 4, 2, 8);
  r.joinBytes = 4096;
  const double apart = costUs(r, "hierarchical");
  r.links.ranksPerCore = 4;  // 8 ranks on 2 cores
  const double ownCores = costUs(r, "hierarchical");
  r.links.nodesShareCores = true;
  CHECK(costUs(r, "hierarchical") > 3 * apart);    // all messages are work of two cores,
  CHECK(costUs(r, "hierarchical") > ownCores);     // not of one core of each host
  CHECK(plan(r, figures())->name() == "leaders");  // messages between hosts are one rank's of each host
  r.links.ranksPerCore = 1;
  CHECK(costUs(r, "hierarchical") == Approx(apart));  // a core each: nothing is cold
  // The inner ranks of a binomial tree are the first of each host, which are not on one core for that.
  PlanRequest tree = request(Collective::Reduce, 4, 2, 8);
  tree.links.ranksPerCore = 4;
  tree.links.nodesShareCores = true;
  CHECK(costUs(tree, "binomial") < 1.1 * costUs(tree, "chain"));
  // Many ranks are estimated by classes: all work takes as much longer.
  PlanRequest many = request(Collective::AllReduce, 64, 8, 8);
  const double alone = costUs(many, "ring");
  many.links.ranksPerCore = 16;
  many.links.nodesShareCores = true;
  CHECK(costUs(many, "ring") > 4 * alone);
}

TEST_CASE("hosts that share cores pay more for every message with every rank, and no more for the wire") {
  Calibration slowWire = figures();
  slowWire.at(kTcpRemote, Protocol::Slots).cost.bandwidthGBps = 0.115;
  slowWire.at(kTcpLocal, Protocol::Slots).cost.latencyUs = 12;
  PlanRequest r = request(Collective::AllGather, 4, 2, 8);
  const auto us = [&](double ranksPerCore) {
    r.links.ranksPerCore = ranksPerCore;
    r.links.nodesShareCores = ranksPerCore > 1;
    const auto cost =
        Estimates().cost(r, slowWire, {*findAlgorithm(r.shape.collective, "recursivedoubling"), Protocol::Slots, {}});
    REQUIRE(cost.ok());
    return cost->us;
  };
  CHECK(us(2) > us(1));
  CHECK(us(4) > 3 * us(2));  // twice the ranks, and each of them slower
  r.shape.bytes = size_t{4} << 20;
  CHECK(us(4) < 1.1 * us(1));
  // Work is what this machine's messages take, not what is taken for granted of links between hosts.
  r.shape.bytes = 8;
  const double slowMachine = us(4);
  slowWire.at(kTcpLocal, Protocol::Slots).cost.latencyUs = 4;
  CHECK(us(4) < slowMachine / 2);
}

TEST_CASE("looks for messages of other hosts take the core, those for messages of this host do not") {
  // Leaders alone wait for other hosts; by rails all do.
  PlanRequest r = request(Collective::AllGather, 4, 4, 8);
  r.joinBytes = 4096;
  r.links.ranksPerCore = 8;
  const auto prices = [&](bool share) {
    r.links.nodesShareCores = share;
    return pricesOf(r, figures(), Protocol::Slots);
  };
  CHECK(prices(true).copied[1].lookUs > 0);
  CHECK(prices(true).copied[0].lookUs == 0);
  CHECK(prices(false).copied[1].lookUs == 0);
  CHECK(prices(true).turnUs == prices(false).turnUs);
}

TEST_CASE("where hosts share cores, leaders win that cost about as much, as long as their messages are whole") {
  Calibration slowWire = figures();
  slowWire.at(kTcpRemote, Protocol::Slots).cost.bandwidthGBps = 0.115;
  const auto nameOf = [&](Collective collective, size_t bytes, bool share) {
    PlanRequest r = request(collective, 4, 2, bytes);
    r.joinBytes = 128 << 10;
    r.links.ranksPerCore = 4;
    r.links.nodesShareCores = share;
    r.wholeTable = true;
    const Result<Choice> choice = plan(r, slowWire);
    REQUIRE(choice.ok());
    double best = HUGE_VAL, leaders = HUGE_VAL;
    for (const Candidate& row : choice->table) {
      if (!row.excluded.empty()) continue;
      best = std::min(best, row.comparedUs());
      if (row.name() == "leaders") leaders = std::min(leaders, row.comparedUs());
    }
    const size_t message = collective == Collective::AllToAll ? 4 * bytes : 2 * bytes;
    const bool take = share && message <= r.joinBytes && leaders <= 1.15 * best;
    INFO(collectiveName(collective) << " " << bytes << " leaders " << leaders << " best " << best);
    CHECK((choice->name() == "leaders") == (take || leaders <= best));
    return std::string(choice->name());
  };
  for (const Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
    CHECK(nameOf(c, 1024, true) == "leaders");
    for (const size_t bytes : {size_t{8} << 10, size_t{64} << 10, size_t{1} << 20}) nameOf(c, bytes, true);
    nameOf(c, 8 << 10, false);
  }
}

TEST_CASE("what goes to several ranks is copied in once") {
  PlanRequest r = request(Collective::Broadcast, 1, 8, 64 * 1024);
  r.links.ranksPerCore = 8;  // all work adds up: a copy in and seven out, or seven of each
  CHECK(costUs(r, "direct") < 0.8 * costUs(r, "chain"));
}

TEST_CASE(
    "what its owner has just written takes longer to read from another core, and what it was given half of that") {
  PlanRequest r = request(Collective::AllGather, 1, 4, size_t{64} << 10);
  r.directPossible = true;
  Calibration slow = figures();
  slow.at(kShmProcesses, Protocol::Direct).freshGBps = 0.01;
  const auto ratio = [&](const char* algorithm) {
    const auto us = [&](const Calibration& c) {
      const Algorithm* a = findAlgorithm(Collective::AllGather, algorithm);
      const auto cost = Estimates().cost(r, c, {*a, Protocol::Direct, {}});
      REQUIRE(cost.ok());
      return cost->us;
    };
    return us(slow) / us(figures());
  };
  // Everyone's input, which may have been written before the call; what is passed on has been.
  CHECK(ratio("direct") > 10);
  CHECK(ratio("ring") > 1.3 * ratio("direct"));
  r.links.ranksPerCore = 4;  // all on one core
  CHECK(ratio("ring") == Approx(1));
}

TEST_CASE("ranks of one core pay what both ends of a message take there, and the hand-over") {
  PlanRequest r = request(Collective::AllGather, 1, 2, size_t{64} << 10);
  Calibration quick = figures();
  quick.at(kShmProcesses, Protocol::Slots).here.bandwidthGBps *= 8;
  const auto us = [&](const Calibration& c) {
    return Estimates().cost(r, c, {*findAlgorithm(Collective::AllGather, "ring"), Protocol::Slots, {}})->us;
  };
  CHECK(us(quick) == us(figures()));
  r.links.ranksPerCore = 2;
  CHECK(us(quick) < 0.6 * us(figures()));
}

TEST_CASE("small messages go through the channel where larger ones are read where they lie") {
  PlanRequest r = request(Collective::AllGather, 1, 2, kLeastDirectBytes);
  r.directPossible = true;
  const auto us = [&](Protocol protocol) {
    const Calibration c = figures();
    return Estimates().cost(r, c, {*findAlgorithm(Collective::AllGather, "ring"), protocol, {}})->us;
  };
  CHECK(us(Protocol::Direct) != Approx(us(Protocol::Slots)));
  r.shape.bytes = kLeastDirectBytes / 2;
  CHECK(us(Protocol::Direct) == Approx(us(Protocol::Slots)));
}

TEST_CASE("sizes between those that are estimated cost what lies between") {
  Estimates estimates;
  const Algorithm& ring = *findAlgorithm(Collective::AllReduce, "ring");
  double before = 0;
  for (size_t bytes = 1; bytes < size_t{1} << 26; bytes += 1 + bytes / 3) {
    const PlanRequest r = request(Collective::AllReduce, 1, 4, bytes);
    const auto kept = estimates.cost(r, figures(), {ring, Protocol::Slots, {}});
    REQUIRE(kept.ok());
    CHECK(kept->us >= before * 0.999);
    CHECK(kept->us == costUs(r, "ring"));  // whatever was asked before
    before = kept->us;
  }
}

TEST_CASE("a call of fewer elements than chunks costs what the messages that are sent do") {
  for (const int n : {2, 3, 4, 8, 24, 32}) {
    CAPTURE(n);
    PlanRequest r = request(Collective::AllReduce, 1, n, sizeof(float));
    const double unknown = costUs(r, "twoshot");
    r.elementBytes = sizeof(float);
    const std::vector<Schedule> sent = firstChunkOfRing(r.shape);
    const ReadyPlan plan{.name = "sent", .alias = "", .origin = "", .outOfPlace = &sent};
    const auto cost = Estimates::cost(r, figures(), plan, Protocol::Slots);
    REQUIRE(cost.ok());
    CHECK(costUs(r, "ring") == Approx(cost->us));
    // One rank combines all, where each of them would combine its part.
    if (n > 2) CHECK(costUs(r, "twoshot") < unknown);
    r.shape.bytes = static_cast<size_t>(n) * sizeof(float);  // one for each chunk
    const double all = costUs(r, "ring");
    r.elementBytes = 0;
    CHECK(all == costUs(r, "ring"));
  }
}

TEST_CASE("estimates skip what executors skip for want of elements") {
  int skipped = 0;
  for (const Algorithm* a : algorithms()) {
    for (const int n : {2, 4, 5, 8}) {
      Shape shape{.collective = a->collective, .nRanks = n, .bytes = 4, .messageBytes = 64};
      for (int rank = 0; rank < n; ++rank) shape.nodeOf.push_back(rank / 4);
      if (!isOneVector(a->collective) || !a->supports(shape)) continue;
      std::vector<Schedule> all;
      for (shape.rank = 0; shape.rank < n; ++shape.rank) all.push_back(fuse(a->build(shape)));
      for (const size_t elements : {size_t{1}, size_t{2}, size_t{3}}) {
        CAPTURE(a->name, collectiveName(a->collective), n, elements);
        const std::vector<Schedule> left = skipEmpty(all, elements);
        size_t messages = 0, before = 0;
        for (size_t rank = 0; rank < all.size(); ++rank) {
          for (const Lane& lane : left[rank].lanes)
            for (const Op& op : lane.ops) messages += op.joined ? 0 : 1;
          for (const Lane& lane : all[rank].lanes)
            for (const Op& op : lane.ops) before += op.joined ? 0 : 1;
        }
        if (elements >= static_cast<size_t>(all[0].nChunks)) {
          CHECK(messages == before);
          continue;
        }
        CHECK(messages == boundOps(markOrigins(all), elements));
        skipped += messages < before ? 1 : 0;
      }
    }
  }
  CHECK(skipped > 20);
}

TEST_CASE("a thousand ranks are estimated by classes, also on hosts that differ; what is too much says so") {
  for (const int perNode : {1, 8}) {
    const PlanRequest r = request(Collective::AllReduce, 1024 / perNode, perNode, size_t{1} << 20);
    for (const char* name : {"ring", "tree", "circulant", "halvingdoubling", "torus2d", "torus3d", "twoshot"}) {
      CAPTURE(perNode, name);
      CHECK(costUs(r, name) > 0);
    }
  }
  PlanRequest uneven = request(Collective::AllReduce, 128, 8, size_t{1} << 20);
  const double even = costUs(uneven, "ring");
  uneven.shape.nodeOf.erase(uneven.shape.nodeOf.begin());
  --uneven.shape.nRanks;
  CHECK(costUs(uneven, "ring") == Approx(even).epsilon(0.1));
  Estimates estimates;
  const PlanRequest odd = request(Collective::AllReduce, 1, 1000, size_t{1} << 20);
  const auto none =
      estimates.cost(odd, figures(), {*findAlgorithm(Collective::AllReduce, "oneshot"), Protocol::Slots, {}});
  CHECK_THAT(none.status().message(), Catch::Contains("too many steps"));
  const auto choice = plan(odd, figures(), &estimates);
  REQUIRE(choice.ok());
  for (const Candidate& row : choice->table) CHECK((row.estimated || !row.excluded.empty()));
}

TEST_CASE("what is not estimated is dearer than the choice, which is the same as if all were") {
  for (int collective = 0; collective < kNumCollectives; ++collective) {
    for (const auto& [nodes, perNode] : {std::pair{1, 3}, {1, 8}, {5, 4}}) {
      for (const size_t bytes : {size_t{100}, size_t{70'000}, size_t{20} << 20}) {
        PlanRequest r = request(static_cast<Collective>(collective), nodes, perNode, bytes);
        r.directPossible = true;
        const auto some = plan(r, figures());
        r.wholeTable = true;
        const auto all = plan(r, figures());
        REQUIRE((some.ok() && all.ok()));
        CAPTURE(collectiveKey(r.shape.collective), nodes, perNode, bytes, explain(r, *some), explain(r, *all));
        CHECK(some->algorithm == all->algorithm);
        CHECK(some->protocol == all->protocol);
        CHECK(some->costUs == all->costUs);
        REQUIRE(some->table.size() == all->table.size());
        double best = HUGE_VAL;
        for (const Candidate& row : all->table)
          if (row.excluded.empty()) best = std::min(best, row.comparedUs());
        for (size_t i = 0; i < some->table.size(); ++i) {
          const Candidate &row = some->table[i], &estimated = all->table[i];
          CHECK(!estimated.atLeast);
          CHECK((row.atLeast ? row.costUs <= estimated.costUs : row.costUs == estimated.costUs));
          if (row.atLeast) CHECK(row.comparedUs() > best);
        }
      }
    }
  }
}

TEST_CASE("communicators alike share their estimates as long as one of them is there, others do not") {
  const PlanRequest r = request(Collective::AllReduce, 2, 4, 1000);
  const auto estimates = sharedEstimates(r, figures());
  PlanRequest other = request(Collective::Barrier, 2, 4, 0);
  CHECK(sharedEstimates(other, figures()) == estimates);
  other.shape.nodeOf.back() = 0;
  CHECK(sharedEstimates(other, figures()) != estimates);
  Calibration slower = figures();
  slower.copyGBps /= 2;
  CHECK(sharedEstimates(r, slower) != estimates);
  const auto first = plan(r, figures(), estimates.get()), again = plan(r, figures(), estimates.get());
  REQUIRE((first.ok() && again.ok()));
  CHECK(explain(r, *again) == explain(r, *first));
  PlanRequest asked = r;
  REQUIRE(parseAlgorithms("tree", &asked.overrides).ok());
  CHECK(plan(asked, figures(), estimates.get())->name() == "tree");
}

TEST_CASE("of schedules with too many steps some ranks are estimated, and tell what all take") {
  for (const char* name : {"oneshot", "scatterallgather", "halvingdoubling"}) {
    const bool broadcast = std::string_view(name) == "scatterallgather";
    PlanRequest r = request(broadcast ? Collective::Broadcast : Collective::AllReduce, 12, 4, size_t{4} << 20);
    REQUIRE(parseAlgorithms(name, &r.overrides).ok());
    Estimates few(1000);
    const auto some = plan(r, figures(), &few), all = plan(r, figures());
    REQUIRE((some.ok() && all.ok()));
    CAPTURE(name, explain(r, *some), explain(r, *all));
    const auto estimated = [](const Choice& choice, int ranks) {
      return std::any_of(choice.table.begin(), choice.table.end(),
                         [&](const Candidate& row) { return row.estimated && row.estimatedRanks == ranks; });
    };
    CHECK(estimated(*some, 24));
    CHECK(estimated(*all, 0));
    CHECK(some->costUs == Approx(all->costUs).epsilon(0.3));
  }
}

TEST_CASE("schedules are the same for all sizes, but where an algorithm says otherwise") {
  for (const Algorithm* a : algorithms()) {
    if (a->sizeMatters) continue;
    Shape shape{.collective = a->collective, .nRanks = 8, .bytes = 1, .nodeOf = {0, 0, 0, 0, 1, 1, 1, 1}};
    if (!a->supports(shape)) continue;
    const Schedule small = a->build(shape);
    shape.bytes = size_t{1} << 30;
    CAPTURE(a->name, collectiveName(a->collective));
    CHECK(small == a->build(shape));
  }
}

TEST_CASE("two ranks that are alone on their sockets share what joins the sockets") {
  const MachineLevels levels = {{"host", {0, 0}, kShmProcesses, 0.01}};
  PlanRequest r = request(Collective::AllGather, 1, 2, size_t{1} << 20);
  const double wide = costUs(r, "ring");
  r.levels = &levels;
  CHECK(costUs(r, "ring") > 10 * wide);
}

TEST_CASE("ranks of a process are nearer than those of a socket, and sockets share what joins them") {
  topology::LevelGroups groups;
  for (std::vector<int>& of : groups) of = {0, 0, 0, 0};
  groups[static_cast<size_t>(topology::Level::Process)] = {0, 0, 1, 1};
  for (const auto level : {topology::Level::L3, topology::Level::Numa})
    groups[static_cast<size_t>(level)] = {0, 0, 1, 1};
  LinkUse links;
  links.intra = kShmProcesses;
  links.process = kShmThreads;
  const MachineLevels levels = machineLevels({}, groups, links);
  REQUIRE(levels.size() == 2);
  CHECK(levels[0].link == kShmThreads);
  CHECK(levels[1].link == kShmProcesses);
  CHECK(describe(levels) == "2 processes, 1 socket");

  PlanRequest r = request(Collective::AllGather, 1, 4, size_t{1} << 20);
  r.levels = &levels;
  Calibration c = figures();
  c.at(kShmThreads, Protocol::Slots).cost.latencyUs = 0.001;
  const sim::Prices prices = pricesOf(r, c, Protocol::Slots);
  CHECK(prices.copied[0].latencyUs < 0.01 * prices.copied[1].latencyUs);
  MachineLevels narrow = levels;
  narrow[1].portGBps = 0.1;
  const double wide = costUs(r, "ring");
  r.levels = &narrow;
  CHECK(costUs(r, "ring") > 5 * wide);
}

TEST_CASE("a message between hosts is work of both ends, as much as one inside a host by the same system calls") {
  PlanRequest r = request(Collective::AllReduce, 4, 1, 64 << 10);
  r.links.inter = kTcpRemote;
  Calibration c = figures();
  LinkCost& local = c.at(kTcpLocal, Protocol::Slots);
  local.cost = {20, 4};
  local.near = {5, 4};
  c.at(kTcpRemote, Protocol::Slots).cost = {30, 0.1};
  sim::MessagePrice price = pricesOf(r, c, Protocol::Slots).copied[1];
  CHECK(price.sendUs == Approx(0.9 * 20 / 2));
  CHECK(price.receiveUs == Approx(0.9 * 20 / 2));
  CHECK(price.sendUs + price.latencyUs + price.receiveUs == Approx(30));
  CHECK(price.sendUsPerByte == Approx(1 / 5e3 / 2));
  CHECK(price.receiveUsPerByte == Approx(1 / 5e3 / 2));
  CHECK(price.wireUsPerByte == Approx(1 / 0.1e3));
  // A way that is hardly longer than the work; and one by an adapter, where a part of the latency is work.
  c.at(kTcpRemote, Protocol::Slots).cost = {10, 0.1};
  price = pricesOf(r, c, Protocol::Slots).copied[1];
  CHECK(price.latencyUs == Approx(2));
  CHECK(price.sendUs == price.receiveUs);
  r.links.inter = kNcclnetRemote;
  price = pricesOf(r, c, Protocol::Slots).copied[1];
  CHECK(price.receiveUs > 0);
  CHECK(price.receiveUsPerByte == 0);
}

}  // namespace tutti

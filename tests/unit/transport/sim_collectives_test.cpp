// Every algorithm, as the library's executor runs it, over simulated links with real data: delays, small slots, several
// endpoints that overtake each other, ranks that begin late, die or stop.
//
// Everything about a run is drawn from its seed.  A failing seed is printed with what was drawn; TUTTI_TEST_SEED=<seed>
// (or 10-20) runs it alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>

#include "tests/support/passes.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/sim_collective.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/algorithms/shapes.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int64_t kUs = 1'000;

/// One run, drawn from a seed.
struct Draw {
  Shape shape;
  Passes passes;
  SimCollectiveOptions options;
  std::vector<Schedule> schedules;
  std::string text;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : world_(seed) {}
  int64_t between(int64_t low, int64_t high) { return world_.randomBetween(low, high); }
  bool oneIn(int64_t n) { return between(1, n) == 1; }
  template <class T>
  T oneOf(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  SimWorld world_;  // for its generator
};

Shape drawShape(const Algorithm& algorithm, int nRanks, Dice* dice) {
  Shape shape{.collective = algorithm.collective, .nRanks = nRanks, .inPlace = dice->oneIn(2)};
  if (isRooted(algorithm.collective)) shape.root = static_cast<int>(dice->between(0, nRanks - 1));
  if (dice->oneIn(2) || algorithm.name == "hierarchical") {
    shape.nodeOf = nodeShapes(nRanks)[static_cast<size_t>(dice->between(0, 4))];
  }
  return shape;
}

/// False if the algorithm does not support what was drawn.
bool draw(const Algorithm& algorithm, int nRanks, uint64_t seed, Draw* d) {
  Dice dice(seed * 64 + static_cast<uint64_t>(nRanks));
  d->shape = drawShape(algorithm, nRanks, &dice);
  d->passes.reproducible = dice.oneIn(4);
  d->passes.fused = !dice.oneIn(4);
  d->passes.nChannels = dice.oneOf({1, 1, 2, 3});
  d->passes.direct = dice.oneIn(3);
  SimCollectiveOptions& o = d->options;
  o.seed = seed;
  // Messages below 4096 bytes are never lent (the direct protocol), so some runs have larger ones.
  const bool large = d->passes.direct && dice.oneIn(2);
  o.count = static_cast<size_t>(large ? dice.between(1100, 6000)
                                      : dice.oneOf({int64_t{0}, int64_t{1}, dice.between(2, 300)}));
  o.links.slotBytes = large ? 8192 : dice.oneOf({size_t{16}, size_t{64}, size_t{1000}});
  o.links.nsPerByte = dice.oneOf({0.0, 0.1, 5.0});
  o.latencyNs = dice.between(0, 20 * kUs);
  o.jitterNs = dice.oneOf({int64_t{0}, 2 * kUs, 200 * kUs});
  o.startSpreadNs = dice.oneOf({int64_t{0}, 500 * kUs});
  d->passes.staggered = d->passes.nChannels > 1 && dice.oneIn(2);
  if (d->passes.staggered && !large) {  // slices that are longer than what they begin on
    o.count = static_cast<size_t>(dice.between(300, 900));
    o.links.slotBytes = dice.oneOf({size_t{300}, size_t{500}});
  }
  d->shape.bytes = o.count * sizeof(uint32_t);
  d->shape.slotBytes = o.links.slotBytes;
  // A slot holds the messages: several chunks each, or as many as there are.
  const bool mayJoin = !d->passes.reproducible && !d->passes.staggered;
  if (mayJoin) d->shape.messageBytes = dice.oneOf({size_t{0}, o.links.slotBytes});
  if (!algorithm.supports(d->shape)) return false;
  d->schedules = rewrite(buildAll(algorithm, d->shape), d->passes);
  o.links.slots = static_cast<uint32_t>(slotsNeeded(d->schedules) + dice.oneOf({0, 0, 3}));
  d->text =
      cat("seed ", seed, ": ", describe(algorithm, d->shape), "; ", describe(d->passes), "; count ", o.count, " slots ",
          o.links.slots, " of ", o.links.slotBytes, " bytes, messages of up to ", d->shape.messageBytes, ", ",
          o.links.nsPerByte, " ns/byte, latency ", o.latencyNs, " + ", o.jitterNs, " ns");
  return true;
}

using State = SimCollective::State;

}  // namespace

TEST_CASE("every algorithm gives the right elements on 2 to 9 ranks, whatever the delays") {
  int runs = 0;
  for (const uint64_t seed : testSeeds(1, 4)) {
    for (const Algorithm* algorithm : algorithms()) {
      for (int nRanks = 2; nRanks <= 9; ++nRanks) {
        Draw d;
        if (!draw(*algorithm, nRanks, seed, &d)) continue;
        SimCollective job(d.schedules, d.options);
        ++runs;
        if (const std::string complaint = job.run(); !complaint.empty()) FAIL_CHECK(d.text << ": " << complaint);
      }
    }
  }
  CHECK(runs > 0);
  std::cout << runs << " collectives run in virtual time\n";
}

TEST_CASE("a seed replays exactly, and another one is another history") {
  for (const Algorithm* algorithm : algorithms()) {
    Draw d;
    if (!draw(*algorithm, 8, 3, &d)) continue;
    d.options.count = 50;
    d.options.jitterNs = 50 * kUs;
    SimCollective first(d.schedules, d.options);
    SimCollective second(d.schedules, d.options);
    ++d.options.seed;
    SimCollective other(d.schedules, d.options);
    INFO(d.text);
    CHECK(first.run() == "");
    CHECK(second.run() == "");
    CHECK(other.run() == "");
    CHECK(first.world().traceHash() == second.world().traceHash());
    CHECK(first.endNs() == second.endNs());
    CHECK(first.world().traceHash() != other.world().traceHash());
  }
}

TEST_CASE("schedules that deadlock are reported with who waits for whom") {
  // Everybody receives first.
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) {
    ScheduleBuilder b({.collective = Collective::Barrier, .rank = rank, .nRanks = 3});
    b.recvToken((rank + 2) % 3);
    b.sendToken((rank + 1) % 3);
    schedules.push_back(b.finish());
  }
  SimCollective job(schedules, {});
  const std::string complaint = job.run();
  CHECK(complaint.find(
            "rank 0 lane 0 waits for rank 2; rank 1 lane 0 waits for rank 0; rank 2 lane 0 waits for rank 1") !=
        std::string::npos);
  CHECK(job.checkWaitsLeadTo({}).find("waits in a circle") != std::string::npos);
}

TEST_CASE("too few slots for a fused ring are a deadlock, as the verifier says") {
  const Shape shape{.collective = Collective::AllReduce, .nRanks = 4};
  std::vector<Schedule> schedules = rewrite(buildAll(*findAlgorithm(shape.collective, "ring"), shape), {});
  REQUIRE(slotsNeeded(schedules) == 2);
  for (Schedule& s : schedules) s.slotsNeeded = 1;  // and verify() would complain
  SimCollective job(schedules, {.count = 40, .links = {.slots = 1, .slotBytes = 8}});
  const std::string complaint = job.run();
  INFO(complaint);
  CHECK(complaint.find("nothing can happen any more: rank 0 lane 0 waits for rank") != std::string::npos);
}

TEST_CASE("a schedule that gives wrong elements is found out") {
  const Shape shape{.collective = Collective::AllGather, .nRanks = 3};
  std::vector<Schedule> schedules = buildAll(*findAlgorithm(shape.collective, "direct"), shape);
  for (Op& op : schedules[1].lanes[0].ops) {
    if (!op.from.empty()) op.dst = out(op.dst.index == 0 ? 2 : 0);  // two blocks change places
  }
  SimCollective job(schedules, {.count = 5});
  CHECK(job.run().starts_with("rank 1: element 0 of 15 is "));
}

namespace {

/// Something that goes wrong at a virtual time drawn from the seed.
enum class Fault { Dies, Stops, LinkBreaks };

struct Faulty {
  SimCollective job;
  std::vector<int> culprits;

  Faulty(const Draw& d, Fault fault, int64_t horizonNs, uint64_t seed) : job(d.schedules, d.options) {
    Dice dice(seed ^ 0xfa0175);
    const int n = job.nRanks();
    const int victim = static_cast<int>(dice.between(0, n - 1));
    const int other = (victim + static_cast<int>(dice.between(1, n - 1))) % n;
    culprits = {victim};
    if (fault == Fault::LinkBreaks) culprits.push_back(other);
    job.world().at(dice.between(0, horizonNs), [this, fault, victim, other] {
      if (fault == Fault::Dies) job.fabric().kill(victim);
      if (fault == Fault::Stops) job.world().freeze(job.fabric().node(victim));
      if (fault == Fault::LinkBreaks) job.fabric().breakLinks(victim, other);
    });
  }
};

/// "" or how a run in which `fault` happened ended otherwise than it may.  Counts ranks by how they ended.
std::string checkEnds(const Faulty& faulty, Fault fault, bool leave, int* ends) {
  const SimCollective& job = faulty.job;
  for (int r = 0; r < job.nRanks(); ++r) {
    ++ends[static_cast<size_t>(job.state(r))];
    if (job.state(r) == State::Done) {
      if (std::string text = job.wrongResult(r); !text.empty()) return "done with a wrong result: " + text;
    }
    if (job.state(r) != State::Failed || leave) continue;
    // Without anybody leaving, only the culprits' links fail, and what was lent by ranks that noticed is taken back.
    const std::string& why = job.error(r).message();
    bool named = why.find("has taken back what it offered") != std::string::npos;
    for (const int culprit : faulty.culprits) named = named || why.find(cat("rank ", culprit)) != std::string::npos;
    if (!named) return cat("rank ", r, " does not name whom it lost: ", why);
  }
  if (leave && fault != Fault::Stops) {  // everybody hears of it in the end
    for (int r = 0; r < job.nRanks(); ++r) {
      const bool dead = fault == Fault::Dies && r == faulty.culprits[0];
      if (!dead && job.state(r) == State::Running) return cat("rank ", r, " never ends: ", job.describeWaits());
    }
  }
  return job.checkWaitsLeadTo(faulty.culprits);
}

}  // namespace

TEST_CASE("ranks that die or stop and links that break never give wrong results, and all waits lead to them") {
  int ends[4] = {};
  for (const uint64_t seed : testSeeds(1, 2)) {
    for (const Algorithm* algorithm : algorithms()) {
      for (const int nRanks : {2, 3, 5, 8}) {
        Draw d;
        if (!draw(*algorithm, nRanks, seed, &d) || d.options.count == 0) continue;
        SimCollective whole(d.schedules, d.options);
        if (!whole.run().empty()) continue;  // the first test says so
        for (const Fault fault : {Fault::Dies, Fault::Stops, Fault::LinkBreaks}) {
          for (const bool leave : {false, true}) {
            d.options.leaveOnError = leave;
            Faulty faulty(d, fault, whole.endNs(), seed);
            (void)faulty.job.run();
            const std::string complaint = checkEnds(faulty, fault, leave, ends);
            if (!complaint.empty()) FAIL_CHECK(d.text << "; fault " << static_cast<int>(fault) << ": " << complaint);
          }
        }
      }
    }
  }
  std::cout << "with faults: " << ends[size_t(State::Done)] << " ranks done, " << ends[size_t(State::Failed)]
            << " failed, " << ends[size_t(State::Running)] << " waiting\n";
  for (const State state : {State::Done, State::Failed, State::Running}) CHECK(ends[size_t(state)] > 100);
}

namespace {

size_t messagesOf(const std::vector<Schedule>& schedules) {
  size_t messages = 0;
  for (const Schedule& s : schedules) {
    for (const Lane& lane : s.lanes) {
      for (const Op& op : lane.ops) messages += op.to.size();
    }
  }
  return messages;
}

/// Whether building the schedules is worth it; exact numbers follow.
bool worthBuilding(const Algorithm& algorithm, const Shape& shape, size_t mostMessages) {
  Shape first = shape;
  const std::vector<Schedule> some = {algorithm.build(first)};
  return messagesOf(some) <= 4 * mostMessages / static_cast<size_t>(shape.nRanks) || isRooted(algorithm.collective);
}

}  // namespace

TEST_CASE("64, 256 and 1024 ranks", "[thorough]") {
  struct Row {
    int nRanks;
    size_t mostMessages;
  };
  for (const Row& row : {Row{64, 9'000}, Row{256, 9'000}, Row{1024, 11'000}}) {
    if (!test::kThorough && row.nRanks > 64) continue;
    int runs = 0;
    std::string names;
    for (const Algorithm* algorithm : algorithms()) {
      SimCollectiveOptions options{.seed = 5, .count = 7, .links = {.slots = 2, .slotBytes = 64}, .jitterNs = 20 * kUs};
      const Shape shape{.collective = algorithm->collective,
                        .nRanks = row.nRanks,
                        .root = isRooted(algorithm->collective) ? row.nRanks / 3 : 0,
                        .bytes = options.count * sizeof(uint32_t),
                        .slotBytes = options.links.slotBytes,
                        .nodeOf = nodeShapes(row.nRanks)[1]};
      if (!algorithm->supports(shape) || !worthBuilding(*algorithm, shape, row.mostMessages)) continue;
      const std::vector<Schedule> schedules = rewrite(buildAll(*algorithm, shape), {});
      if (messagesOf(schedules) > row.mostMessages) continue;
      SimCollective job(schedules, options);
      INFO(describe(*algorithm, shape));
      CHECK(job.run() == "");
      ++runs;
      names += cat(" ", collectiveKey(algorithm->collective), ":", algorithm->name);
    }
    std::cout << runs << " algorithms on " << row.nRanks << " ranks:" << names << "\n";
    CHECK(runs >= 10);
  }
}

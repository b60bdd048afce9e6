#include "src/plan/planner.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/plan/requests.hpp"

namespace {

using namespace tutti;
using test::contains;
using test::figures;
using test::kMiB;
using test::request;

constexpr size_t kKiB = 1024;

Choice planned(const PlanRequest& r, const Calibration& c = figures()) {
  const auto choice = plan(r, c);
  REQUIRE(choice.status().message() == "");
  return *choice;
}

}  // namespace

TEST_CASE("the steps of a hierarchical algorithm are chosen with it, and explained") {
  PlanRequest r = request(Collective::AllReduce, 4, 8, 64 * kMiB);
  r.shape.inner.emplace_back();
  for (int i = 0; i < 32; ++i) r.shape.inner[0].push_back(i / 4);
  REQUIRE(parseAlgorithms("hierarchical", &r.overrides).ok());
  const Choice choice = planned(r);
  REQUIRE(choice.algorithm->name == "hierarchical");
  REQUIRE(choice.parts.size() == 3);
  CHECK(choice.parts[0] != LevelPart::Doubling);
  CHECK(choice.parts[1] != LevelPart::Tree);
  const std::string text = explain(r, choice);
  CAPTURE(text);
  CHECK(contains(text, cat("across ", levelPartName(choice.parts[0]), ", inside ", levelPartName(choice.parts[1]))));
  CHECK(planned(request(Collective::AllReduce, 1, 8, 64)).parts.empty());
}

TEST_CASE("plans that come with their schedules are compared and asked for as algorithms are") {
  PlanRequest r = request(Collective::AllReduce, 1, 4, 64 * kKiB);
  const auto schedules = [&](const char* name) {
    std::vector<Schedule> all;
    Shape shape = r.shape;
    for (shape.rank = 0; shape.rank < 4; ++shape.rank) {
      all.push_back(findAlgorithm(Collective::AllReduce, name)->build(shape));
    }
    return all;
  };
  const std::vector<Schedule> ring = schedules("ring");
  std::vector<Schedule> wide = ring;
  for (Schedule& s : wide) s.lanes.resize(64);
  std::vector<Schedule> free = ring;  // costs nothing, and so would be the cheapest
  for (Schedule& s : free) s.lanes[0].ops.clear();
  r.ready = {{"theirs", "file", "dir/file.xml", &ring, &ring}, {"broad", "file2", "dir/file2.xml", &wide, &wide}};
  const Choice compared = planned(r);
  CHECK(compared.algorithm != nullptr);
  const std::string text = explain(r, compared);
  CAPTURE(text);
  CHECK(contains(text, "plan of dir/file.xml"));
  CHECK(contains(text, "it needs 64 lanes, and there are 63"));
  for (const char* name : {"theirs", "file"}) {
    r.overrides = {};
    r.overrides.ready[static_cast<size_t>(Collective::AllReduce)] = name;
    const Choice forced = planned(r);
    CHECK(forced.name() == "theirs");
    CHECK(forced.costUs > 0.7 * compared.costUs);
  }
  r.overrides = {};
  r.ready.push_back({"gift", "file3", "dir/file3.xml", &free, &free});
  CHECK(planned(r).name() == "gift");
}

TEST_CASE("the planner picks what a person would") {
  struct Row {
    Collective collective;
    int nodes, perNode;
    size_t bytes;
    const char* algorithms;  // any of these is right: their costs are close or equal
    Protocol protocol;
  };
  const char* kWholeBandwidth = "ring twoshot halvingdoubling circulant hierarchical torus2d torus3d";
  const Row rows[] = {
      {Collective::AllReduce, 1, 2, 8, "oneshot recursivedoubling", Protocol::Inline},
      {Collective::AllReduce, 1, 8, 1 * kKiB, "oneshot recursivedoubling twoshot", Protocol::Slots},
      {Collective::AllReduce, 1, 8, 64 * kMiB, kWholeBandwidth, Protocol::Slots},
      {Collective::AllReduce, 4, 1, 8, "oneshot recursivedoubling", Protocol::Slots},
      {Collective::AllReduce, 4, 1, 64 * kMiB, kWholeBandwidth, Protocol::Slots},
      {Collective::AllReduce, 4, 8, 8 * kKiB, "hierarchical", Protocol::Slots},
      {Collective::AllReduce, 4, 8, 64 * kMiB, "hierarchical ring", Protocol::Slots},
      {Collective::AllGather, 4, 8, 64 * kKiB, "hierarchical ring", Protocol::Slots},
      {Collective::ReduceScatter, 8, 1, 64, "direct recursivehalving hierarchical", Protocol::Slots},
      // A double tree halves the root's work; in a row of calls others are then as busy as the root of a binomial one.
      {Collective::Broadcast, 16, 1, 8, "doubletree binomial circulant", Protocol::Slots},
      {Collective::Broadcast, 32, 1, 8, "binomial circulant", Protocol::Slots},
      {Collective::Broadcast, 1, 8, 64 * kMiB, "direct", Protocol::Slots},  // copied in once, and out by each
      {Collective::Broadcast, 8, 1, 64 * kMiB, "chain doubletree circulant", Protocol::Slots},
      {Collective::AllToAll, 8, 1, 1 * kMiB, "direct pairwise bruck8 hierarchical", Protocol::Slots},
      {Collective::Barrier, 1, 4, 0, "dissemination direct", Protocol::Inline},
  };
  for (const Row& row : rows) {
    const PlanRequest r = request(row.collective, row.nodes, row.perNode, row.bytes);
    const Choice choice = planned(r);
    INFO(explain(r, choice));
    const auto right = split(row.algorithms, ' ');
    CHECK(std::find(right.begin(), right.end(), choice.algorithm->name) != right.end());
    CHECK(protocolName(choice.protocol) == std::string(protocolName(row.protocol)));
  }
}

TEST_CASE("wires of hosts carry what theory says") {
  const int hosts = 4, perHost = 8, n = hosts * perHost;
  PlanRequest r = request(Collective::AllReduce, hosts, perHost, 64 * kMiB);
  r.wholeTable = true;
  const Choice choice = planned(r);
  const double vectorUs = 64.0 * kMiB / (1.2 * 1e3);
  const auto row = [&](const char* name) {
    const auto of = [&](const Candidate& c) { return c.name() == name && c.protocol == Protocol::Slots; };
    return *std::find_if(choice.table.begin(), choice.table.end(), of);
  };
  CHECK(row("ring").wireUs == Approx(2.0 * (n - 1) / n * vectorUs));
  CHECK(row("hierarchical").wireUs == Approx(2.0 * (hosts - 1) / hosts * vectorUs));
  CHECK(row("twoshot").wireUs == Approx(2.0 * (n - perHost) * perHost / n * vectorUs));
  // Inside hosts work goes on while the wire is busy, where channels start apart; the ring fills and drains.
  CHECK(row("hierarchical").costUs < 1.1 * row("hierarchical").wireUs);
  CHECK(row("hierarchical").nChannels > 1);
  CHECK(row("ring").nChannels == 1);
  CHECK(row("ring").costUs < 1.3 * choice.costUs);
  CHECK(row("twoshot").costUs > 5 * choice.costUs);
}

TEST_CASE("buffers that peers can read go direct when large and not when tiny") {
  PlanRequest r = request(Collective::AllToAll, 1, 4, 4 * kMiB);
  r.directPossible = true;
  CHECK(planned(r).protocol == Protocol::Direct);
  r.shape.bytes = 8;
  CHECK(planned(r).protocol == Protocol::Inline);
  r.shape.bytes = 256;
  CHECK(planned(r).protocol == Protocol::Slots);
}

TEST_CASE("a message goes by what one of its size was measured to take, and beyond those by rates") {
  Calibration c = defaultCalibration(thisMachine(), linkKinds());
  LinkCost &slots = c.at(kShmProcesses, Protocol::Slots), &direct = c.at(kShmProcesses, Protocol::Direct);
  slots.aloneUs = {0.2, 0.3, 0.5, 1, 2, 3, 4, 5};
  direct.aloneUs = {1, 1, 1, 1, 1, 2, 4, 6};
  direct.freshGBps = 0;
  const auto chosen = [&](size_t bytes) { return messageCost(kShmProcesses, bytes, true, c); };
  CHECK(chosen(1024).protocol == Protocol::Slots);
  CHECK(chosen(16384).protocol == Protocol::Direct);
  CHECK(chosen(16384).costUs == 1);
  CHECK(chosen(kNearBytes).protocol == Protocol::Slots);
  CHECK(messageCost(kShmProcesses, 16384, false, c).protocol == Protocol::Slots);
  direct.near = {4, 4};
  direct.freshGBps = 1;  // half of what is sent is new: 3 us more of a message
  CHECK(chosen(16384).protocol == Protocol::Slots);
  CHECK(chosen(64 << 10).protocol == Protocol::Slots);
  direct.freshGBps = 5;  // no slower than what has been read before
  CHECK(chosen(16384).protocol == Protocol::Direct);
  slots.near = slots.far = {1, 1};
  direct.near = direct.far = {100, 100};
  CHECK(chosen(kNearBytes + 1).protocol == Protocol::Direct);
}

TEST_CASE("one copy by the receiver wins where both ends are busy anyway, two copies at once where they are not") {
  Calibration c = figures();
  c.at(kShmProcesses, Protocol::Slots).near = c.at(kShmProcesses, Protocol::Slots).far = {10, 5};
  c.at(kShmProcesses, Protocol::Direct).near = {8, 8};
  c.at(kShmProcesses, Protocol::Direct).far = {4, 4};
  const auto protocol = [&](Collective collective, size_t bytes) {
    PlanRequest r = request(collective, 1, 2, bytes);
    r.directPossible = true;
    return plan(r, c)->protocol;
  };
  CHECK(protocol(Collective::AllGather, kNearBytes / 2) == Protocol::Direct);
  CHECK(protocol(Collective::Broadcast, kNearBytes) == Protocol::Slots);
  CHECK(protocol(Collective::AllReduce, kFarFootprint) == Protocol::Slots);
}

TEST_CASE("an operand is read where it lies by a thread, and copied first by a process that has not mapped it") {
  Calibration c = figures();
  for (const LinkProfile& kind : {kShmThreads, kShmProcesses}) {
    c.at(kind, Protocol::Slots) = {
        .available = true, .cost = {0.2, 9}, .mostBytes = 131072, .near = {10, 5}, .far = {10, 5}};
    c.at(kind, Protocol::Direct) = {
        .available = true, .cost = {0.2, 8}, .mostBytes = 1 << 20, .near = {8, 8}, .far = {8, 8}};
  }
  const auto protocol = [&](Collective collective, const LinkProfile& kind) {
    PlanRequest r = request(collective, 1, 2, kNearBytes);
    r.links.intra = kind;
    r.directPossible = true;
    return plan(r, c)->protocol;
  };
  CHECK(protocol(Collective::AllReduce, kShmThreads) == Protocol::Direct);
  CHECK(protocol(Collective::AllReduce, kShmProcesses) == Protocol::Slots);
  CHECK(protocol(Collective::AllToAll, kShmProcesses) == Protocol::Direct);
}

TEST_CASE("a barrier has no bytes to move directly, and is not refused for that") {
  PlanRequest r = request(Collective::Barrier, 1, 2, 0);
  r.overrides.protocol = Protocol::Direct;
  CHECK(planned(r).protocol == Protocol::Inline);
}

TEST_CASE("every collective of every size on every machine has a plan, and its cost is that of the cheapest row") {
  for (int collective = 0; collective < kNumCollectives; ++collective) {
    for (const auto& [nodes, perNode] : {std::pair{1, 1}, {1, 2}, {1, 7}, {3, 1}, {4, 6}, {2, 32}}) {
      for (const size_t bytes : {size_t{0}, size_t{1}, 4 * kKiB, 3 * kMiB, size_t{5} << 30}) {
        PlanRequest r = request(static_cast<Collective>(collective), nodes, perNode, bytes);
        const Choice choice = planned(r);
        CAPTURE(explain(r, choice));
        for (const Candidate& row : choice.table) CHECK((!row.excluded.empty() || row.costUs >= choice.costUs));
        CHECK(choice.algorithm->supports(r.shape));
        r.shape.rank = r.shape.nRanks - 1;  // every rank chooses the same
        const Choice other = planned(r);
        CHECK(other.algorithm == choice.algorithm);
        CHECK(other.protocol == choice.protocol);
        CHECK(other.interProtocol == choice.interProtocol);
        CHECK(other.nChannels == choice.nChannels);
      }
    }
  }
}

TEST_CASE("more ranks than cores cost more, and shift the choice to algorithms with less work in all") {
  PlanRequest r = request(Collective::AllReduce, 1, 8, 8);
  const Choice alone = planned(r);
  r.links.ranksPerCore = ranksPerCore(8, 2);
  CHECK(r.links.ranksPerCore == 4);
  const Choice crowded = planned(r);
  CHECK(crowded.costUs >= alone.costUs);
  CHECK(ranksPerCore(2, 8) == 1);
}

TEST_CASE("the dearer a hand-over of a core is, the fewer of them a choice has") {
  PlanRequest r = request(Collective::AllReduce, 1, 8, 8 * kKiB);
  r.links.ranksPerCore = ranksPerCore(8, 2);
  Calibration quick = figures(), slow = figures();
  quick.handOverUs = 0.1;
  slow.handOverUs = 10;
  CHECK(planned(r, slow).costUs > 3 * planned(r, quick).costUs);
  CHECK(planned(r, quick).algorithm->name != "oneshot");
  CHECK(planned(r, slow).algorithm->name == "oneshot");
}

TEST_CASE("where ranks share cores, a round less does not win by work that all of them do") {
  const auto costOf = [](const Choice& choice, std::string_view algorithm) {
    const auto row = std::ranges::find_if(choice.table, [&](const Candidate& candidate) {
      return candidate.excluded.empty() && candidate.algorithm->name == algorithm &&
             candidate.protocol == Protocol::Slots;
    });
    REQUIRE(row != choice.table.end());
    return row->costUs;
  };
  int within = 0;
  for (const int nRanks : {3, 4, 8}) {
    for (size_t bytes = kKiB; bytes <= kMiB; bytes *= 2) {
      PlanRequest r = request(Collective::AllReduce, 1, nRanks, bytes);
      r.links.ranksPerCore = ranksPerCore(nRanks, 2);
      r.wholeTable = true;
      Calibration c = figures();
      c.handOverUs = 1;
      const Choice choice = planned(r, c);
      const double more = costOf(choice, "oneshot") / costOf(choice, "twoshot");
      INFO(explain(r, choice));
      // Turns of a core are nothing beside the work on a large vector.
      if (more > 1.02 && costOf(choice, "twoshot") > 50) CHECK(choice.algorithm->name != "oneshot");
      within += more > 1.02 && more < 1.3 && costOf(choice, "twoshot") > 50 ? 1 : 0;
      // They are most of what a small one takes.
      if (more < 0.98) CHECK(choice.algorithm->name != "twoshot");
    }
  }
  CHECK(within > 0);
}

TEST_CASE("ranks that share cores wait as seldom as possible when there is little to send") {
  for (const int nRanks : {4, 8}) {
    for (const size_t bytes : {8, 1024}) {
      PlanRequest r = request(Collective::AllReduce, 1, nRanks, bytes);
      r.links.ranksPerCore = ranksPerCore(nRanks, 2);
      r.boardBytes = 96;
      const Choice choice = planned(r);
      INFO(explain(r, choice));
      const auto right = split("oneshot paramserver recursivedoubling", ' ');  // few waits, or few of them long
      CHECK(std::find(right.begin(), right.end(), choice.algorithm->name) != right.end());
    }
    PlanRequest r = request(Collective::Barrier, 1, nRanks, 0);
    r.links.ranksPerCore = ranksPerCore(nRanks, 2);
    r.boardBytes = 96;
    CHECK(planned(r).algorithm->name == "direct");
  }
  CHECK(planned(request(Collective::Barrier, 1, 64, 0)).algorithm->name == "dissemination");
}

TEST_CASE("where ranks share cores, fewer rounds win unless more are clearly cheaper") {
  const auto cheapest = [](const Choice& choice) {
    double least = HUGE_VAL;
    for (const Candidate& row : choice.table) {
      if (row.excluded.empty() && !row.atLeast) least = std::min(least, row.costUs);
    }
    return least;
  };
  int dearer = 0;
  for (const Collective collective : {Collective::Reduce, Collective::Broadcast, Collective::AllReduce,
                                      Collective::ReduceScatter, Collective::AllGather, Collective::AllToAll}) {
    for (const int nRanks : {4, 6, 8}) {
      for (const size_t bytes : {size_t{8}, 16 * kKiB, 512 * kKiB, 4 * kMiB}) {
        PlanRequest r = request(collective, 1, nRanks, bytes);
        r.wholeTable = true;
        const Choice alone = planned(r);
        CHECK(alone.costUs == cheapest(alone));
        r.links.ranksPerCore = nRanks / 2;
        const Choice shared = planned(r);
        INFO(explain(r, shared));
        CHECK(shared.costUs <= 1.3 * cheapest(shared));
        dearer += shared.costUs > cheapest(shared) ? 1 : 0;
        // Nothing of one round that costs about as much has been left.
        const bool oneRound = std::ranges::any_of(shared.table, [&](const Candidate& row) {
          return row.excluded.empty() && row.algorithm->name == "direct" && row.costUs <= 1.3 * cheapest(shared);
        });
        if (oneRound && isRooted(collective)) CHECK(shared.algorithm->name == "direct");
        // The same without the whole table: what may be taken is estimated.
        r.wholeTable = false;
        const Choice quick = planned(r);
        CHECK(quick.algorithm == shared.algorithm);
        CHECK(quick.protocol == shared.protocol);
        CHECK(quick.joined == shared.joined);
      }
    }
  }
  CHECK(dearer > 0);
}

TEST_CASE("where ranks share cores, the cheapest protocol of an algorithm wins, however little it saves") {
  std::set<Protocol> taken;
  for (const double speed : {0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6}) {
    Calibration c = figures();
    LinkCost& direct = c.at(kShmProcesses, Protocol::Direct);
    direct.cost.bandwidthGBps *= speed;
    for (double* gbps : {&direct.near.oneWay, &direct.near.bothWays, &direct.far.oneWay, &direct.far.bothWays})
      *gbps *= speed;
    PlanRequest r = request(Collective::AllToAll, 1, 4, 512 * kKiB);
    r.directPossible = true;
    r.links.ranksPerCore = 2;
    r.wholeTable = true;
    const Choice choice = planned(r, c);
    INFO(explain(r, choice));
    for (const Candidate& row : choice.table) {
      if (row.algorithm == choice.algorithm && row.excluded.empty()) CHECK(choice.costUs <= 1.02 * row.costUs);
    }
    taken.insert(choice.protocol);
  }
  CHECK(taken.size() == 2);
}

TEST_CASE("where ranks share cores and talk through sockets, exchanges win over others of as many rounds") {
  std::set<Collective> changed;
  Calibration slowHandOver = figures();
  slowHandOver.handOverUs = 2;  // then a rank that gathers from all others is the cheapest for sums
  for (const Collective collective :
       {Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll, Collective::AllReduce}) {
    const Calibration c = collective == Collective::AllReduce ? slowHandOver : figures();
    for (const int nRanks : {4, 6, 8, 16}) {
      for (const size_t bytes : {size_t{8}, 16 * kKiB, 4 * kMiB}) {
        PlanRequest r = request(collective, 1, nRanks, bytes);
        r.links.intra = kTcpLocal;
        r.joinBytes = 8 * kKiB;
        r.wholeTable = true;
        r.links.ranksPerCore = nRanks / 2;
        const Choice shared = planned(r, c);
        INFO(explain(r, shared));
        const bool joins = collective != Collective::AllReduce;  // it has one chunk
        double least = HUGE_VAL;
        const Candidate* cheapest = nullptr;
        for (const Candidate& row : shared.table) {
          if (!row.excluded.empty()) continue;
          if (cheapest == nullptr || row.costUs < cheapest->costUs) cheapest = &row;
          if (row.algorithm->exchanges && (row.joined || !joins)) least = std::min(least, row.costUs);
        }
        REQUIRE(cheapest != nullptr);
        CHECK(shared.costUs <= 1.1 * cheapest->costUs);
        if (shared.algorithm == cheapest->algorithm && shared.joined == cheapest->joined) continue;
        CHECK(shared.algorithm->exchanges);
        CHECK((joins ? shared.joined && cheapest->joined : bytes <= r.joinBytes));
        CHECK(shared.costUs == least);
        CHECK(nRanks != 6);
        changed.insert(collective);
        r.wholeTable = false;
        CHECK(planned(r, c).algorithm == shared.algorithm);
      }
    }
  }
  CHECK(changed.size() > 1);
  CHECK(changed.contains(Collective::AllReduce));
}

TEST_CASE("channels follow the wire: one stream fills a slow one, a fast one gets several for large messages") {
  Calibration fast = figures();
  fast.at(kTcpRemote, Protocol::Slots).cost = {20, 11.5};
  PlanRequest r = request(Collective::AllReduce, 2, 1, 64 * kMiB);
  CHECK(plan(r, figures())->nChannels == 1);
  CHECK(plan(r, fast)->nChannels == 4);
  r.mostChannels = 2;
  CHECK(plan(r, fast)->nChannels == 2);
  r.shape.bytes = 64 * kKiB;
  CHECK(plan(r, fast)->nChannels == 1);
  r.overrides.nChannels = 2;
  CHECK(plan(r, fast)->nChannels == 2);
}

TEST_CASE("algorithms with levels get channels that start apart, where hosts have several ranks and chunks are large") {
  const auto channels = [](const PlanRequest& r) {
    for (const Candidate& row : planned(r).table) {
      if (row.name() == "hierarchical" && row.protocol == Protocol::Slots && !row.joined) return row.nChannels;
    }
    return 0;
  };
  const auto asked = [](int nodes, int perNode, size_t bytes) {
    PlanRequest r = request(Collective::AllReduce, nodes, perNode, bytes);
    r.wholeTable = true;
    return r;
  };
  CHECK(channels(asked(2, 4, 64 * kMiB)) > 1);
  CHECK(channels(asked(2, 4, 64 * kKiB)) == 1);
  CHECK(channels(asked(1, 8, 64 * kMiB)) == 1);
  CHECK(channels(asked(8, 1, 64 * kMiB)) == 1);
  PlanRequest r = asked(2, 4, 64 * kMiB);
  r.mostChannels = 2;
  CHECK(channels(r) == 2);
  r.mostChannels = 1;
  CHECK(channels(r) == 1);
}

TEST_CASE("overrides are obeyed") {
  PlanRequest r = request(Collective::AllReduce, 1, 4, 8);
  REQUIRE(parseAlgorithms("ring", &r.overrides).ok());
  REQUIRE(parseProtocolOverride("slots", &r.overrides).ok());
  const Choice choice = planned(r);
  CHECK(choice.algorithm->name == "ring");
  CHECK(choice.protocol == Protocol::Slots);
  // A bare name binds the collectives that have it, and leaves the others to the planner.
  CHECK(r.overrides.of(Collective::AllGather)->name == "ring");
  CHECK(r.overrides.of(Collective::Barrier) == nullptr);
  Overrides named;
  REQUIRE(parseAlgorithms("ring,broadcast:chain,allreduce:tree", &named).ok());
  CHECK(named.of(Collective::AllReduce)->name == "tree");
  CHECK(named.of(Collective::Broadcast)->name == "chain");
  CHECK(named.of(Collective::AllGather)->name == "ring");
}

TEST_CASE("names that do not exist are refused with those that do") {
  Overrides o;
  struct Row {
    const char* text;
    const char* says;
  };
  for (const Row& row :
       {Row{"rinng", "no collective has an algorithm 'rinng' (did you mean ring?); there are ring, tree"},
        Row{"allreduce:chain", "allreduce has no algorithm 'chain'; it has ring, tree"},
        Row{"allreduc:ring", "'allreduc' is not a collective (did you mean allreduce?); the collectives are allreduce"},
        Row{"ring,", "no collective has an algorithm ''"}}) {
    const Status status = parseAlgorithms(row.text, &o);
    CAPTURE(row.text, status.message());
    CHECK(status.code() == tuttiInvalidUsage);
    CHECK(contains(status.message(), row.says));
  }
  CHECK(contains(parseProtocolOverride("ll128", &o).message(), "there are inline, slots and direct"));
}

TEST_CASE("explain prints the winner first and every exclusion with its reason") {
  PlanRequest r = request(Collective::AllReduce, 4, 2, 1 * kMiB);
  r.links.ranksPerCore = 2;
  const std::string text = explain(r, planned(r));
  CAPTURE(text);
  const auto lines = split(text, '\n');
  CHECK(lines[0].starts_with("plan allreduce 1M on 8 ranks (shm-processes + tcp-remote, 2 ranks per core): "));
  CHECK(lines[2].starts_with("  * "));
  CHECK(contains(text, "inline takes up to 48 bytes"));
  CHECK(text.ends_with("\n"));
}

TEST_CASE("rates are those of the memory that the ranks of one host touch") {
  const size_t bytes = kFarFootprint / 16;  // in and out: an eighth of what is far for each rank
  const auto reduceGBps = [&](int nodes, int perNode) {
    return costModel(request(Collective::AllReduce, nodes, perNode, bytes), figures(), Protocol::Slots).reduceGBps;
  };
  const Calibration c = figures();
  CHECK(reduceGBps(1, 8) == Approx(c.reduceFarGBps));
  CHECK(reduceGBps(1, 2) == Approx(c.reduceGBpsIn(kFarFootprint / 4)));
  CHECK(reduceGBps(4, 2) == Approx(reduceGBps(1, 2)));  // other hosts have memory of their own
  CHECK(reduceGBps(1, 2) > reduceGBps(1, 8));
}

TEST_CASE("between hosts that a slow wire joins, memory is lent for a gain alone") {
  int passedOver = 0;
  for (const Collective collective : {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather}) {
    for (size_t bytes = 4 * kKiB; bytes <= 4 * kMiB; bytes *= 2) {
      PlanRequest r = request(collective, 4, 2, bytes);
      r.directPossible = r.wholeTable = true;
      Calibration c = figures();
      c.at(kTcpRemote, Protocol::Slots).cost = {20, 0.1};
      const auto choice = plan(r, c);
      REQUIRE(choice.ok());
      CAPTURE(bytes, describe(*choice), explain(r, *choice));
      for (const Candidate& row : choice->table) {
        if (!row.excluded.empty() || row.costUs >= choice->costUs) continue;
        CHECK(choice->protocol != Protocol::Direct);
        CHECK(row.protocol == Protocol::Direct);
        CHECK(1.0201 * row.costUs > choice->costUs);
        ++passedOver;
      }
    }
  }
  CHECK(passedOver > 0);
}

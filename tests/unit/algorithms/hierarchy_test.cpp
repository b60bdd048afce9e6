// Hierarchical algorithms over trees of levels of every kind: regular, ragged, deep, with levels that say nothing; with
// every way to go about each level.
#include "algorithms/hierarchy.hpp"

#include <catch2/catch.hpp>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include "src/schedule/passes.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti {
namespace {

constexpr Collective kHierarchical[] = {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                        Collective::AllToAll, Collective::Broadcast};

const Algorithm& hierarchical(Collective c) { return *findAlgorithm(c, "hierarchical"); }

/// All that go by levels.
std::vector<const Algorithm*> levelled() {
  std::vector<const Algorithm*> all;
  for (const Collective c : kHierarchical) all.push_back(&hierarchical(c));
  for (const Algorithm* a : algorithms()) {
    if (a->name == "leaders") all.push_back(a);
  }
  return all;
}

std::vector<LevelPart> partsOfAlgorithm(const Algorithm& a, bool across) {
  using enum LevelPart;
  const Collective c = a.collective;
  if (a.name == "leaders")
    return !across ? std::vector{Tree} : std::vector{Direct, c == Collective::AllToAll ? Pairwise : Circulant};
  switch (c) {
    case Collective::AllReduce:
      return across ? std::vector{Doubling, Direct, Circulant} : std::vector{Direct, Circulant, Tree};
    case Collective::AllToAll: return {Direct, Pairwise};
    case Collective::Broadcast: return {Tree, Direct, Circulant};
    default: return {Direct, Circulant};
  }
}

std::string proveLevels(const Algorithm& algorithm, const Shape& shape, int* proofs) {
  ++*proofs;
  const std::string complaint = verify(buildAll(algorithm, shape), {.slots = 1});
  return complaint.empty() ? "" : describe(algorithm, shape) + ": " + complaint;
}

/// Ranks dealt out by numbers of children: {2, 3, 4} is 2 nodes of 3 groups of 4 ranks; levels as in Shape.
void regular(const std::vector<int>& counts, Shape* shape) {
  int n = 1;
  for (int count : counts) n *= count;
  shape->nRanks = n;
  shape->inner.clear();
  int size = n;
  for (size_t level = 0; level + 1 < counts.size(); ++level) {
    size /= counts[level];
    std::vector<int> groups;
    for (int r = 0; r < n; ++r) groups.push_back(r / size);
    if (level == 0) {
      shape->nodeOf = groups;
    } else {
      shape->inner.push_back(groups);
    }
  }
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<uint64_t>(most - least + 1));
  }

 private:
  std::mt19937_64 engine_;
};

/// Any tree: every rank picks a group of each level's at random, within its group of the level before.
Shape ragged(Dice& dice, Collective collective, int nRanks) {
  Shape shape{.collective = collective, .nRanks = nRanks};
  const int depth = dice.between(1, 4);
  std::vector<int> above(static_cast<size_t>(nRanks), 0);
  for (int level = 0; level < depth; ++level) {
    const int most = dice.between(1, 4);
    std::vector<int> groups;
    for (int r = 0; r < nRanks; ++r) groups.push_back(above[static_cast<size_t>(r)] * 4 + dice.between(0, most - 1));
    above = groups;
    if (level == 0 && dice.between(0, 3) > 0) {
      shape.nodeOf = groups;
    } else {
      shape.inner.push_back(groups);
    }
  }
  for (int r = 0, rails = dice.between(0, 3); r < nRanks && rails > 0; ++r) {
    shape.railOf.push_back(dice.between(0, rails));
  }
  shape.root = collective == Collective::Broadcast ? dice.between(0, nRanks - 1) : 0;
  shape.inPlace = dice.between(0, 1) == 1;
  shape.bytes = dice.between(0, 1) == 1 ? 8 : size_t{64} << 20;
  return shape;
}

}  // namespace

TEST_CASE("levels that separate nobody, divide nothing or leave everyone alone are left out") {
  Shape shape{.nRanks = 6};
  CHECK(!Hierarchy(shape).exists());
  shape.nodeOf = {0, 0, 0, 0, 0, 0};
  shape.inner = {{0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5}};
  CHECK(!Hierarchy(shape).exists());
  shape.inner = {{0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 2, 3, 4, 5}};
  const Hierarchy two(shape);
  CHECK(two.depth() == 2);
  REQUIRE(two.steps().size() == 3);
  CHECK(!two.steps()[0].acrossNodes);
  CHECK(two.steps()[0].largest == 2);
  CHECK(two.steps()[1].smallest == 1);
  CHECK(two.steps()[1].largest == 2);
  CHECK(two.steps()[2].smallest == 2);
  shape.nodeOf = {0, 0, 0, 1, 1, 1};  // and the groups above are split by them
  CHECK(Hierarchy(shape).steps()[0].acrossNodes);
  shape.nodeOf = {0, 1, 2, 3, 4, 5};  // everyone alone on a node: still nodes
  CHECK(Hierarchy(shape).depth() == 1);
}

TEST_CASE("hierarchical algorithms are right for all ways to go about each level") {
  int proofs = 0;
  for (const std::vector<int>& counts :
       {std::vector{2, 2, 2}, std::vector{3, 2, 2}, std::vector{2, 3}, std::vector{4, 1, 3}, std::vector{2, 2, 2, 2}}) {
    for (const Algorithm* algorithm : levelled()) {
      Shape shape{.collective = algorithm->collective, .bytes = 1 << 20};
      regular(counts, &shape);
      if (shape.collective == Collective::Broadcast) shape.root = shape.nRanks / 2 + 1;
      const Hierarchy h(shape);
      const auto across = partsOfAlgorithm(*algorithm, true), inside = partsOfAlgorithm(*algorithm, false);
      (void)cheapestParts(h, across, inside, [&](const std::vector<LevelPart>& parts) {  // for it asks of them all
        shape.parts = parts;
        for (const bool inPlace : {false, true}) {
          shape.inPlace = inPlace;
          for (const size_t messageBytes : {size_t{0}, 3 * shape.bytes, 64 * shape.bytes}) {
            shape.messageBytes = messageBytes;
            const std::string complaint = proveLevels(*algorithm, shape, &proofs);
            if (!complaint.empty()) FAIL_CHECK(complaint);
          }
        }
        return 0.0;
      });
    }
  }
  std::cout << proofs << " sets of schedules verified in all ways\n";
  CHECK(proofs > 500);
}

TEST_CASE("hierarchical algorithms are right for ragged trees of any depth and up to 64 ranks") {
  const uint64_t seed = testSeeds(1, 1).front();
  CAPTURE(seed);
  Dice dice(seed);
  int proofs = 0;
  for (const Algorithm* algorithm : levelled()) {
    for (int round = 0; round < 160; ++round) {
      const int nRanks = round < 64 ? round + 1 : dice.between(2, 24);
      Shape shape = ragged(dice, algorithm->collective, nRanks);
      if (!algorithm->supports(shape)) continue;
      const Hierarchy h(shape);
      for (size_t step = 0; step < h.steps().size() && dice.between(0, 3) > 0; ++step) {
        const auto choice = partsOfAlgorithm(*algorithm, step == 0);
        shape.parts.resize(h.steps().size(), partsOfAlgorithm(*algorithm, false).front());
        shape.parts[0] = step == 0 ? partsOfAlgorithm(*algorithm, true).front() : shape.parts[0];
        shape.parts[step] = choice[static_cast<size_t>(dice.between(0, static_cast<int>(choice.size()) - 1))];
      }
      shape.messageBytes = static_cast<size_t>(dice.between(0, 3)) * shape.bytes;
      const std::string complaint = proveLevels(*algorithm, shape, &proofs);
      if (!complaint.empty()) FAIL_CHECK(complaint);
      if (nRanks > 12 || !complaint.empty()) continue;
      std::vector<Schedule> fused = buildAll(*algorithm, shape);
      CHECK(verify(markDirect(fused)) == "");
      for (Schedule& s : fused) s = fuse(s);
      CHECK(verify(fused) == "");
    }
  }
  std::cout << proofs << " sets of schedules verified on ragged trees\n";
  CHECK(proofs > 400);
}

TEST_CASE("what crosses a level is what its share is") {
  Shape shape{.bytes = size_t{1} << 20};
  regular({3, 2, 4}, &shape);  // 3 nodes of 2 sockets of 4 ranks
  struct Row {
    Collective collective;
    double acrossNodes, acrossSockets;  // sent by a rank: vectors for AllReduce and Broadcast, else blocks
  };
  // A vector's shard is 1/4 inside a socket and 1/8 inside a node; blocks go whole.
  for (const Row& row : {Row{Collective::AllReduce, 2.0 * 2 / 3 / 8, 2.0 / 8}, Row{Collective::AllGather, 2, 3},
                         Row{Collective::ReduceScatter, 2, 3}, Row{Collective::AllToAll, 16, 12}}) {
    shape.collective = row.collective;
    for (const Schedule& s : buildAll(hierarchical(row.collective), shape)) {
      int nodes = 0, sockets = 0;
      std::set<int> partners;
      for (const Op& op : s.lanes[0].ops) {
        for (int to : op.to) {
          const bool node = shape.nodeOf[static_cast<size_t>(to)] != shape.nodeOf[static_cast<size_t>(s.rank)];
          const bool socket = shape.inner[0][static_cast<size_t>(to)] != shape.inner[0][static_cast<size_t>(s.rank)];
          nodes += node ? 1 : 0;
          sockets += socket && !node ? 1 : 0;
          if (node) CHECK(to % 8 == s.rank % 8);  // along the rail
          if (socket) CHECK(to % 4 == s.rank % 4);
        }
      }
      const double unit = row.collective == Collective::AllReduce ? s.nChunks : 1;
      INFO(collectiveKey(row.collective) << " rank " << s.rank);
      CHECK(nodes / unit == Approx(row.acrossNodes));
      CHECK(sockets / unit == Approx(row.acrossSockets));
    }
  }
}

TEST_CASE("leaders alone talk to other groups, and send there what rails would") {
  Shape shape{.bytes = 8};
  regular({3, 2, 4}, &shape);  // 3 nodes of 2 sockets of 4 ranks
  struct Row {
    Collective collective;
    size_t toNode, toSocket;  // blocks of a leader to one other
  };
  for (const Row& row :
       {Row{Collective::AllGather, 8, 20}, Row{Collective::ReduceScatter, 8, 4}, Row{Collective::AllToAll, 64, 80}}) {
    shape.collective = row.collective;
    shape.messageBytes = size_t{1} << 20;
    for (const Schedule& s : buildAll(*findAlgorithm(row.collective, "leaders"), shape)) {
      std::map<int, size_t> blocks;
      INFO(collectiveKey(row.collective) << " rank " << s.rank);
      for (const Op& op : s.lanes[0].ops) {
        for (const int to : op.to) ++blocks[to];
      }
      for (const auto& [to, count] : blocks) {
        const bool node = to / 8 != s.rank / 8, socket = to / 4 != s.rank / 4;
        if (socket) CHECK((to % 4 == 0 && s.rank % 4 == 0));
        if (node) CHECK((to % 8 == 0 && s.rank % 8 == 0));
        if (node) CHECK(count == row.toNode);
        if (socket && !node && s.rank % 8 == 0) CHECK(count == row.toSocket);
      }
    }
  }
}

TEST_CASE("nodes talk to each other along rails, wherever their ranks lie") {
  Shape shape{.nRanks = 13, .bytes = size_t{1} << 20};
  shape.nodeOf = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2};
  shape.railOf = {0, 1, 2, 3, 3, 2, 1, 0, 2, 5, 0, 3, 1};
  const auto crossings = [&](Collective collective) {
    shape.collective = collective;
    int strays = 0;
    for (const Schedule& s : buildAll(hierarchical(collective), shape)) {
      for (const Op& op : s.lanes[0].ops) {
        for (int to : op.to) {
          const auto from = static_cast<size_t>(s.rank), at = static_cast<size_t>(to);
          if (shape.nodeOf[from] == shape.nodeOf[at] || shape.railOf[from] == shape.railOf[at]) continue;
          INFO(collectiveKey(collective) << " rank " << s.rank << " sends to " << to);
          CHECK((shape.railOf[from] == 5 || shape.railOf[at] == 5));  // that rail no other node has
          ++strays;
        }
      }
    }
    return strays;
  };
  CHECK(crossings(Collective::AllReduce) == 0);  // rank 9 holds no shard
  for (const Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
    CHECK(crossings(c) > 0);
  }
  int proofs = 0;
  for (const Collective collective : kHierarchical) {
    shape.collective = collective;
    CHECK(proveLevels(hierarchical(collective), shape, &proofs) == "");
  }
}

TEST_CASE("blocks of several sizes are named by who sends and who receives them, wherever they pass through") {
  const uint64_t seed = testSeeds(1, 1).front();
  CAPTURE(seed);
  Dice dice(seed);
  int named = 0;
  for (int round = 0; round < 60; ++round) {
    Shape shape = ragged(dice, Collective::AllToAll, dice.between(2, 20));
    shape.uneven = true;
    const Algorithm& algorithm = *findAlgorithm(Collective::AllToAll, round % 3 == 0 ? "leaders" : "hierarchical");
    if (!algorithm.supports(shape)) continue;
    std::vector<Schedule> all = buildAll(algorithm, shape);
    for (Schedule& s : all) s = round % 2 == 0 ? fuse(s) : fuseForDirect(s);
    const std::vector<Schedule> followed = markOrigins(all);
    INFO(describe(algorithm, shape));
    CHECK(all == followed);
    for (const Schedule& s : all) named += static_cast<int>(s.lanes[0].ops.size());
  }
  CHECK(named > 1000);
}

TEST_CASE("the cheapest parts are small messages' trees and doubling, and large ones' shards") {
  Shape shape{.collective = Collective::AllReduce};
  regular({4, 2, 4}, &shape);
  CostModel cost;
  cost.intra = {.latencyUs = 1, .bandwidthGBps = 10};
  cost.inter = {.latencyUs = 20, .bandwidthGBps = 1};
  const auto choose = [&](size_t bytes) {
    shape.bytes = bytes;
    return hierarchical(Collective::AllReduce).chooseParts(shape, cost);
  };
  CHECK(choose(8)[0] == LevelPart::Doubling);
  CHECK(choose(size_t{64} << 20)[0] != LevelPart::Doubling);
  CHECK(choose(size_t{64} << 20)[1] != LevelPart::Tree);
  CHECK(choose(size_t{64} << 20)[2] != LevelPart::Tree);
  for (const Algorithm* algorithm : levelled()) {  // no choice is dearer than what is done without one
    shape.collective = algorithm->collective;
    for (const size_t bytes : {size_t{8}, size_t{64} << 10, size_t{64} << 20}) {
      shape.bytes = bytes;
      shape.parts.clear();
      const double before = algorithm->costUs(shape, cost);
      shape.parts = algorithm->chooseParts(shape, cost);
      CHECK(algorithm->costUs(shape, cost) <= before);
    }
  }
  shape.parts.clear();
}

}  // namespace tutti

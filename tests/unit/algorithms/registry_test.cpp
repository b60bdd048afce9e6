// What the planner relies on: names, support, cost formulas.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "algorithms/patterns.hpp"
#include "src/schedule/passes.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti {
namespace {

constexpr Collective kCollectives[] = {Collective::AllReduce, Collective::Broadcast,     Collective::Reduce,
                                       Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll,
                                       Collective::Gather,    Collective::Scatter,       Collective::Barrier};

CostModel tcpBetweenNodes() {
  CostModel cost;
  cost.intra = {.latencyUs = 0.5, .bandwidthGBps = 8};
  cost.inter = {.latencyUs = 20, .bandwidthGBps = 1};
  cost.link = cost.exchange = cost.oneWay = cost.inter;
  return cost;
}

CostModel sharedMemory() {
  CostModel cost;
  cost.intra = cost.inter = cost.link = cost.exchange = cost.oneWay = {.latencyUs = 0.5, .bandwidthGBps = 8};
  return cost;
}

std::string cheapest(const Shape& shape, const CostModel& cost) {
  const Algorithm* best = nullptr;
  for (const Algorithm* a : algorithms()) {
    if (a->collective != shape.collective || !a->supports(shape)) continue;
    if (best == nullptr || a->costUs(shape, cost) < best->costUs(shape, cost)) best = a;
  }
  return best == nullptr ? "" : std::string(best->name);
}

TEST_CASE("every algorithm is found by its name, and names are unique per collective") {
  std::set<std::pair<Collective, std::string_view>> seen;
  for (const Algorithm* a : algorithms()) {
    CHECK(seen.insert({a->collective, a->name}).second);
    CHECK(findAlgorithm(a->collective, a->name) == a);
    CHECK(!a->summary.empty());
  }
  CHECK(findAlgorithm(Collective::AllReduce, "pairwise") == nullptr);
}

TEST_CASE("support does not depend on the rank that asks") {
  for (const Algorithm* a : algorithms()) {
    for (int n : {1, 2, 3, 6, 8, 12, 30}) {
      for (const std::vector<int>& nodeOf : nodeShapes(n)) {
        Shape shape{.collective = a->collective, .nRanks = n, .nodeOf = nodeOf};
        const bool first = a->supports(shape);
        for (shape.rank = 1; shape.rank < n; ++shape.rank) CHECK(a->supports(shape) == first);
      }
    }
  }
}

namespace {

bool isProduct(int n, int factors) {
  if (factors == 1) return n > 1;
  for (int f = 2; f < n; ++f) {
    if (n % f == 0 && isProduct(n / f, factors - 1)) return true;
  }
  return false;
}

/// ofSeveral: among groups of which some have several ranks.
bool hasLevels(const Shape& s, bool ofSeveral) {
  const auto groupsOf = [](const std::vector<int>& level) { return std::set<int>(level.begin(), level.end()).size(); };
  if (groupsOf(s.nodeOf) > 1 && (!ofSeveral || groupsOf(s.nodeOf) < static_cast<size_t>(s.nRanks))) return true;
  return std::any_of(s.inner.begin(), s.inner.end(), [&](const std::vector<int>& level) {
    return groupsOf(level) > 1 && groupsOf(level) < static_cast<size_t>(s.nRanks);
  });
}

/// Whether a shape has what an algorithm says it lacks; worked out in another way than by the algorithms.
const std::map<std::string_view, std::function<bool(const Shape&)>> kNeeds = {
    {"a power of two of ranks",
     [](const Shape& s) {
       return std::set<int>{1, 2, 4, 8, 16}.contains(s.nRanks);
     }},
    {"a number of ranks that is a product of two above 1", [](const Shape& s) { return isProduct(s.nRanks, 2); }},
    {"a number of ranks that is a product of three above 1", [](const Shape& s) { return isProduct(s.nRanks, 3); }},
    {"blocks that are all of one size", [](const Shape& s) { return !s.uneven; }},
    {"ranks on several nodes, or in groups of several on one (sockets, caches, devices)",
     [](const Shape& s) { return hasLevels(s, false); }},
    {"several ranks on some node, or in some group on one (sockets, caches, devices)",
     [](const Shape& s) { return hasLevels(s, true); }},
};

std::vector<Shape> shapesOf(const Algorithm& a) {
  std::vector<Shape> shapes;
  for (int n = 1; n <= 17; ++n) {
    std::vector<std::vector<int>> levels = nodeShapes(n);
    levels.emplace_back();
    for (const std::vector<int>& level : levels) {
      for (const int bits : {0, 1, 2, 3, 4, 5, 6, 7, 8, 15}) {
        Shape s{.collective = a.collective, .nRanks = n, .inPlace = (bits & 1) != 0, .bytes = 64};
        s.commutative = (bits & 2) == 0;
        s.uneven = (bits & 4) != 0;
        if ((bits & 8) != 0 && !level.empty()) {
          s.inner.push_back(level);
        } else {
          s.nodeOf = level;
        }
        shapes.push_back(std::move(s));
      }
    }
  }
  return shapes;
}

}  // namespace

TEST_CASE("what an algorithm says that a shape lacks it lacks, and with it the algorithm would do") {
  std::set<std::string_view> said;
  for (const Algorithm* a : algorithms()) {
    std::set<std::string_view> own;
    const std::vector<Shape> shapes = shapesOf(*a);
    for (const Shape& s : shapes) {
      const char* missing = a->missing(s);
      CHECK(a->supports(s) == (missing == nullptr));
      if (missing == nullptr) continue;
      INFO(describe(*a, s) << " lacks " << missing);
      REQUIRE(kNeeds.contains(missing));
      CHECK(!kNeeds.at(missing)(s));
      own.insert(missing);
    }
    for (const Shape& s : shapes) {
      const bool all = std::all_of(own.begin(), own.end(), [&](std::string_view need) { return kNeeds.at(need)(s); });
      INFO(describe(*a, s));
      CHECK(a->supports(s) == all);
    }
    said.insert(own.begin(), own.end());
  }
  CHECK(said.size() == kNeeds.size());
}

TEST_CASE("schedules have as many lanes as their algorithm says") {
  for (const Algorithm* a : algorithms()) {
    for (const int n : {1, 2, 3, 8, 12, 17}) {
      for (const size_t bytes : {size_t{8}, size_t{4} << 20}) {
        const Shape shape{.collective = a->collective, .nRanks = n, .bytes = bytes, .nodeOf = nodeShapes(n)[1]};
        if (!a->supports(shape)) continue;
        INFO(describe(*a, shape));
        for (const Schedule& s : buildAll(*a, shape)) CHECK(s.lanes.size() == static_cast<size_t>(a->lanes));
      }
    }
  }
}

TEST_CASE("algorithms of exchanges send to whom they receive from, step by step") {
  // The other ranks in the order in which a lane has to do with them.
  const auto order = [](const Lane& lane, std::vector<int32_t> Op::*peers) {
    std::vector<int32_t> all;
    for (const Op& op : lane.ops) {
      for (const int32_t peer : op.*peers) {
        if (all.empty() || all.back() != peer) all.push_back(peer);
      }
    }
    return all;
  };
  int found = 0;
  for (const Algorithm* a : algorithms()) {
    if (!a->exchanges) continue;
    ++found;
    for (const int n : {2, 4, 8, 16}) {
      for (const size_t bytes : {size_t{8}, size_t{1} << 20}) {
        const Shape shape{.collective = a->collective, .nRanks = n, .bytes = bytes};
        INFO(describe(*a, shape));
        REQUIRE(a->supports(shape));
        for (const Schedule& s : buildAll(*a, shape)) {
          for (const Lane& lane : s.lanes) CHECK(order(lane, &Op::to) == order(lane, &Op::from));
        }
      }
    }
  }
  CHECK(found == 5);
}

TEST_CASE("every collective has an algorithm for one rank, for any number of ranks, and for uneven blocks") {
  for (Collective collective : kCollectives) {
    for (int n = 1; n <= 64; ++n) {
      for (bool uneven : {false, true}) {
        int found = 0;
        for (const Algorithm* a : algorithms()) {
          found +=
              a->collective == collective && a->supports({.collective = collective, .nRanks = n, .uneven = uneven});
        }
        CHECK(found >= 1);
      }
    }
  }
}

TEST_CASE("with blocks of several sizes, none goes through a rank that does not know its size") {
  const auto supported = [](Collective c, const char* name) {
    return findAlgorithm(c, name)->supports(
        {.collective = c, .nRanks = 8, .nodeOf = {0, 0, 0, 0, 1, 1, 1, 1}, .uneven = true});
  };
  for (const char* name : {"direct", "pairwise", "hierarchical"}) CHECK(supported(Collective::AllToAll, name));
  CHECK(findAlgorithm(Collective::AllToAll, "hierarchical")->forwards);  // so all ranks are told all sizes before
  for (const char* name : {"bruck2", "bruck4", "bruck8", "hypercube"}) CHECK(!supported(Collective::AllToAll, name));
  for (const Algorithm* a : algorithms()) {
    if (a->collective == Collective::AllGather || a->collective == Collective::ReduceScatter) {
      CHECK(supported(a->collective, a->name.data()));
    }
  }
  CHECK(!supported(Collective::Gather, "binomial"));
  CHECK(!supported(Collective::Scatter, "binomial"));
}

TEST_CASE("costs are finite, and grow with bytes and with ranks that share a core") {
  CostModel crowded = tcpBetweenNodes();
  crowded.ranksPerCore = 4;
  for (const Algorithm* a : algorithms()) {
    for (int n : {1, 2, 3, 8, 30, 64}) {
      double before = 0;
      for (size_t bytes : {size_t{0}, size_t{8}, size_t{4} << 10, size_t{1} << 20, size_t{1} << 30}) {
        const Shape shape{.collective = a->collective, .nRanks = n, .bytes = bytes, .nodeOf = nodeShapes(n)[1]};
        if (!a->supports(shape)) continue;
        const double us = a->costUs(shape, tcpBetweenNodes());
        INFO(describe(*a, shape));
        CHECK(std::isfinite(us));
        CHECK(us >= before);
        CHECK(a->costUs(shape, crowded) >= us);
        before = us;
      }
    }
  }
}

TEST_CASE("the cheapest algorithm is the one a person would take") {
  struct Choice {
    Collective collective;
    int nRanks;
    size_t bytes;
    std::set<std::string> good;
  };
  for (const Choice& row :
       std::vector<Choice>{{Collective::AllReduce, 2, 64, {"oneshot", "recursivedoubling"}},
                           {Collective::AllReduce, 8, 64, {"oneshot", "recursivedoubling", "twoshot"}},
                           {Collective::AllReduce, 8, 64 << 20, {"ring", "twoshot", "halvingdoubling", "circulant"}},
                           {Collective::AllReduce, 64, 1 << 10, {"recursivedoubling"}},
                           {Collective::Broadcast, 64, 64, {"binomial", "circulant"}},
                           {Collective::Broadcast, 8, 64 << 20, {"chain", "circulant"}},
                           {Collective::AllToAll, 16, 1 << 20, {"direct", "pairwise"}}}) {
    const Shape shape{.collective = row.collective, .nRanks = row.nRanks, .bytes = row.bytes};
    INFO(collectiveKey(row.collective) << " " << row.nRanks << " ranks " << row.bytes
                                       << " bytes: " << cheapest(shape, sharedMemory()));
    CHECK(row.good.count(cheapest(shape, sharedMemory())) == 1);
  }
  std::vector<int> nodeOf;
  for (int r = 0; r < 32; ++r) nodeOf.push_back(r / 8);
  for (size_t bytes : {size_t{4} << 10, size_t{64} << 20}) {
    const Shape shape{.collective = Collective::AllReduce, .nRanks = 32, .bytes = bytes, .nodeOf = nodeOf};
    INFO(bytes);
    CHECK(cheapest(shape, tcpBetweenNodes()) == "hierarchical");
  }
}

TEST_CASE("factors of a torus are as equal as they can be") {
  CHECK(nearCube(36, 2) == std::vector<int>{6, 6});
  CHECK(nearCube(12, 2) == std::vector<int>{3, 4});
  CHECK(nearCube(64, 3) == std::vector<int>{4, 4, 4});
  CHECK(nearCube(30, 3) == std::vector<int>{2, 3, 5});
  CHECK(nearCube(13, 2).empty());
  CHECK(nearCube(6, 3).empty());
}

// What publish() and boards rely on.
TEST_CASE("where an algorithm says that it publishes, every rank sends one value at most, and that to all others") {
  int publishing = 0;
  for (const Algorithm* a : algorithms()) {
    if (!a->publishes) continue;
    ++publishing;
    for (int n = 2; n <= 17; ++n) {
      for (int root = 0; root < (isRooted(a->collective) ? n : 1); ++root) {
        const Shape shape{.collective = a->collective, .nRanks = n, .root = root, .bytes = 64};
        for (const Schedule& schedule : buildAll(*a, shape)) {
          INFO(describe(*a, shape) << " rank " << schedule.rank);
          REQUIRE(schedule.lanes.size() == 1);
          std::set<int> to;
          std::set<Chunk> values;
          size_t received = 0;
          for (const Op& op : schedule.lanes[0].ops) {
            to.insert(op.to.begin(), op.to.end());
            if (!op.to.empty() && !op.token) values.insert(schedule.memoryOf(op.sources.at(0)));
            received += op.from.size();
          }
          CHECK((to.empty() || to.size() == static_cast<size_t>(n) - 1));
          CHECK(values.size() <= 1);
          const Schedule published = publish(fuse(schedule));
          size_t sends = 0, stillReceived = 0;
          for (const Op& op : published.lanes[0].ops) {
            sends += op.to.size();
            stillReceived += op.from.size();
            CHECK((op.to.empty() || op.to == std::vector<int32_t>{kEveryone}));
          }
          CHECK(sends == (to.empty() ? 0 : 1));
          CHECK(stillReceived == received);
        }
      }
    }
  }
  CHECK(publishing == 4);
}

}  // namespace
}  // namespace tutti

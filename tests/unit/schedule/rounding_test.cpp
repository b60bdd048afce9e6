#include "src/schedule/rounding.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "algorithms/algorithm.hpp"
#include "src/schedule/builder.hpp"
#include "src/schedule/passes.hpp"

using namespace tutti;

namespace {

std::vector<Schedule> schedulesOf(const Algorithm& a, Shape shape) {
  std::vector<Schedule> all;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) all.push_back(a.build(shape));
  return all;
}

std::vector<Schedule> fusedOf(std::vector<Schedule> all) {
  for (Schedule& schedule : all) schedule = fuse(schedule);
  return all;
}

/// By algorithm.
std::map<std::string, std::optional<uint64_t>> roundings(Collective collective, int nRanks, bool reproducible = false) {
  Shape shape{.collective = collective, .nRanks = nRanks};
  shape.bytes = 1 << 16;
  std::map<std::string, std::optional<uint64_t>> found;
  for (const Algorithm* a : algorithms()) {
    if (a->collective != collective || !a->supports(shape)) continue;
    std::vector<Schedule> all = schedulesOf(*a, shape);
    if (reproducible) all = makeReproducible(all);
    found[std::string(a->name)] = roundingOf(fusedOf(all), false);
  }
  return found;
}

/// Rank 0 gets ((0 + 1) + 2) + 3 in any of these ways.
template <class Write>
std::optional<uint64_t> reduceOfFour(Write write, bool roundsPerOp = false) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < 4; ++rank) {
    ScheduleBuilder b(Shape{.collective = Collective::Reduce, .rank = rank, .nRanks = 4}, 1);
    if (rank > 0) b.send(0, in(0));
    if (rank == 0) write(b);
    all.push_back(fuse(b.finish()));
  }
  return roundingOf(all, roundsPerOp);
}

}  // namespace

TEST_CASE("two operands may change places, so all ways of two ranks round alike") {
  for (const Collective collective : {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce}) {
    const auto found = roundings(collective, 2);
    REQUIRE(found.size() > 2);
    for (const auto& [name, rounding] : found) {
      INFO(name);
      REQUIRE(rounding);
      CHECK(rounding == found.begin()->second);
    }
  }
}

TEST_CASE("reproducible schedules round alike, whatever the algorithm and the number of ranks") {
  for (const int nRanks : {3, 4, 7, 8}) {
    const auto found = roundings(Collective::AllReduce, nRanks, true);
    REQUIRE(found.size() > 4);
    for (const auto& [name, rounding] : found) {
      INFO(nRanks << " ranks, " << name);
      REQUIRE(rounding);
      CHECK(rounding == found.begin()->second);
    }
  }
}

TEST_CASE("a ring sums every chunk in another order than doubling does") {
  const auto found = roundings(Collective::AllReduce, 4);
  CHECK(found.at("ring") != found.at("recursivedoubling"));
  CHECK(found.at("recursivedoubling") == found.at("torus2d"));  // (0 + 1) + (2 + 3)
  CHECK(found.at("oneshot") == found.at("paramserver"));        // ((0 + 1) + 2) + 3
  CHECK(found.at("oneshot") != found.at("recursivedoubling"));
}

TEST_CASE("what counts is the order of the sums, not how many ops and messages they take") {
  const auto one = reduceOfFour([](auto& b) {
    b.recvReduce(1, in(0), out(0));
    b.recvReduce(2, out(0));
    b.recvReduce(3, out(0));
  });
  const auto scratched = reduceOfFour([](auto& b) {
    const Chunk x = b.newScratch(), y = b.newScratch();
    b.recv(1, x);
    b.recv(2, y);
    b.reduce(x, in(0), x);
    b.recvReduce(3, y, out(0));  // 2 + 3
    b.reduce(x, out(0), out(0));
  });
  const auto late = reduceOfFour([](auto& b) {
    const Chunk x = b.newScratch();
    b.recv(1, x);
    b.reduce(x, in(0), x);
    b.recvReduce(2, x, out(0));
    b.recvReduce(3, out(0));
  });
  REQUIRE(one);
  CHECK(one == late);
  CHECK(one != scratched);
}

TEST_CASE("types that round once per op tell one op of four operands from three of two") {
  const auto atOnce = [](auto& b) {
    b.recvReduce(1, in(0), out(0));
    b.recvReduce(2, out(0));
    b.recvReduce(3, out(0));
  };
  const auto apart = [](auto& b) {
    const Chunk x = b.newScratch();
    b.recv(1, x);
    b.reduce(x, in(0), x);
    b.recvReduce(2, x, out(0));
    b.recvReduce(3, out(0));
  };
  CHECK(reduceOfFour(atOnce) == reduceOfFour(apart));
  CHECK(reduceOfFour(atOnce, true) != reduceOfFour(apart, true));
}

TEST_CASE("schedules that do not complete have no rounding") {
  std::vector<Schedule> all;
  for (int rank = 0; rank < 2; ++rank) {
    ScheduleBuilder b(Shape{.collective = Collective::Reduce, .rank = rank, .nRanks = 2}, 1);
    if (rank == 0) b.recvReduce(1, in(0), out(0));
    all.push_back(b.finish());
  }
  CHECK_FALSE(roundingOf(all, false));
}

TEST_CASE("all ranks of an AllReduce end with the same bits, also where an op rounds once") {
  for (int nRanks = 2; nRanks <= 9; ++nRanks) {
    Shape shape{.collective = Collective::AllReduce, .nRanks = nRanks};
    shape.bytes = 1 << 16;
    for (const Algorithm* a : algorithms()) {
      if (a->collective != Collective::AllReduce || !a->supports(shape)) continue;
      INFO(a->name << " on " << nRanks << " ranks");
      std::vector<Schedule> all = schedulesOf(*a, shape);
      CHECK(roundsAlike(fusedOf(all), false));
      for (Schedule& schedule : all) schedule.accumulates = a->sumsOnce;
      CHECK(roundsAlike(fusedOf(all), true));
    }
  }
}

TEST_CASE("ranks that each sum up all round otherwise if their ops have other operands") {
  Shape shape{.collective = Collective::AllReduce, .nRanks = 4};
  shape.bytes = 1 << 16;
  const auto oneshot = std::ranges::find_if(algorithms(), [](const Algorithm* a) {
    return a->collective == Collective::AllReduce && std::string_view(a->name) == "oneshot";
  });
  REQUIRE(oneshot != algorithms().end());
  CHECK_FALSE(roundsAlike(fusedOf(schedulesOf(**oneshot, shape)), true));
}

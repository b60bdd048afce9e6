// The numbers of algorithms/README.md, counted on the schedules.
#include "tests/unit/algorithms/count.hpp"

#include <catch2/catch.hpp>

#include "algorithms/patterns.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti {
namespace {

using Formula = double (*)(double n, double lg);  // lg = ceil(log2 n)

// How steps show: `Waits` where a step is one message after another, `Turns` where a rank turns to another partner in
// every step and sends it several blocks, `Data` where only what depends on what counts.
enum class Measure { Waits, Turns, Data };

struct CountRow {
  Collective collective;
  const char* name;
  Measure measure;
  Formula steps;
  Formula sent;  // most of any rank; vectors or blocks
  bool onlyPowersOfTwo = false;
};

double one(double, double) { return 1; }
double two(double, double) { return 2; }
double rounds(double, double lg) { return lg; }
double twiceRounds(double, double lg) { return 2 * lg; }
double others(double n, double) { return n - 1; }
double twiceOthers(double n, double) { return 2 * (n - 1); }
double twiceShares(double n, double) { return 2 * (n - 1) / n; }
double halfPerRound(double n, double lg) { return n / 2 * lg; }

const CountRow kRows[] = {
    {Collective::AllReduce, "ring", Measure::Waits, twiceOthers, twiceShares},
    {Collective::AllReduce, "halvingdoubling", Measure::Data, twiceRounds, twiceShares, true},
    {Collective::AllReduce, "recursivedoubling", Measure::Waits, rounds, rounds, true},
    {Collective::AllReduce, "circulant", Measure::Turns, twiceRounds, twiceShares},
    {Collective::AllReduce, "oneshot", Measure::Waits, one, others},
    {Collective::AllReduce, "twoshot", Measure::Waits, two, twiceShares},
    {Collective::AllReduce, "paramserver", Measure::Waits, two, others},
    {Collective::AllGather, "ring", Measure::Waits, others, others},
    {Collective::AllGather, "direct", Measure::Waits, one, others},
    {Collective::AllGather, "recursivedoubling", Measure::Turns, rounds, others, true},
    {Collective::AllGather, "bruck", Measure::Turns, rounds, others},
    {Collective::AllGather, "circulant", Measure::Turns, rounds, others},
    {Collective::AllGather, "pat", Measure::Turns, rounds, others},
    {Collective::ReduceScatter, "ring", Measure::Waits, others, others},
    {Collective::ReduceScatter, "direct", Measure::Waits, one, others},
    {Collective::ReduceScatter, "recursivehalving", Measure::Turns, rounds, others, true},
    {Collective::ReduceScatter, "bruck", Measure::Turns, rounds, others},
    {Collective::ReduceScatter, "circulant", Measure::Turns, rounds, others},
    {Collective::ReduceScatter, "pat", Measure::Turns, rounds, others},
    {Collective::AllToAll, "direct", Measure::Waits, one, others},
    {Collective::AllToAll, "pairwise", Measure::Turns, others, others},
    {Collective::AllToAll, "bruck2", Measure::Turns, rounds, halfPerRound, true},
    {Collective::AllToAll, "hypercube", Measure::Turns, rounds, halfPerRound, true},
    {Collective::Broadcast, "binomial", Measure::Turns, rounds, rounds},
    {Collective::Broadcast, "chain", Measure::Waits, others, one},
    {Collective::Broadcast, "scatterallgather", Measure::Turns, twiceRounds, twiceShares},
    {Collective::Broadcast, "circulant", Measure::Turns, rounds, rounds},
    {Collective::Broadcast, "direct", Measure::Waits, one, others},
    {Collective::Reduce, "binomial", Measure::Waits, rounds, one, true},
    {Collective::Reduce, "chain", Measure::Waits, others, one},
    {Collective::Reduce, "reducescattergather", Measure::Turns, [](double, double lg) { return lg + 1; }, one},
    {Collective::Reduce, "circulant", Measure::Waits, rounds, one, true},
    {Collective::Reduce, "direct", Measure::Waits, one, one},
    {Collective::Gather, "direct", Measure::Waits, one, one},
    {Collective::Gather, "binomial", Measure::Data, rounds, [](double n, double) { return n / 2; }, true},
    {Collective::Scatter, "direct", Measure::Waits, one, others},
    {Collective::Scatter, "binomial", Measure::Turns, rounds, others},
    {Collective::Barrier, "dissemination", Measure::Waits, rounds, rounds},
    {Collective::Barrier, "direct", Measure::Waits, one, others},
};

TEST_CASE("schedules take the steps and send the bytes that their heads promise") {
  for (const CountRow& row : kRows) {
    const Algorithm* algorithm = findAlgorithm(row.collective, row.name);
    REQUIRE(algorithm != nullptr);
    for (int n : {3, 7, 8, 13, 16, 36}) {
      if (row.onlyPowersOfTwo && !isPowerOfTwo(n)) continue;
      const Shape shape{.collective = row.collective, .nRanks = n, .bytes = 64};
      const Counts counts = count(buildAll(*algorithm, shape));
      const int steps = row.measure == Measure::Waits   ? counts.waits
                        : row.measure == Measure::Turns ? counts.turns
                                                        : counts.steps;
      INFO(describe(*algorithm, shape));
      // Where two phases meet, a rank may go on with the partner it has: then a turn is saved.
      CHECK(steps == row.steps(n, ceilLog2(n)));
      CHECK(counts.sent == Approx(row.sent(n, ceilLog2(n))));
    }
  }
}

TEST_CASE("trees and their pairs send no rank more than its share and stay shallow") {
  struct Tree {
    Collective collective;
    const char* name;
    double mostSent;
    int depths;  // how many times the depth, ceil(log2 n) + 1
  };
  for (const Tree& row : {Tree{Collective::AllReduce, "tree", 2, 2}, Tree{Collective::Broadcast, "doubletree", 1, 1},
                          Tree{Collective::Reduce, "doubletree", 1, 1}}) {
    for (int n = 2; n <= 64; ++n) {
      const Shape shape{.collective = row.collective, .nRanks = n, .bytes = 64};
      const Counts counts = count(buildAll(*findAlgorithm(row.collective, row.name), shape));
      INFO(describe(*findAlgorithm(row.collective, row.name), shape));
      CHECK(counts.sent <= row.mostSent + 1e-9);
      CHECK(counts.steps <= row.depths * (ceilLog2(n) + 1));
    }
  }
}

TEST_CASE("any rank count: folding and tori cost what they say") {
  const auto counts = [](Collective collective, const char* name, int n, size_t bytes) {
    return count(buildAll(*findAlgorithm(collective, name), {.collective = collective, .nRanks = n, .bytes = bytes}));
  };
  CHECK(counts(Collective::AllReduce, "recursivedoubling", 13, 64).waits == 3 + 2);
  CHECK(counts(Collective::AllReduce, "halvingdoubling", 13, 64).steps == 2 * 3 + 3);
  CHECK(counts(Collective::AllReduce, "halvingdoubling", 13, 64).sent == Approx(2 * 7.0 / 8 + 1.5));
  CHECK(counts(Collective::AllReduce, "torus2d", 36, 64).steps == 2 * (5 + 5));
  CHECK(counts(Collective::AllReduce, "torus2d", 36, 64).sent == Approx(2 * 35.0 / 36));
  CHECK(counts(Collective::AllReduce, "torus2d", 36, 64).partners == 2);
  CHECK(counts(Collective::AllReduce, "torus3d", 36, 64).steps == 2 * (2 + 2 + 3));
  CHECK(counts(Collective::AllToAll, "bruck4", 64, 64).sent == 3.0 / 4 * 64 * 3);
  CHECK(counts(Collective::AllToAll, "bruck4", 64, 64).partners == 3 * 3);
  CHECK(counts(Collective::AllToAll, "bruck8", 64, 64).sent == 7.0 / 8 * 64 * 2);
}

TEST_CASE("large blocks make PAT linear in steps and logarithmic in scratch") {
  for (int n : {7, 16, 64}) {
    Shape shape{.collective = Collective::ReduceScatter, .nRanks = n, .bytes = 1 << 20};
    const Counts counts = count(buildAll(*findAlgorithm(shape.collective, "pat"), shape));
    CHECK(counts.sent == n - 1);
    CHECK(counts.scratch <= ceilLog2(n));
  }
}

TEST_CASE("the circulant broadcast takes k - 1 + log n rounds for k blocks") {
  for (int n : {2, 3, 7, 8, 13, 33, 64}) {
    for (int blocks : {1, 2, 5, 16}) {
      const Shape shape{
          .collective = Collective::Broadcast, .nRanks = n, .bytes = size_t(blocks) * 100, .slotBytes = 100};
      const Counts counts = count(buildAll(*findAlgorithm(shape.collective, "circulant"), shape));
      CHECK(counts.waits <= blocks - 1 + ceilLog2(n));
      CHECK(counts.sentAll == Approx(n - 1));
    }
  }
}

TEST_CASE("hierarchical algorithms cross nodes on rails: one partner per other node") {
  std::vector<int> nodeOf;
  for (int r = 0; r < 32; ++r) nodeOf.push_back(r / 8);
  for (Collective collective :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
    const Shape shape{.collective = collective, .nRanks = 32, .bytes = 1 << 20, .nodeOf = nodeOf};
    for (const Schedule& s : buildAll(*findAlgorithm(collective, "hierarchical"), shape)) {
      std::set<int> across;
      for (const Op& op : s.lanes[0].ops) {
        for (int to : op.to) {
          if (nodeOf[to] != nodeOf[s.rank]) across.insert(to);
        }
      }
      CHECK(across.size() == 3);
      for (int to : across) CHECK(to % 8 == s.rank % 8);
    }
  }
}

}  // namespace
}  // namespace tutti

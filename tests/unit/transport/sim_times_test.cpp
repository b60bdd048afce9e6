// The virtual time of collectives over links of latency alpha and beta per byte, beside the closed formulas of the
// field.  p ranks, n bytes of the whole vector, L = ceil(log2 p).
//
// A rank has one port each way, and computing costs nothing (gamma = 0), which is the model of the formulas.  Virtual
// time is deterministic, so tolerances are about the formulas: none where each step waits for the one before (one
// nanosecond, for the sum of doubles), some where an algorithm overlaps what its formula adds up.
//
// Formulas: Thakur, Rabenseifner, Gropp 2005 (ring, recursive doubling, halving-doubling, Bruck, pairwise, binomial);
// Traeff 2023 and 2024 (circulant); Sanders, Speck, Traeff 2009 (double tree); Hensgen, Finkel, Manber 1988
// (dissemination).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>

#include "tests/support/passes.hpp"
#include "tests/support/sim_collective.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/algorithms/shapes.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr double kAlphaNs = 2'000;  // a good network
constexpr double kBetaNs = 0.125;   // 8 GB/s, and whole nanoseconds for whole cache lines

struct Link {
  double messages;  // alpha, so many times
  double bytes;     // beta for each
  double ns() const { return messages * kAlphaNs + bytes * kBetaNs; }
};

struct Size {
  double p;
  double n;      // bytes of the whole vector
  double k = 1;  // pieces, for pipelines
  double L() const { return std::ceil(std::log2(p)); }
};

struct Row {
  Collective collective;
  const char* name;
  const char* formula;
  Link (*cost)(const Size&);
  double most = 1;   // simulated time over that of the formula, at most
  double least = 1;  // and at least
};

Link twiceHalved(const Size& s) { return {2 * s.L(), 2 * (s.p - 1) / s.p * s.n}; }
Link halved(const Size& s) { return {s.L(), (s.p - 1) / s.p * s.n}; }
Link ringed(const Size& s) { return {s.p - 1, (s.p - 1) / s.p * s.n}; }
Link once(const Size& s) { return {1, (s.p - 1) / s.p * s.n}; }
Link rounds(double number, const Size& s) { return {number, number * s.n / s.k}; }
Link logs(const Size& s) { return {s.L(), s.L() * s.n}; }

const Row kRows[] = {
    {Collective::AllReduce, "ring", "2(p-1) a + 2(p-1)/p n b",
     [](const Size& s) {
       return Link{2 * (s.p - 1), 2 * (s.p - 1) / s.p * s.n};
     }},
    {Collective::AllReduce, "recursivedoubling", "L a + L n b", logs},
    {Collective::AllReduce, "halvingdoubling", "2L a + 2(p-1)/p n b", twiceHalved},
    {Collective::AllReduce, "circulant", "2L a + 2(p-1)/p n b", twiceHalved},
    {Collective::AllReduce, "twoshot", "2 a + 2(p-1)/p n b",
     [](const Size& s) {
       return Link{2, 2 * (s.p - 1) / s.p * s.n};
     }},
    {Collective::AllReduce, "oneshot", "a + (p-1) n b",
     [](const Size& s) {
       return Link{1, (s.p - 1) * s.n};
     }},
    {Collective::AllGather, "ring", "(p-1) a + (p-1)/p n b", ringed},
    {Collective::AllGather, "recursivedoubling", "L a + (p-1)/p n b", halved},
    {Collective::AllGather, "bruck", "L a + (p-1)/p n b", halved},
    {Collective::AllGather, "circulant", "L a + (p-1)/p n b", halved},
    {Collective::AllGather, "direct", "a + (p-1)/p n b", once},
    {Collective::ReduceScatter, "ring", "(p-1) a + (p-1)/p n b", ringed},
    {Collective::ReduceScatter, "recursivehalving", "L a + (p-1)/p n b", halved},
    {Collective::ReduceScatter, "bruck", "L a + (p-1)/p n b", halved},
    {Collective::ReduceScatter, "circulant", "L a + (p-1)/p n b", halved},
    {Collective::AllToAll, "direct", "a + (p-1)/p n b", once},
    {Collective::AllToAll, "pairwise", "(p-1) a + (p-1)/p n b", ringed},
    {Collective::AllToAll, "bruck2", "L a + L/2 n b",
     [](const Size& s) {
       return Link{s.L(), s.L() / 2 * s.n};
     }},
    {Collective::AllToAll, "hypercube", "L a + L/2 n b",
     [](const Size& s) {
       return Link{s.L(), s.L() / 2 * s.n};
     }},
    {Collective::Broadcast, "binomial", "L a + L n b", logs},
    {Collective::Reduce, "binomial", "L a + L n b", logs},
    {Collective::Gather, "binomial", "L a + (p-1)/p n b", halved},
    {Collective::Scatter, "binomial", "L a + (p-1)/p n b", halved},
    {Collective::Barrier, "dissemination", "L a",
     [](const Size& s) {
       return Link{s.L(), 0};
     }},
};

// Pipelines of k pieces, with the two slots that fused schedules need.  Formulas charge a latency for every piece, of
// which a link with room for two messages shows about half where latency rules; where bytes do, trees wait a little for
// ranks that serve two children in one tree and one parent in the other.
const Row kPipelines[] = {
    {Collective::Broadcast, "chain", "(p-2+k)(a + n/k b)", [](const Size& s) { return rounds(s.p - 2 + s.k, s); }, 1,
     0.85},
    {Collective::Reduce, "chain", "(p-2+k)(a + n/k b)", [](const Size& s) { return rounds(s.p - 2 + s.k, s); }, 1,
     0.85},
    {Collective::Broadcast, "circulant", "(k-1+L)(a + n/k b)", [](const Size& s) { return rounds(s.k - 1 + s.L(), s); },
     1.1, 0.85},
    {Collective::Reduce, "circulant", "(k-1+L)(a + n/k b)", [](const Size& s) { return rounds(s.k - 1 + s.L(), s); },
     1.1, 0.85},
    {Collective::Broadcast, "doubletree", "(2L+k)(a + n/k b)", [](const Size& s) { return rounds(2 * s.L() + s.k, s); },
     1.1, 0.4},
    {Collective::Reduce, "doubletree", "(2L+k)(a + n/k b)", [](const Size& s) { return rounds(2 * s.L() + s.k, s); },
     1.1, 0.4},
    {Collective::AllReduce, "tree", "2(2L+k)(a + n/k b)",
     [](const Size& s) { return rounds(2 * (2 * s.L() + s.k), s); }, 1.3, 0.6},
};

SimCollectiveOptions optionsFor(size_t count, uint32_t slots, size_t slotBytes) {
  SimCollectiveOptions options{.count = count};
  options.links = {.slots = slots, .slotBytes = slotBytes, .maxDirectBytes = 0, .nsPerByte = kBetaNs};
  options.latencyNs = static_cast<int64_t>(kAlphaNs);
  return options;
}

size_t countFor(Collective c, size_t bytes, int nRanks) {
  const bool whole = c == Collective::AllReduce || c == Collective::Broadcast || c == Collective::Reduce;
  return bytes / sizeof(uint32_t) / (whole ? 1 : static_cast<size_t>(nRanks));
}

void printHead() {
  std::printf("%-14s %-18s %-24s %5s %9s %12s %12s\n", "collective", "algorithm", "formula", "ranks", "bytes",
              "formula us", "virtual us");
}

/// Runs the row's algorithm and compares.
void compare(const Row& row, const Size& size, size_t slotBytes, uint32_t slots, size_t messageBytes) {
  const auto nRanks = static_cast<int>(size.p);
  const auto bytes = static_cast<size_t>(size.n);
  const size_t count = countFor(row.collective, bytes, nRanks);
  const Shape shape{.collective = row.collective,
                    .nRanks = nRanks,
                    .bytes = count * 4,
                    .slotBytes = slotBytes,
                    .messageBytes = messageBytes};
  const Algorithm* algorithm = findAlgorithm(row.collective, row.name);
  REQUIRE(algorithm != nullptr);
  SimCollective job(rewrite(buildAll(*algorithm, shape), {}), optionsFor(count, slots, slotBytes));
  CAPTURE(row.name, row.formula, nRanks, bytes);
  CHECK(job.run() == "");
  const double expected = row.cost(size).ns();
  const auto got = static_cast<double>(job.endNs());
  std::printf("%-14s %-18s %-24s %5d %9zu %12.2f %12.2f\n", collectiveKey(row.collective), row.name, row.formula,
              nRanks, bytes, expected / 1e3, got / 1e3);
  CHECK(got <= expected * row.most + 1);
  CHECK(got >= expected * row.least - 1);
}

}  // namespace

TEST_CASE("virtual times of steps agree with the closed formulas to the nanosecond", "[thorough]") {
  printHead();
  for (const Row& row : kRows) {
    for (const int nRanks : {8, 64}) {
      if (!test::kThorough && nRanks > 8) continue;
      for (const size_t bytes : {size_t{4096}, size_t{256} << 10}) {
        if (row.collective == Collective::Barrier && bytes > 4096) continue;
        // The chunks of a step are one message.
        compare(row, {double(nRanks), double(bytes)}, bytes, 70, bytes);
      }
    }
  }
}

TEST_CASE("virtual times of pipelines are near the closed formulas", "[thorough]") {
  printHead();
  constexpr size_t kPieces = 16;
  for (const Row& row : kPipelines) {
    for (const int nRanks : {8, 64}) {
      if (!test::kThorough && nRanks > 8) continue;
      for (const size_t bytes : {size_t{64} << 10, size_t{2} << 20}) {
        compare(row, {double(nRanks), double(bytes), double(kPieces)}, bytes / kPieces, 2, 0);
      }
    }
  }
}

TEST_CASE("a port is shared by all messages of a rank, each way") {
  // Rank 0 sends to 1 and 2 at once, and they to it: only what goes the same way through one port waits.
  SimWorld world(1);
  SimFabric fabric(world, {.slots = 2, .slotBytes = 1000, .nsPerByte = 2}, 3);
  world.setDelay(500, 500);
  std::vector<std::pair<int, int64_t>> arrivals;
  fabric.onArrival([&](int rank) { arrivals.emplace_back(rank, world.nowNs()); });
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  const auto open = [&](int rank, int peer) -> Endpoint& {
    endpoints.push_back(
        std::move(*awaitEndpoint(*fabric.transport(rank), peer, cat("sim:", peer), 0, Deadline::never())));
    return *endpoints.back();
  };
  Endpoint& to1 = open(0, 1);
  Endpoint& to2 = open(0, 2);
  Endpoint& from1 = open(1, 0);
  Endpoint& from2 = open(2, 0);
  const std::vector<std::byte> data(100);
  for (Endpoint* endpoint : {&to1, &to2, &from1, &from2}) CHECK(*endpoint->send(data.data(), data.size(), {}));
  while (world.step()) {
  }
  // Each message is two stores, the payload and the count of what was posted.
  const std::vector<std::pair<int, int64_t>> expected = {{0, 700}, {1, 700}, {0, 900}, {2, 900}};
  for (const auto& arrival : expected) {
    CAPTURE(arrival.first, arrival.second);
    CHECK(std::count(arrivals.begin(), arrivals.end(), arrival) == 2);
  }
  CHECK(arrivals.size() == 8);
}

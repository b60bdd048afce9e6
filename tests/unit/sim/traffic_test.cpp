// Bytes that are counted on schedules, beside the formulas of textbooks.
#include <bit>
#include <catch2/catch.hpp>

#include "algorithms/patterns.hpp"
#include "tests/unit/sim/support.hpp"
#include "tools/cluster/textbook.hpp"
#include "tools/cluster/traffic.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

constexpr size_t kBytes = 1 << 20;

Task askedOf(const Algorithm& algorithm, size_t bytes) { return {.algorithm = &algorithm, .bytes = bytes}; }

double mostSent(const Traffic& traffic) {
  double most = 0;
  for (const RankTraffic& r : traffic.ranks) most = std::max(most, r.allSent().bytes);
  return most;
}

/// What is sent in a class arrives in it.
void checkBalance(const Traffic& traffic) {
  for (size_t k = 0; k < size_t{kNumLinkClasses}; ++k) {
    Amount sent, received;
    for (const RankTraffic& r : traffic.ranks) {
      sent.messages += r.sent[k].messages;
      sent.bytes += r.sent[k].bytes;
      received.messages += r.received[k].messages;
      received.bytes += r.received[k].bytes;
    }
    CHECK(sent.messages == received.messages);
    CHECK(sent.bytes == Approx(received.bytes));
  }
}

void checkAgainst(const Textbook& book, const Traffic& traffic, int nodes, int perNode) {
  const int n = nodes * perNode;
  if (book.onlyPowersOfTwo && !std::has_single_bit(static_cast<unsigned>(n))) return;
  const double formula = double(kBytes) * book.sent({.n = double(n),
                                                     .L = double(ceilLog2(n)),
                                                     .g = double(perNode),
                                                     .m = double(nodes),
                                                     .k = double(traffic.nChunks)});
  if (book.says == Textbook::Says::Exactly) {
    CHECK(mostSent(traffic) == Approx(formula));
  } else {
    CHECK(mostSent(traffic) <= formula * (1 + 1e-9));
  }
}

Network nodesOf(int nodes, int perNode) {
  return networkOf(clusterOf(cat("nodes ", nodes, "; machine gpu:", perNode, " nvlink:1x50 nic:", perNode, "x50")));
}

}  // namespace

TEST_CASE("algorithms send what textbooks say") {
  struct Size {
    int nodes, perNode;
  };
  const auto size = GENERATE(values<Size>({{1, 2}, {1, 3}, {1, 7}, {1, 8}, {1, 16}, {2, 4}, {3, 2}, {3, 5}, {4, 8}}));
  const Network network = nodesOf(size.nodes, size.perNode);
  int held = 0;
  for (const Algorithm* algorithm : algorithms()) {
    const Textbook* book = findTextbook(algorithm->collective, algorithm->name);
    const Task task = askedOf(*algorithm, algorithm->collective == Collective::Barrier ? 0 : kBytes);
    if (!algorithm->supports(shapeOf(task, placesOf(network.cluster(), task), task.bytes))) continue;
    CAPTURE(size.nodes, size.perNode, collectiveKey(algorithm->collective), algorithm->name);
    const auto traffic = trafficOf(network, task);
    REQUIRE(traffic.status().message() == "");
    checkBalance(*traffic);
    if (book == nullptr) continue;
    checkAgainst(*book, *traffic, size.nodes, size.perNode);
    ++held;
  }
  CHECK(held >= 30);
}

TEST_CASE("every formula belongs to an algorithm") {
  int found = 0;
  for (const Algorithm* a : algorithms()) found += findTextbook(a->collective, a->name) != nullptr ? 1 : 0;
  CHECK(found == 46);
  CHECK(findTextbook(Collective::AllReduce, "direct") == nullptr);
}

TEST_CASE("hierarchical allreduces send little between nodes, rings as much as inside") {
  const Network network = nodesOf(4, 8);
  const auto across = [&](const char* name) {
    const auto traffic = trafficOf(network, askedOf(*findAlgorithm(Collective::AllReduce, name), kBytes));
    REQUIRE(traffic.ok());
    double bytes = 0;
    for (const RankTraffic& r : traffic->ranks) bytes += r.sent[size_t(LinkClass::Leaf)].bytes;
    return bytes;
  };
  // Of every node: each of its ranks 2(m-1)/m of its eighth.
  CHECK(across("hierarchical") == Approx(4 * 2 * 3.0 / 4 * double(kBytes)));
  // One rank of every node: the whole ring's.
  CHECK(across("ring") == Approx(4 * 2 * 31.0 / 32 * double(kBytes)));
  CHECK(across("oneshot") == Approx(32 * 24 * double(kBytes)));
}

TEST_CASE("messages have classes by the switches that they pass") {
  const Network network =
      networkOf(clusterOf("nodes 4; machine gpu:2 nvlink:1x50 nic:2x50; fabric fat-tree leaf:2 oversubscription:1"));
  const auto traffic = trafficOf(network, askedOf(*findAlgorithm(Collective::AllToAll, "direct"), 1000));
  REQUIRE(traffic.ok());
  for (const RankTraffic& r : traffic->ranks) {
    CHECK(r.sent == std::array{Amount{1, 1000}, Amount{2, 2000}, Amount{4, 4000}});
    CHECK(r.received == r.sent);
  }
}

TEST_CASE("messages are no longer than a slice, and chunks of a step share one") {
  const Network network = nodesOf(1, 8);
  Task task = askedOf(*findAlgorithm(Collective::AllGather, "bruck"), 1000);
  const auto joined = trafficOf(network, task);
  task.joined = false;
  const auto single = trafficOf(network, task);
  task = askedOf(*findAlgorithm(Collective::AllReduce, "ring"), 8 << 20);
  task.options.sliceBytes = 256 << 10;
  const auto sliced = trafficOf(network, task);
  REQUIRE((joined.ok() && single.ok() && sliced.ok()));
  for (size_t r = 0; r < 8; ++r) {
    CHECK(joined->ranks[r].allSent().bytes == 7000);
    CHECK(single->ranks[r].allSent() == Amount{7, 7000});
    CHECK(joined->ranks[r].allSent().messages < 7);
    CHECK(sliced->ranks[r].allSent() == Amount{4 * 14, 14 * 1048576.0});
  }
}

TEST_CASE("what cannot be counted is refused") {
  const Network network = nodesOf(1, 3);
  const auto wrong = trafficOf(network, askedOf(*findAlgorithm(Collective::AllToAll, "hypercube"), 8));
  CHECK_THAT(wrong.status().message(), Catch::Contains("hypercube does not work for 3 ranks"));
  const Network large = nodesOf(1025, 4);
  const auto many = trafficOf(large, askedOf(*findAlgorithm(Collective::AllReduce, "ring"), 8));
  CHECK_THAT(many.status().message(), Catch::Contains("at most 4096 ranks; here are 4100"));
}

#include <catch2/catch.hpp>

#include "tests/unit/sim/support.hpp"
#include "tools/cluster/critical_path.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

TEST_CASE("the critical path covers the whole time without gaps") {
  const Network network = networkOf(clusterOf(
      "nodes 3\nmachine gpu:4 nvlink:1x100 nic:4x25\nnear p latency:2 overhead:0.5\nfar p latency:6\nlaunch 3"));
  for (const char* name : {"ring", "tree", "circulant", "hierarchical", "twoshot", "recursivedoubling"}) {
    const size_t bytes = GENERATE(size_t{0}, size_t{1} << 20);
    CAPTURE(name, bytes);
    const auto outcome = simulate(network, taskOf(Collective::AllReduce, name, bytes), {.record = true});
    REQUIRE(outcome.ok());
    const auto path = criticalPath(*outcome);
    REQUIRE_FALSE(path.empty());
    CHECK(path.front().begin == 0);
    CHECK(path.back().end == outcome->run.end);
    for (size_t i = 1; i < path.size(); ++i) REQUIRE(path[i].begin == path[i - 1].end);
    CHECK(describePath(network, *outcome, path).find("between nodes") != std::string::npos);
  }
}

TEST_CASE("a ring's path goes once round for each phase") {
  const Network network = networkOf(clusterOf(plain(8, 2, 100)));
  const auto outcome = simulate(network, taskOf(Collective::AllReduce, "ring", 1 << 20), {.record = true});
  REQUIRE(outcome.ok());
  double latency = 0;
  for (const PathPart& part : criticalPath(*outcome)) {
    if (part.kind == PathPart::Latency) latency += part.end - part.begin;
  }
  CHECK(latency == Approx(14 * 2));
}

TEST_CASE("a trace has every message and step, and stays within its time") {
  const Network network = networkOf(clusterOf(plain(4, 2, 100)));
  const auto outcome = simulate(network, taskOf(Collective::AllReduce, "ring", 4096), {.record = true});
  REQUIRE(outcome.ok());
  const std::string trace = chromeTrace(*outcome, 100);
  size_t events = 0;
  for (size_t at = 0; (at = trace.find("\"ph\":\"X\"", at)) != std::string::npos; ++at) ++events;
  CHECK(events == outcome->run.steps.size() + outcome->run.sent.size());
  CHECK(outcome->run.sent.size() == 4 * 6);
  CHECK(chromeTrace(*outcome, 1).size() < trace.size() / 2);
  for (const MessageRecord& m : outcome->run.sent) {
    CHECK((m.ready <= m.start && m.start <= m.end && m.end <= m.arrival && m.arrival <= outcome->run.end));
  }
}

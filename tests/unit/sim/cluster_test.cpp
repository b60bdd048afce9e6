#include "tools/cluster/cluster.hpp"

#include <catch2/catch.hpp>
#include <random>

using namespace tutti;
using namespace tutti::sim;

TEST_CASE("a description says what is simulated") {
  const auto c = parseCluster(
      "# a cluster\n\nnodes 64 # many\nmachine gpu:8 nvlink:18x20 nic:8x50\nranks-per-node 4; launch 2.5\n"
      "fabric fat-tree leaf:16 oversubscription:2 hop:0.4\nnear a latency:1 overhead:0.5 efficiency:0.9 gbps:30\n"
      "near b latency:3 receive:0.1 most:4096\nfar c latency:9\nreduce 300\ncopy 700\nslice 512K\nin-flight 4\n",
      "it");
  REQUIRE(c.ok());
  CHECK(c->nRanks() == 256);
  CHECK(c->fabric == FabricSpec{.kind = FabricKind::FatTree, .leafNodes = 16, .oversubscription = 2, .hopUs = 0.4});
  REQUIRE(c->near.size() == 2);
  CHECK(c->near[0] == ProtocolSpec{"a", 0.5, 1, 0, 0.9, 30, 0});
  CHECK(c->near[1] == ProtocolSpec{"b", 0, 3, 0.1, 1, 0, 4096});
  CHECK(c->far.size() == 1);
  CHECK(c->launchUs == 2.5);
  CHECK(c->reduceGBps == 300);
  CHECK(c->copyGBps == 700);
  CHECK(c->sliceBytes == 512 * 1024);
  CHECK(c->inFlight == 4);
  CHECK(describe(*c) == "64 nodes of 4 ranks, fat-tree of 16 nodes a leaf, 2:1");
}

TEST_CASE("what is left out has defaults") {
  const auto c = parseCluster("machine package:2 core:4", "it");
  REQUIRE(c.ok());
  CHECK(c->nRanks() == 2);  // one for each NUMA node
  CHECK(c->near == defaultNear());
  CHECK(c->far == defaultFar());
}

TEST_CASE("a wrong description is refused with its line and what is wrong") {
  struct Row {
    const char* text;
    const char* complaint;
  };
  const char* const machine = "machine gpu:8 nvlink:18x20 nic:8x50\n";
  const auto row = GENERATE(values<Row>({
      {"nodes", "it:2: 'nodes' takes one value"},
      {"nodes 1 2", "it:2: 'nodes' takes one value"},
      {"nodes many", "it:2: nodes: 'many' is not a number"},
      {"nodes 1.5", "it:2: nodes: '1.5' is not a whole number"},
      {"nodes 0", "it:2: nodes: 0 is outside"},
      {"nodes 1e99", "it:2: nodes: 1e+99 is outside"},
      {"nodes nan", "it:2: nodes: 'nan' is not a number"},
      {"launch inf", "it:2: launch: 'inf' is not a number"},
      {"nodes 3\nnodes 3", "it:3: 'nodes' is there already, in line 2"},
      {"nodes 1000000", "it: 1000000 nodes of 8 ranks are more than"},
      {"speed 3", "it:2: 'speed' is no statement"},
      {"machine gpu:4", "it:2: the machine is described already"},
      {"fabric", "it:2: 'fabric' takes a kind"},
      {"fabric mesh", "it:2: fabric 'mesh': there are"},
      {"fabric switch leaf:3", "it:2: 'leaf:3' should be one of hop:"},
      {"fabric fat-tree leaf", "it:2: 'leaf' should be one of hop:, leaf:, oversubscription:"},
      {"fabric fat-tree leaf:2 leaf:3", "it:2: 'leaf' is given twice"},
      {"fabric fat-tree oversubscription:0", "it:2: oversubscription: 0 is outside"},
      {"fabric torus dims:4x4", "it: the torus has room for 16 nodes, there are 1"},
      {"fabric torus", "it: the torus has room for 0 nodes"},
      {"fabric torus dims:4x", "it:2: dims: '' is not a number"},
      {"fabric torus dims:1x1x1x1x1x1x1", "it:2: dims: 1 to 6"},
      {"nodes 4\nfabric dragonfly group:3", "it: dragonfly: 4 nodes cannot be divided"},
      {"near", "it:2: 'near' takes the name"},
      {"near latency:3", "it:2: 'near' takes the name"},
      {"near a latency:-1", "it:2: latency: -1 is outside"},
      {"near a speed:1", "it:2: 'speed:1' should be one of across:, across-copy:, across-write:, copy:, efficiency:"},
      {"near a efficiency:0", "it:2: efficiency: 0 is outside"},
      {"near a\nnear a", "it:3: protocol 'a' is there already"},
      {"slice 3", "it:2: slice: '3' is not a size"},
      {"slice -1", "it:2: slice: '-1' is not a size"},
      {"machine-file /x", "it:2: the machine is described already"},
  }));
  CAPTURE(row.text);
  const auto c = parseCluster(cat(machine, row.text), "it", false);
  REQUIRE_FALSE(c.ok());
  CHECK_THAT(c.status().message(), Catch::StartsWith(row.complaint));
}

TEST_CASE("a description without a usable machine is refused") {
  struct Row {
    const char* text;
    const char* complaint;
  };
  const auto row = GENERATE(values<Row>({
      {"", "it: no 'machine' says what a node is"},
      {"machine", "it:1: 'machine' takes a description"},
      {"machine gpu:x", "it:1: topology:"},
      {"machine node:2 gpu:4", "it:1: the machine has 2 hosts"},
      {"machine-file /etc/passwd", "it:1: machine-file is not allowed here"},
  }));
  CAPTURE(row.text);
  const auto c = parseCluster(row.text, "it", false);
  REQUIRE_FALSE(c.ok());
  CHECK_THAT(c.status().message(), Catch::StartsWith(row.complaint));
}

TEST_CASE("damaged descriptions are refused or sound, never worse") {
  const std::string whole =
      "nodes 4\nmachine gpu:8 nvlink:18x20 nic:8x50\nfabric torus dims:2x2 gbps:25\nnear a latency:1\nslice 1M\n";
  std::mt19937 random(7);
  int sound = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (auto k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random() % 256); break;
        case 1: text.erase(at, 1 + random() % 5); break;
        default: text.insert(at, 1, "0123456789:x;\n#."[random() % 16]);
      }
      if (text.empty()) text.push_back(' ');
    }
    const auto c = parseCluster(text, "it", false);
    if (!c.ok()) {
      REQUIRE_THAT(c.status().message(), Catch::StartsWith("it"));
      continue;
    }
    ++sound;
    REQUIRE(c->nRanks() >= 1);
    REQUIRE((c->nRanks() <= kMostRanks && c->sliceBytes >= 64));
  }
  CHECK(sound > 30);  // else nothing was tried
}

TEST_CASE("too long a text is refused unread, a missing file by name") {
  CHECK_FALSE(parseCluster(std::string(kMostClusterBytes + 1, '\n'), "it").ok());
  CHECK_FALSE(parseCluster(std::string("nodes 4\0", 8), "it").ok());
  const auto missing = loadCluster("/nowhere/cluster.txt");
  REQUIRE_FALSE(missing.ok());
  CHECK_THAT(missing.status().message(), Catch::Contains("/nowhere/cluster.txt"));
  CHECK(loadCluster("nodes 2; machine gpu:4 nvlink:1x10 nic:4x10").ok());
}
